// 8-bit counters for values that differ. They may wrap, which is found and undone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "cpu/count/inner_loops.h"
#include "cpu/count/vectorized.h"
#include "cpu/plan.h"
#include "cpu/tuning.h"

namespace histo::cpu {

/// Loads two neighbours as one index, from any address.
struct TwoBytes {
  uint8_t bytes[2];

  size_t index() const {
    uint16_t both;
    std::memcpy(&both, bytes, sizeof both);
    return both;
  }
};

/// Adds kAdded to the counter of each value, up to the first block in which a value has a bit of
/// `outside`. Returns how many have been counted. A value may change after it was checked, so only
/// its lowest 16 bits choose the counter. All of these have room.
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
#pragma GCC unroll 64
    for (int64_t j = 0; j < kBlock; ++j) {
      counters[static_cast<uint16_t>(data[i + j])] += kAdded;
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

/// Counts distinct values: patterns of several bytes, or two neighbouring bytes. If a counter
/// wraps, the sum of all counters is 256 too small. The last elements are then taken back.
template <class T>
class WrappingCounters {
 public:
  /// Two bytes, or a pattern.
  using Counted = std::conditional_t<sizeof(T) == 1, TwoBytes, T>;

  WrappingCounters(const CpuPlan& plan, char* counters)
      : counters_(reinterpret_cast<uint8_t*>(counters)),
        values_(plan.byte_values),
        max_counted_(
            tuning::kMaxPerByteCounter * (sizeof(T) == 1 ? plan.byte_values : plan.indices - 1)) {
  }

  /// Counts elements up to one that has no counter. Returns how many, or 0 where another way is
  /// likely to be faster. move(counters) adds the counts elsewhere when the counters get full.
  template <class Move>
  int64_t count(const T* data, int64_t size, const Move& move) {
    size = std::min(size / kElements, tuning::kByteChunkElements);
    if (values_ == 0 || size < tuning::kMinByteElements) {
      return 0;
    }
    if (pause_ > 0) {
      --pause_;
      return 0;
    }
    pause_ = tuning::kPauseOfAgreeing; // unless all are counted
    const auto* values = reinterpret_cast<const Counted*>(data);
    if (agree(values, size)) {
      return 0;
    }
    pause_ = tuning::kPauseOfUncounted;
    if (counted_ == 0) {
      std::fill_n(counters_, values_, 0);
    }
    const int64_t counted = add<1>(data, size);
    if (counted == 0) {
      return 0;
    }
    if (sum_of(counters_, values_) != counted_ + counted) {
      add<-1>(data, counted);
      shorten();
      reduce(move);
      return 0;
    }
    if (counted == size) {
      pause_ = 0;
    }
    counted_ += counted;
    if (counted_ > max_counted_) {
      reduce(move);
    }
    return kElements * counted;
  }

  template <class Move>
  void reduce(const Move& move) {
    if (counted_ > 0) {
      counted_ = 0;
      move(counters_);
    }
  }

  /// Has the next chunk counted in another way.
  void pause() {
    pause_ = std::max<int64_t>(pause_, 1);
  }
  /// Whether a large part of a channel was found to have neighbours that agree.
  bool is_paused() const {
    return pause_ > 1;
  }

 private:
  static constexpr int64_t kElements = sizeof(Counted) / sizeof(T); // of a value

  /// Whether neighbours agree, in a sample.
  static bool agree(const Counted* values, int64_t size) {
    const auto index = [](Counted value) {
      if constexpr (sizeof(T) == 1) {
        return value.index();
      } else {
        return value;
      }
    };
    const Agreement most = sizeof(T) == 1 ? Agreement::kRare : Agreement::kNone;
    int64_t distance = 1;
    for (int64_t i = 0; i + tuning::kWideChunkElements <= size; i += tuning::kBytesSampledEach) {
      const int64_t sampled = tuning::kWideChunkElements - distance;
      if (agreement_of(values + i, sampled, 1, distance, index) > most) {
        return true;
      }
      distance = distance == 1 ? tuning::kSampledDistance : 1;
    }
    return false;
  }

  template <int kAdded>
  int64_t add(const T* data, int64_t size) {
    if constexpr (sizeof(T) == 1) {
      return count_neighbours<kAdded>(data, size, counters_);
    } else {
      return count_values<kAdded>(data, size, static_cast<T>(-values_), counters_);
    }
  }

  /// From now on, counters are moved before they wrap, or no longer used.
  void shorten() {
    max_counted_ = counted_ / 8 * 7;
    if (max_counted_ < tuning::kMinPerByteCounter * values_) {
      pause_ = std::numeric_limits<int64_t>::max();
    }
  }

  uint8_t* counters_;
  int64_t values_;
  int64_t counted_ = 0; // by all counters
  int64_t max_counted_;
  int64_t pause_ = 1; // chunks that are counted in another way first
};

} // namespace histo::cpu
