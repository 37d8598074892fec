// The inner loops: elements into small tables of counters.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tuning.h"

namespace histo::cpu {

/// Elements as rows of pairs of slots: element (row, pair, slot) lies at the sum of its
/// index times step from `data`.
template <class T>
struct Pairs {
  const T* data;
  int64_t slot_step;
  int64_t pair_step;
  int64_t row_step;
  int64_t rows;
};

/// What is loaded next, a line for each line of elements that is counted.
struct Ahead {
  const char* line;
  int64_t step;

  void fetch() {
    __builtin_prefetch(line);
    line += step;
  }
};

/// Adds every element to counter [pair][index_of(element)][slot]; a pair has `pair_size`
/// counters. kPairs of them are counted in turns.
template <int kPairs, class Counter, class T, class IndexOf>
void count_pairs(
    const Pairs<T>& from,
    const IndexOf& index_of,
    Counter* tables,
    int64_t pair_size,
    Ahead& ahead) {
  constexpr int64_t kLine = tuning::kLineBytes / static_cast<int64_t>(sizeof(T));
  constexpr int64_t kRows = std::max<int64_t>(1, kLine / (tuning::kSlotsPerPair * kPairs));
  const T* data = from.data;
  const auto add_row = [&] {
#pragma GCC unroll 4
    for (int pair = 0; pair < kPairs; ++pair) {
      const T* first = data + pair * from.pair_step;
      Counter* table = tables + pair * pair_size;
      ++table[tuning::kSlotsPerPair * index_of(first[0])];
      ++table[tuning::kSlotsPerPair * index_of(first[from.slot_step]) + 1];
    }
    data += from.row_step;
  };
  int64_t row = 0;
  for (; row + kRows <= from.rows; row += kRows) {
    ahead.fetch();
#pragma GCC unroll 8
    for (int64_t i = 0; i < kRows; ++i) {
      add_row();
    }
  }
  for (; row < from.rows; ++row) {
    add_row();
  }
}

/// Whether many of `size` values, a step apart, equal the one `distance` steps on, to which
/// the same slot goes.
template <class T, class IndexOf>
bool values_agree(
    const T* data, int64_t step, int64_t distance, int64_t size, const IndexOf& index_of) {
  const int64_t sample = std::min(tuning::kSample, size - 3 * distance);
  const auto agreeing = [&](const T* first) {
    int64_t sum = 0;
    for (int64_t i = 0; i < sample / 2; ++i) {
      sum += index_of(first[i * step]) == index_of(first[(i + distance) * step]);
    }
    return sum;
  };
  // At the beginning and in the middle.
  const int64_t found = agreeing(data) + agreeing(data + size / 2 * step);
  return found * tuning::kSample > tuning::kMaxAgreeing * sample && sample > 0;
}

} // namespace histo::cpu
