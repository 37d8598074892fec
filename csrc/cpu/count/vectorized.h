// Loops over tables and bytes that are vectorized for the processor at hand.
#pragma once

#include <cstdint>

namespace histo::cpu {

/// Reduces counts of neighbours, [256][256], to counts of bytes, [256].
template <class Counter>
void reduce_joint(const Counter* joint, uint32_t* counts);

/// Two bytes make one index, whichever comes first: 256 * difference + byte. The other byte is
/// byte + difference mod 256. This takes half of the counters that neighbours in order take, and
/// the counters of equal neighbours lie together.
constexpr int64_t kPairIndices = (128 + 1) * 256;
/// Counters from one table to the next: a line more than a multiple of 1024 bytes.
constexpr int64_t kPairTableSize = kPairIndices + 16;
/// The bytes that are counted together.
constexpr int64_t kPairBlock = 64;

/// Adds one to the counter of every pair of neighbours in all whole blocks. The pairs go to
/// kTablesOfPairs tables in turns. Returns how many bytes were counted.
int64_t count_pairs(const uint8_t* data, int64_t size, uint32_t* tables);

/// Reduces counts of pairs, in all tables, to counts of bytes, [256].
void reduce_pairs(const uint32_t* tables, uint32_t* counts);

/// A number that no counter exceeds.
uint16_t bound_of(const uint16_t* counters, int64_t size);

/// The sum of less than 2^24 counters.
uint32_t sum_of(const uint8_t* counters, int64_t size);

} // namespace histo::cpu
