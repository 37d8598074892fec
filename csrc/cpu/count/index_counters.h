// Counts indices (indices.h) of many bins. Each index has a pair of 32-bit counters.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "cpu/count/inner_loops.h"
#include "cpu/count/streams.h"
#include "cpu/count/tables.h"
#include "cpu/tuning.h"

namespace histo::cpu {

/// Adds the length of every run of equal indices to its counter [index][kLanes].
template <int kLanes, class Counter>
[[gnu::noinline]] void count_runs(
    const uint32_t* indices, int64_t size, Counter* table, Ahead& ahead) {
  constexpr int64_t kLine = tuning::kLineBytes / static_cast<int64_t>(sizeof *indices);
  constexpr int64_t kBlock = 64;
  static_assert(tuning::kIndexedElements <= UINT16_MAX);
  uint16_t ends[tuning::kIndexedElements + tuning::kEndsAtOnce];
  int64_t runs = 0;
  int64_t i = 1;
  for (; i + kBlock <= size; i += kBlock) {
#pragma GCC unroll 4
    for (int64_t line = 0; line < kBlock / kLine; ++line) {
      ahead.fetch();
    }
    uint8_t differ[kBlock];
    for (int64_t j = 0; j < kBlock; ++j) {
      differ[j] = indices[i + j] != indices[i + j - 1];
    }
    uint64_t bits = 0;
#pragma GCC unroll 8
    for (int64_t j = 0; j < kBlock; j += 8) {
      uint64_t bytes;
      std::memcpy(&bytes, differ + j, sizeof bytes);
      bits |= bytes * 0x0102040810204080 >> 56 << j;
    }
    // Takes several ends at once. A branch for each would be mispredicted if there are few.
    int64_t left = __builtin_popcountll(bits);
    do {
#pragma GCC unroll 4
      for (int64_t j = 0; j < tuning::kEndsAtOnce; ++j) {
        ends[runs + j] = static_cast<uint16_t>(i + __builtin_ctzll(bits | uint64_t{1} << 63));
        bits &= bits - 1;
      }
      runs += std::min(left, tuning::kEndsAtOnce);
      left -= tuning::kEndsAtOnce;
    } while (left > 0);
  }
  for (; i < size; ++i) {
    ends[runs] = static_cast<uint16_t>(i);
    runs += indices[i] != indices[i - 1];
  }
  ends[runs] = static_cast<uint16_t>(size);
  Counter begin = 0;
  for (int64_t run = 0; run <= runs; ++run) {
    table[kLanes * indices[begin]] += ends[run] - begin;
    begin = ends[run];
  }
}

/// Adds the counts of two indices to their counters [index][kLanes]. If there are other indices, it
/// adds nothing and returns false.
template <int kLanes, class Counter>
[[gnu::noinline]] bool count_two_values(const uint32_t* indices, int64_t size, Counter* table) {
  const uint32_t first = indices[0];
  const auto* other =
      std::find_if(indices, indices + size - 1, [=](uint32_t index) { return index != first; });
  const uint32_t second = *other;
  Counter firsts = 0;
  for (int64_t begin = 0; begin < size; begin += tuning::kComparedElements) {
    const int64_t end = std::min(size, begin + tuning::kComparedElements);
    Counter found = 0, others = 0;
    for (int64_t i = begin; i < end; ++i) {
      found += indices[i] == first;
      others += indices[i] != first && indices[i] != second;
    }
    if (others != 0) {
      return false;
    }
    firsts += found;
  }
  table[kLanes * first] += firsts;
  table[kLanes * second] += static_cast<Counter>(size) - firsts;
  return true;
}

using IndexShape =
    CounterShape<1, tuning::kLanesPerPair, tuning::kLanesPerPair, tuning::kUnrolledElements>;
using IndexTables = CounterTables<uint32_t, IndexShape>;

/// Counts up to kIndexedElements indices. The number of equal neighbours decides how.
inline void count_indices(
    const uint32_t* indices,
    int64_t size,
    Agreement neighbours,
    IndexTables& tables,
    int64_t channel,
    Ahead& ahead) {
  constexpr int kLanes = IndexShape::kLanes;
  uint32_t* table = tables.at(channel);
  if (neighbours == Agreement::kComplete) {
    count_runs<kLanes>(indices, size, table, ahead);
  } else if (neighbours != Agreement::kUsual || !count_two_values<kLanes>(indices, size, table)) {
    const auto same = [](uint32_t index) { return static_cast<size_t>(index); };
    count_stream<IndexShape>(Stream<uint32_t>{indices, 1, size}, same, tables, channel, ahead);
  }
}

} // namespace histo::cpu
