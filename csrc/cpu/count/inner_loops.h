// The inner loops, which count elements in small tables.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "cpu/count/panel.h"
#include "cpu/read_once.h"
#include "cpu/tuning.h"

namespace histo::cpu {

/// Distances between elements: of neighbouring lanes; from the last lane to the next element of the
/// first lane; of neighbouring tables; and of neighbouring batches.
struct Steps {
  int64_t lane;
  int64_t turn;
  int64_t table;
  int64_t batch;
};

/// Constant steps, which the compiler adds up in advance.
template <int64_t kLane, int64_t kTurn, int64_t kTable, int64_t kBatch>
struct FixedSteps {
  static constexpr int64_t lane = kLane;
  static constexpr int64_t turn = kTurn;
  static constexpr int64_t table = kTable;
  static constexpr int64_t batch = kBatch;
};

/// Tables of counters [index][lane], and how elements are shared out among them. A lane is one of
/// the counters of an index, which lie together. A batch has kRun elements for each table, and the
/// lanes of the table take them in turns. The loop is unrolled to kUnrolled elements. The counters
/// of one element of each batch are prefetched, kFetched elements ahead; 0 means not at all.
template <int kTheTables, int kTheLanes, int kTheRun, int64_t kUnrolled, int64_t kFetched = 0>
struct CounterShape {
  static constexpr int kTables = kTheTables;
  static constexpr int kLanes = kTheLanes;
  static constexpr int kRun = kTheRun;
  static constexpr int kTurns = kRun / kLanes;           // of each lane
  static constexpr int64_t kCounters = kTables * kLanes; // of an index
  static constexpr int64_t kPerBatch = kTables * kRun;
  static constexpr int64_t kUnrolledBatches = std::max<int64_t>(1, kUnrolled / kPerBatch);
  static constexpr int64_t kFetchedBatches = kFetched / kPerBatch;
  /// The outer loop takes whole lines, of this number of elements.
  static constexpr int64_t batches_of_turn(int64_t line) {
    return std::max(kUnrolledBatches, line / kPerBatch);
  }
};

/// Adds one to a counter of every element of `size` batches; tables are `table_size` counters
/// apart. It is a function of its own because the loop needs every register.
template <class Shape, class Steps, class Counter, class T, class IndexOf>
[[gnu::noinline]] void count_batches(
    const T* data,
    const Steps& steps,
    int64_t size,
    IndexOf index_of,
    Counter* tables,
    int64_t table_size,
    Ahead& ahead) {
  constexpr int kLanes = Shape::kLanes;
  constexpr int64_t kLine = tuning::kLineBytes / static_cast<int64_t>(sizeof(T));
  constexpr int64_t kBatches = Shape::batches_of_turn(kLine);
  constexpr int64_t kFetched = Shape::kFetchedBatches;
  int64_t batch_step = steps.batch;
  if constexpr (kFetched > 0) {
    __asm__("" : "+r"(batch_step)); // Workaround gcc-12-no-constant: see docs/tuning.md
  }
  Ahead next = ahead;
  Counter* table_at[Shape::kTables];
  for (int table = 0; table < Shape::kTables; ++table) {
    table_at[table] = tables + table * table_size;
    // Without this the compiler adds the table's offset to every index.
    __asm__("" : "+r"(table_at[table]));
  }
  const auto add_batch = [&] {
#pragma GCC unroll 16
    for (int table = 0; table < Shape::kTables; ++table) {
      const T* element = data + table * steps.table;
#pragma GCC unroll 16
      for (int i = 0; i < Shape::kRun; ++i) {
        const int lane = i % kLanes;
        ++table_at[table][kLanes * index_of(*element) + lane];
        element += lane + 1 < kLanes ? steps.lane : steps.turn;
      }
    }
    data += batch_step;
  };
  const auto fetch_counters = [&] {
    if constexpr (kFetched > 0) {
      const auto index = index_of(data[kFetched * batch_step]);
#pragma GCC unroll 16
      for (int table = 0; table < Shape::kTables; ++table) {
        __builtin_prefetch(table_at[table] + kLanes * index, 1);
      }
    }
  };
  int64_t batch = 0;
  for (; batch + kBatches + kFetched <= size; batch += kBatches) {
#pragma GCC unroll 8
    for (int64_t line = 0; line < kBatches * Shape::kPerBatch / kLine; ++line) {
      next.fetch();
    }
#pragma GCC unroll 1
    for (int64_t i = 0; i < kBatches; i += Shape::kUnrolledBatches) {
#pragma GCC unroll 16
      for (int64_t j = 0; j < Shape::kUnrolledBatches; ++j) {
        fetch_counters();
        add_batch();
      }
    }
  }
  for (; batch < size; ++batch) {
    add_batch();
  }
  ahead = next;
}

/// How often elements equal another one: never, rarely, sometimes, often, or nearly always.
enum class Agreement { kNone, kRare, kFrequent, kUsual, kComplete };

/// How often an element equals the one that lies `distance` further, in a sample of `size` elements
/// that lie a step apart.
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
  // The sample is taken at the beginning and in the middle.
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
