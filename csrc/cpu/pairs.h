// The inner loops: elements into small tables of counters.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tuning.h"

namespace histo::cpu {

/// Elements as rows of slots: element (row, slot) lies at the sum of its index times step
/// from `data`.
template <class T>
struct Rows {
  const T* data;
  int64_t slot_step;
  int64_t row_step;
  int64_t size;
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

/// Adds every element to counter [pair][index_of(element)][slot]; pairs are `pair_size`
/// counters apart. kPairs of them are counted in turns. A function of its own: the loop
/// needs every register.
template <int kPairs, bool kAdjacent, class Counter, class T, class IndexOf>
[[gnu::noinline]] void count_slots(
    const Rows<T>& rows, IndexOf index_of, Counter* tables, int64_t pair_size, Ahead& ahead) {
  constexpr int64_t kPerRow = tuning::kSlotsPerPair * kPairs;
  constexpr int64_t kUnrolled = std::max<int64_t>(1, tuning::kUnrolledElements / kPerRow);
  constexpr int64_t kLine = tuning::kLineBytes / static_cast<int64_t>(sizeof(T));
  constexpr int64_t kRows = std::max(kUnrolled, kLine / kPerRow);
  constexpr int64_t kLines = kRows * kPerRow / kLine;
  const int64_t slot_step = kAdjacent ? 1 : rows.slot_step;
  const T* data = rows.data;
  Ahead next = ahead;
  const auto add_row = [&] {
#pragma GCC unroll 8
    for (int pair = 0; pair < kPairs; ++pair) {
      const T* first = data + pair * tuning::kSlotsPerPair * slot_step;
      Counter* table = tables + pair * pair_size;
      ++table[tuning::kSlotsPerPair * index_of(first[0])];
      ++table[tuning::kSlotsPerPair * index_of(first[slot_step]) + 1];
    }
    data += rows.row_step;
  };
  int64_t row = 0;
  for (; row + kRows <= rows.size; row += kRows) {
#pragma GCC unroll 8
    for (int64_t line = 0; line < kLines; ++line) {
      next.fetch();
    }
#pragma GCC unroll 1
    for (int64_t i = 0; i < kRows; i += kUnrolled) {
#pragma GCC unroll 8
      for (int64_t j = 0; j < kUnrolled; ++j) {
        add_row();
      }
    }
  }
  for (; row < rows.size; ++row) {
    add_row();
  }
  ahead = next;
}

template <int kPairs, class Counter, class T, class IndexOf>
void count_pairs(
    const Rows<T>& rows,
    const IndexOf& index_of,
    Counter* tables,
    int64_t pair_size,
    Ahead& ahead) {
  if (rows.slot_step == 1) {
    count_slots<kPairs, true>(rows, index_of, tables, pair_size, ahead);
  } else {
    count_slots<kPairs, false>(rows, index_of, tables, pair_size, ahead);
  }
}

enum class Agreement { kRare, kFrequent, kComplete };

/// How many of `size` values, a step apart, equal the one `distance` steps on, to which the
/// same slot goes.
template <class T, class IndexOf>
Agreement agreement_of(
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
  if (sample <= 0 || found * tuning::kSample <= tuning::kMaxAgreeing * sample) {
    return Agreement::kRare;
  }
  return found == sample / 2 * 2 ? Agreement::kComplete : Agreement::kFrequent;
}

} // namespace histo::cpu
