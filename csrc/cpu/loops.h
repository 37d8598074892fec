// The inner loops: elements into small tables of counters.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

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

/// Neighbours as one index. They may lie at any address.
struct TwoBytes {
  uint8_t bytes[2];

  size_t index() const {
    uint16_t both;
    std::memcpy(&both, bytes, sizeof both);
    return both;
  }
};

/// What is loaded next, as much as a line for each line of elements that is counted.
struct Ahead {
  const char* line;
  int64_t step;

  void fetch() {
    __builtin_prefetch(line);
    // Rows that are no multiple of a line long begin and end within lines.
    __builtin_prefetch(line + tuning::kLineBytes - 1);
    line += step;
  }
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

/// Adds kAdded to the counter of each value, up to the first block in which one has a bit of
/// `outside`. Returns how many have been counted. A value may change after its bits were looked at, so
/// its lowest 16 alone say which counter it has: there is room for all of them.
template <int kAdded, class T>
[[gnu::noinline]] int64_t count_values(const T* data, int64_t size, T outside, uint8_t* counters) {
  constexpr int64_t kBlock = tuning::kValuesAtOnce;
  constexpr int64_t kLine = tuning::kLineBytes / static_cast<int64_t>(sizeof(T));
  constexpr int64_t kAhead = tuning::kValuesAheadBytes / static_cast<int64_t>(sizeof(T));
  int64_t i = 0;
  for (; i + kBlock <= size; i += kBlock) {
    T bits = 0;
    for (int64_t j = 0; j < kBlock; ++j) {
      bits |= data[i + j];
    }
    if ((bits & outside) != 0) {
      break;
    }
#pragma GCC unroll 8
    for (int64_t j = 0; j < kBlock; j += kLine) {
      __builtin_prefetch(data + i + j + kAhead);
    }
    if constexpr (sizeof(T) == 4) {
#pragma GCC unroll 64
      for (int64_t j = 0; j < kBlock; j += 2) {
        uint64_t two;
        std::memcpy(&two, data + i + j, sizeof two);
        counters[static_cast<uint16_t>(two)] += kAdded;
        counters[static_cast<uint16_t>(two >> 32)] += kAdded;
      }
    } else {
#pragma GCC unroll 64
      for (int64_t j = 0; j < kBlock; ++j) {
        counters[static_cast<uint16_t>(data[i + j])] += kAdded;
      }
    }
  }
  return i;
}

/// Adds kAdded to the counter of every two bytes of a line.
template <int kAdded>
[[gnu::always_inline]] inline void count_line(const void* line, uint8_t* counters) {
#pragma GCC unroll 8
  for (int64_t i = 0; i < tuning::kLineBytes; i += 8) {
    uint64_t four;
    std::memcpy(&four, static_cast<const char*>(line) + i, sizeof four);
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      counters[static_cast<uint16_t>(four >> (16 * j))] += kAdded;
    }
  }
}

/// Adds kAdded to the counter of every two bytes. Returns how many, `size` or a little less.
template <int kAdded>
[[gnu::noinline]] int64_t count_neighbours(const uint8_t* data, int64_t size, uint8_t* counters) {
  constexpr int64_t kBlock = tuning::kLineBytes / 2;
  int64_t i = 0;
  for (; i + kBlock <= size; i += kBlock, data += tuning::kLineBytes) {
    __builtin_prefetch(data + tuning::kValuesAheadBytes);
    count_line<kAdded>(data, counters);
  }
  return i;
}

/// Adds the length of every run of equal indices to its counter [index][kSlots].
template <int kSlots, class Counter>
[[gnu::noinline]] void count_runs(
    const uint32_t* indices, int64_t size, Counter* table, Ahead& ahead) {
  constexpr int64_t kLine = tuning::kLineBytes / static_cast<int64_t>(sizeof *indices);
  constexpr int64_t kBlock = 64;
  static_assert(tuning::kStagedElements <= UINT16_MAX);
  uint16_t ends[tuning::kStagedElements + tuning::kEndsAtOnce];
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
    // So many at once: of few a branch for each would be mispredicted.
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
    table[kSlots * indices[begin]] += ends[run] - begin;
    begin = ends[run];
  }
}

/// Adds the counts of two indices to their counters [index][kSlots]. False where there are others,
/// and nothing is added.
template <int kSlots, class Counter>
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
  table[kSlots * first] += firsts;
  table[kSlots * second] += static_cast<Counter>(size) - firsts;
  return true;
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
