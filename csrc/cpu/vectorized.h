// The loops that are vectorized for the processor at hand. Of the instruction sets that it has
// the widest is chosen, once; the environment variable TORCH_HISTO_CPU=portable, =avx2 or =avx512
// chooses a narrower one.
#pragma once

#include <cstdint>

namespace histo::cpu {

/// The set that was chosen: "portable", "avx2", "avx512" or "amx".
const char* chosen_loops();

bool has_avx512();

/// Whether matrices of bytes are multiplied, too: the widest set is chosen.
bool has_amx();

/// Whether a counter of 16 bits is stored as fast as one of 32: by AMD's processors with AVX-512 and
/// Intel's. The environment variable TORCH_HISTO_CPU_COUNTERS=16, =32 or =mixed (16 here, 32 below)
/// says otherwise.
bool stores_narrow();

/// Whether the processor also foresees which store an addition waits for: AMD's from Zen 5 on, unless
/// that variable says otherwise.
bool foresees_stores();

/// indices[i] = values[i] + 1 where 0 <= values[i] < num_bins, else 0 or num_bins + 1, which are no
/// bin's. num_bins < 2^31. Indices are no larger where values change meanwhile.
template <class T>
void make_indices(const T* values, int64_t size, int64_t num_bins, uint32_t* indices);

/// Counts of neighbours, [256][256], to counts of bytes, [256].
template <class Counter>
void fold_joint(const Counter* joint, uint32_t* counts);

/// Two bytes make one index, whichever comes first: 256 * difference + byte, where the other is
/// byte + difference mod 256. It takes half of the counters that neighbours in order take, and
/// those of neighbours that are alike lie together.
constexpr int64_t kPairIndices = (128 + 1) * 256;
/// From one table to the next, in counters: a line farther than a multiple of 1024 bytes.
constexpr int64_t kPairTableSize = kPairIndices + 16;
/// So many bytes are counted together.
constexpr int64_t kPairBlock = 64;

/// Adds one to the counter of every pair of neighbours in all whole blocks; they take kTablesOfPairs
/// tables in turns. Returns how many bytes that were.
int64_t count_pairs(const uint8_t* data, int64_t size, uint32_t* tables);

/// Counts of pairs in all tables to counts of bytes, [256].
void fold_pairs(const uint32_t* tables, uint32_t* counts);

/// What no counter exceeds.
uint16_t bound_of(const uint16_t* counters, int64_t size);

/// Of less than 2^24 counters.
uint32_t sum_of(const uint8_t* counters, int64_t size);

} // namespace histo::cpu
