// Bins are kept in tables of small counters, which are reduced before one could overflow.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "cpu/count/vectorized.h"
#include "cpu/plan.h"

namespace histo::cpu {

/// The largest count of a counter, so that the counters of an index have less than 2^32 together.
template <class Counter, class Shape>
constexpr int64_t max_count_of() {
  if constexpr (sizeof(Counter) == 2) {
    return UINT16_MAX;
  } else {
    static_assert(sizeof(Counter) == 4);
    return UINT32_MAX / Shape::kCounters;
  }
}

/// Calls f(TypeTag<Counter>{}) with the counters of tables of up to kMaxBinsOfSmallTables bins.
template <class F>
decltype(auto) visit_counter_type(Counting counting, const F& f) {
  switch (counting) {
    case Counting::kIn16Bits:
      return f(TypeTag<uint16_t>{});
    case Counting::kIn32Bits:
      return f(TypeTag<uint32_t>{});
    case Counting::kIndexed:
      break;
  }
  throw InternalError("visit_counter_type: more bins than small tables have");
}

/// Tables [index][lane] for each of some channels. Shape says how they are used (inner_loops.h).
template <class TheCounter, class TheShape>
class CounterTables {
 public:
  using Counter = TheCounter;
  using Shape = TheShape;

  /// The tables of a channel lie `channel_bytes` behind those of the one before.
  CounterTables(const Group& group, char* scratch, int64_t channels = 1, int64_t channel_bytes = 0)
      : group_(group), scratch_(scratch), channels_(channels), channel_bytes_(channel_bytes) {
  }

  /// Counters from one table to the next.
  int64_t table_size() const {
    return group_.table_bytes / static_cast<int64_t>(sizeof(Counter));
  }

  /// The tables of a channel, to count in. They are cleared when one is first needed, because most
  /// inputs need only one of the two groups of tables.
  Counter* at(int64_t channel = 0) {
    if (!in_use_) {
      in_use_ = true;
      clear();
    }
    return tables_of(channel);
  }

  const Counter* counts(int64_t channel = 0) const {
    return tables_of(channel);
  }

  /// Makes room for `count` more in every counter. Reduces the tables if there is none.
  template <class Reduce>
  void reserve(int64_t count, const Reduce& reduce) {
    if (reserved_ + count > kMaxCount) {
      this->reduce(reduce);
    }
    reserved_ += count;
  }

  /// The same, but looks at the counters first. Most of 2^16 counters have room for long.
  template <class Reduce>
  void reserve_counted(int64_t count, const Reduce& reduce) {
    static_assert(std::is_same_v<Counter, uint16_t> && Shape::kCounters == 1);
    if (in_use_ && reserved_ + count > kMaxCount) {
      reserved_ = 0;
      for (int64_t channel = 0; channel < channels_; ++channel) {
        reserved_ |= bound_of(tables_of(channel), group_.indices);
      }
    }
    reserve(count, reduce);
  }

  /// Calls f() to add the counts to the result, if anything has been counted.
  template <class Reduce>
  void reduce(const Reduce& f) {
    reserved_ = 0;
    if (in_use_) {
      in_use_ = false;
      f();
    }
  }

 private:
  static constexpr int64_t kMaxCount = max_count_of<Counter, Shape>();

  Counter* tables_of(int64_t channel) const {
    return reinterpret_cast<Counter*>(scratch_ + channel * channel_bytes_);
  }

  void clear() {
    for (int64_t channel = 0; channel < channels_; ++channel) {
      Counter* table = tables_of(channel);
      for (int64_t i = 0; i < group_.tables; ++i, table += table_size()) {
        std::fill_n(table, group_.lanes * group_.indices, 0);
      }
    }
  }

  const Group& group_;
  char* scratch_; // of the first channel
  int64_t channels_;
  int64_t channel_bytes_;
  int64_t reserved_ = 0; // no counter has more
  bool in_use_ = false;
};

} // namespace histo::cpu
