// The inner loops: elements into small tables of counters.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "panel.h"
#include "read_once.h"
#include "tuning.h"

namespace histo::cpu {

/// How far it is from an element to that of the next slot, from the last slot to the first again,
/// from a table's elements to the next one's, and from row to row.
struct Steps {
  int64_t slot;
  int64_t turn;
  int64_t table;
  int64_t row;
};

/// As constants: no additions are left of them.
template <int64_t kSlot, int64_t kTurn, int64_t kTable, int64_t kRow>
struct FixedSteps {
  static constexpr int64_t slot = kSlot;
  static constexpr int64_t turn = kTurn;
  static constexpr int64_t table = kTable;
  static constexpr int64_t row = kRow;
};

/// Tables of counters [index][slot], and how elements go to them: of a row of elements each table
/// gets kRun, which its slots take in turns. kUnrolled elements make one turn of the loop.
/// kFetched: how many elements ahead counters are fetched, of one element a row.
template <int kTheTables, int kTheSlots, int kTheRun, int64_t kUnrolled, int64_t kFetched = 0>
struct Shape {
  static constexpr int kTables = kTheTables;
  static constexpr int kSlots = kTheSlots;
  static constexpr int kRun = kTheRun;
  static constexpr int kTurns = kRun / kSlots;           // of each slot
  static constexpr int64_t kCounters = kTables * kSlots; // of an index
  static constexpr int64_t kPerRow = kTables * kRun;
  static constexpr int64_t kUnrolledRows = std::max<int64_t>(1, kUnrolled / kPerRow);
  static constexpr int64_t kFetchedRows = kFetched / kPerRow;
};

/// Adds one to a counter of every element of `size` rows; tables are `table_size` counters apart.
/// A function of its own: the loop needs every register.
template <class Shape, class Steps, class Counter, class T, class IndexOf>
[[gnu::noinline]] void count_rows(
    const T* data,
    const Steps& steps,
    int64_t size,
    IndexOf index_of,
    Counter* tables,
    int64_t table_size,
    Ahead& ahead) {
  constexpr int kTables = Shape::kTables;
  constexpr int kSlots = Shape::kSlots;
  constexpr int64_t kUnrolled = Shape::kUnrolledRows;
  constexpr int64_t kLine = tuning::kLineBytes / static_cast<int64_t>(sizeof(T));
  constexpr int64_t kRows = std::max(kUnrolled, kLine / Shape::kPerRow);
  constexpr int64_t kLines = kRows * Shape::kPerRow / kLine;
  constexpr int64_t kFetched = Shape::kFetchedRows;
  int64_t row_step = steps.row;
  if constexpr (kFetched > 0) {
    // No constant: runs of int64 in 256 bins 4.4, of int32 in 1024 bins 3.3, else 2.95 and 3.0.
    __asm__("" : "+r"(row_step));
  }
  Ahead next = ahead;
  Counter* table_at[kTables];
  for (int table = 0; table < kTables; ++table) {
    table_at[table] = tables + table * table_size;
    // Or else the compiler adds its offset to every index.
    __asm__("" : "+r"(table_at[table]));
  }
  const auto add_row = [&] {
#pragma GCC unroll 16
    for (int table = 0; table < kTables; ++table) {
      const T* element = data + table * steps.table;
#pragma GCC unroll 16
      for (int i = 0; i < Shape::kRun; ++i) {
        const int slot = i % kSlots;
        ++table_at[table][kSlots * index_of(*element) + slot];
        element += slot + 1 < kSlots ? steps.slot : steps.turn;
      }
    }
    data += row_step;
  };
  const auto fetch_counters = [&] {
    if constexpr (kFetched > 0) {
      const auto index = index_of(data[kFetched * row_step]);
#pragma GCC unroll 16
      for (int table = 0; table < kTables; ++table) {
        __builtin_prefetch(table_at[table] + kSlots * index, 1);
      }
    }
  };
  int64_t row = 0;
  for (; row + kRows + kFetched <= size; row += kRows) {
#pragma GCC unroll 8
    for (int64_t line = 0; line < kLines; ++line) {
      next.fetch();
    }
#pragma GCC unroll 1
    for (int64_t i = 0; i < kRows; i += kUnrolled) {
#pragma GCC unroll 16
      for (int64_t j = 0; j < kUnrolled; ++j) {
        fetch_counters();
        add_row();
      }
    }
  }
  for (; row < size; ++row) {
    add_row();
  }
  ahead = next;
}

enum class Agreement { kNone, kRare, kFrequent, kUsual, kComplete };

/// How many of `size` elements, a step apart, equal the one `distance` on, in a sample of them.
template <class T, class IndexOf>
Agreement agreement_of(
    const T* data, int64_t size, int64_t step, int64_t distance, const IndexOf& index_of) {
  const int64_t half = std::min(tuning::kSample, size) / 2;
  if (half <= 0) {
    return Agreement::kNone;
  }
  const auto agreeing = [&](const T* first) {
    int64_t sum = 0;
    for (int64_t i = 0; i < half; ++i) {
      sum += index_of(first[i * step]) == index_of(first[i * step + distance]);
    }
    return sum;
  };
  // At the beginning and in the middle.
  const int64_t found = agreeing(data) + agreeing(data + size / 2 * step);
  const auto is_rare = [&](int64_t part) {
    return part * tuning::kSample <= tuning::kMaxAgreeing * 2 * half;
  };
  return found == 0                                                  ? Agreement::kNone
         : is_rare(found)                                            ? Agreement::kRare
         : is_rare(2 * half - found)                                 ? Agreement::kComplete
         : found * tuning::kSample > tuning::kMaxFrequent * 2 * half ? Agreement::kUsual
                                                                     : Agreement::kFrequent;
}

} // namespace histo::cpu
