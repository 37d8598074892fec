// Common to the ways of counting streams: chunks of rows, and the tables of elements.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "cpu/count/indices.h"
#include "cpu/count/inner_loops.h"
#include "cpu/count/panel.h"
#include "cpu/count/result.h"
#include "cpu/count/tables.h"

namespace histo::cpu {

/// Elements of one channel, `step` apart.
template <class T>
struct Stream {
  const T* data;
  int64_t step;
  int64_t size;
};

/// The chunks that the rows of a panel are cut into. Channels that lie together read a chunk in
/// turns, from the L1 cache. One channel may have longer chunks, and fetches farther
/// ahead.
template <class T>
class StreamChunks {
 public:
  StreamChunks(
      const InputPanel<T>& panel,
      int64_t rows_alone,
      int64_t bytes_ahead_alone,
      int64_t together = 0)
      : rows_ahead_(
            (panel.channels.size > 1 ? tuning::kChunkBytes : bytes_ahead_alone) /
            (std::max<int64_t>(panel.rows.stride, 1) * static_cast<int64_t>(sizeof(T)))),
        rows_(
            panel.channels.size == 1 ? rows_alone
            : together > 0           ? together
                                     : std::max(tuning::kMinStream, rows_ahead_)) {
  }

  /// The rows of the next chunk.
  int64_t size(const InputPanel<T>& rest) const {
    return std::min(rows_, rest.rows.size);
  }

  /// The elements that are fetched while a chunk is counted.
  Ahead ahead(const InputPanel<T>& rest, int64_t size) const {
    const bool more = size + rows_ahead_ <= rest.rows.size;
    return {
        reinterpret_cast<const char*>(more ? rest.from(rows_ahead_).data : rest.data),
        more ? tuning::kLineBytes : 0};
  }

 private:
  int64_t rows_ahead_;
  int64_t rows_;
};

/// Calls f(stream, channel) for each channel of a chunk.
template <class T, class F>
void for_each_stream(const InputPanel<T>& chunk, const F& f) {
  for (int64_t channel = 0; channel < chunk.channels.size; ++channel) {
    const T* first = chunk.data + channel * chunk.channels.stride;
    f(Stream<T>{first, chunk.rows.stride, chunk.rows.size}, channel);
  }
}

/// Adds one to a counter of every element. The counters of one pattern take turns as Shape says.
/// The elements behind the last whole batch go to the first counter of each pattern.
template <class Shape, class AnyTables, class T, class Index>
void count_stream(
    const Stream<T>& stream, const Index& index, AnyTables& tables, int64_t channel, Ahead& ahead) {
  using Counter = typename AnyTables::Counter;
  const auto& [data, step, size] = stream;
  Counter* table = tables.at(channel);
  const int64_t batches = size / Shape::kPerBatch;
  const auto count = [&, data = data](const auto& steps) {
    count_batches<Shape>(data, steps, batches, index, table, tables.table_size(), ahead);
  };
  // Pixels of three channels have constant steps, too. With 16 bits this was not measured.
  constexpr int64_t kPixel = sizeof(Counter) == sizeof(uint32_t) ? 3 : 1;
  if (step == 1) {
    count(FixedSteps<1, 1, Shape::kRun, Shape::kPerBatch>{});
  } else if (step == kPixel) {
    count(FixedSteps<kPixel, kPixel, kPixel * Shape::kRun, kPixel * Shape::kPerBatch>{});
  } else {
    count(Steps{step, step, Shape::kRun * step, Shape::kPerBatch * step});
  }
  for (int64_t i = batches * Shape::kPerBatch; i < size; ++i) {
    ++table[Shape::kLanes * index(data[i * step])];
  }
}

/// The most that a counter gets from a stream of `size` elements.
template <class AnyTables>
constexpr int64_t share_of_counter(int64_t size) {
  return size / AnyTables::Shape::kCounters + AnyTables::Shape::kPerBatch;
}

/// The sum of all counters of an index.
template <class Shape, class Counter>
[[gnu::always_inline]] inline int64_t sum_of_lanes(
    const Counter* tables, int64_t table_size, int64_t index) {
  uint32_t sum = 0;
  for (int table = 0; table < Shape::kTables; ++table) {
    const Counter* lanes = tables + table * table_size + Shape::kLanes * index;
    if constexpr (sizeof(Counter) > 2 || Shape::kLanes == 1) {
      for (int lane = 0; lane < Shape::kLanes; ++lane) {
        sum += lanes[lane];
      }
    } else {
      // Two at a time, which compilers vectorize better.
      for (int lane = 0; lane < Shape::kLanes; lane += 2) {
        uint32_t both;
        std::memcpy(&both, lanes + lane, sizeof both);
        sum += (both & 0xffff) + (both >> 16);
      }
    }
  }
  return int64_t{sum};
}

/// Adds the counts of streams to the result. Bin 0 has the index kFirst.
template <int64_t kFirst, class AnyTables>
void put_streams(const AnyTables& tables, Result& result) {
  using Shape = typename AnyTables::Shape;
  result.locked([&] {
    for (int64_t channel = 0; channel < result.num_channels(); ++channel) {
      const auto* counts = tables.counts(channel);
      const int64_t table_size = tables.table_size();
      result.put(channel, [=](int64_t pattern) {
        return sum_of_lanes<Shape>(counts, table_size, pattern + kFirst);
      });
    }
  });
}

/// Adds counts of bytes, [256], to the result.
inline void put_bytes(const uint32_t (&counts)[256], int64_t channel, const Result& result) {
  result.put(channel, [&](int64_t byte) { return int64_t{counts[byte]}; });
}

} // namespace histo::cpu
