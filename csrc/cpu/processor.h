// The processor's instruction sets. The widest is chosen, once. The environment variable
// TORCH_HISTO_CPU=portable, =avx2 or =avx512 chooses a narrower one.
#pragma once

namespace histo::cpu {

enum class InstructionSet { kPortable, kAvx2, kAvx512, kAmx };

InstructionSet chosen_set();

/// Its name: "portable", "avx2", "avx512" or "amx".
const char* chosen_loops();

bool has_avx512();

/// Whether matrices of bytes are multiplied, too.
bool has_amx();

/// Whether a counter of 16 bits is stored as fast as one of 32. AMD's processors with AVX-512 and
/// Intel's do. The environment variable TORCH_HISTO_CPU_COUNTERS=16, =32 or =mixed (16 here, 32
/// below) says otherwise.
bool stores_narrow();

/// Whether the processor also foresees which store an addition waits for. AMD's do from Zen 5 on.
/// The same variable says otherwise.
bool foresees_stores();

} // namespace histo::cpu
