// The processor's instruction sets. The widest is chosen, once. The environment variable
// TORCH_HISTO_CPU=portable or =avx2 chooses a narrower one.
#pragma once

namespace histo::cpu {

enum class InstructionSet { kPortable, kAvx2, kAvx512 };

InstructionSet chosen_set();

/// Its name: "portable", "avx2" or "avx512".
const char* chosen_loops();

bool has_avx512();

/// Whether additions to a counter of 16 bits are as fast as to one of 32: each load of a counter
/// takes what the store before it wrote (store forwarding). That holds on AMD's processors with
/// AVX-512 and on Intel's. The environment variable TORCH_HISTO_CPU_COUNTERS=16, =32 or =mixed (16
/// here, 32 below) says otherwise.
bool forwards_16_bit_stores();

/// Whether the processor also predicts which store the load of an addition depends on, in a table
/// of counters of 16 bits (memory disambiguation). AMD's do from Zen 5 on. The same variable says
/// otherwise.
bool disambiguates_memory();

} // namespace histo::cpu
