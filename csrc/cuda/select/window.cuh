// A window of keys in which the values of a channel are looked for, and its counters.
#pragma once

#include <cstdint>

#include "cuda/select/sort_keys.cuh"
#include "cuda/storage/shared.cuh"
#include "cuda/walk/walk.cuh"

namespace histo::cuda {

enum class WindowSearch : unsigned {
  kWindow, // both values have keys from `low` to `high`, which is larger, if the sample is good
  kSplit,  // one value has the largest key below `low`, the other the smallest of the other keys
  kEnded,  // both are found
};

struct Window {
  uint64_t low;
  uint64_t high;
  int64_t nans; // of the channel, for kSplit
  WindowSearch search;

  /// How many keys are between `low` and `high`. These have buckets.
  __device__ __forceinline__ uint64_t span() const {
    return high - low - 1;
  }
};

/// The counters of a window in memory. From kBelow on they are in the order of the keys. The values
/// equal to `high` have none: they are the rest.
enum : unsigned {
  kNans,
  kAbove, // `high`
  kBelow, // `low`
  kAtLow,
  kFirstBucket,
};
static_assert(kFirstBucket == kCountersBesideWindow);

/// How far above a key a number is. The order goes round: NaN lies between the largest number and the
/// smallest. The distance of 16-bit keys is the upper half of a word, and its lower half may be
/// anything.
template <class Bits>
struct Distances {
  using Distance = std::conditional_t<sizeof(Bits) == 8, uint64_t, uint32_t>;
  static constexpr unsigned kBits = 8 * sizeof(Distance);
  static constexpr unsigned kShift = kBits - 8 * sizeof(Bits);

  Distance reversed; // of KeyOrder; 16 bits are in both halves
  Distance from;

  __device__ __forceinline__ Distances(const KeyOrder<Bits>& order, uint64_t key)
      : reversed(order.reversed), from(first_of(key ^ order.sign)) {
    reversed |= kShift == 0 ? 0 : first_of(reversed);
  }
  /// The first and the last distance of the key that lies `keys` keys above the first one.
  static __device__ __forceinline__ Distance first_of(uint64_t keys) {
    return static_cast<Distance>(keys) << kShift;
  }
  static __device__ __forceinline__ Distance last_of(uint64_t keys) {
    return first_of(keys) | ((Distance{1} << kShift) - 1);
  }
  __device__ __forceinline__ Distance of(Bits number) const {
    const Distance bits = first_of(number);
    const auto negative =
        static_cast<Distance>(static_cast<std::make_signed_t<Distance>>(bits) >> (kBits - 1));
    return (bits ^ (negative & reversed)) - from;
  }
  /// Calls f(distance) for both.
  template <class F>
  __device__ __forceinline__ void for_both(Packed16 pair, const F& f) const {
    const uint32_t ordered = pair.bits ^ (signs_of_halves(pair.bits) & reversed);
    f((ordered << kShift) - from);
    f(ordered - from);
  }
};

/// The buckets of a window: neighbouring keys that share a counter, as many in each bucket.
template <class Bits>
struct Buckets {
  using Distance = typename Distances<Bits>::Distance;
  static constexpr unsigned kLog = 31;

  // A distance is shifted to the right. If keys have more than 16 bits, it is also multiplied by
  // factor / 2^kLog.
  unsigned shift = 0;
  uint32_t factor = 0;
  unsigned count;

  /// `span`: of the window.
  __device__ __forceinline__ Buckets(uint64_t span, unsigned room) {
    const uint64_t keys = keys_of_counter(span, room);
    if constexpr (sizeof(Bits) == 2) {
      while (uint64_t{1} << shift < keys) {
        ++shift;
      }
      shift += Distances<Bits>::kShift;
    } else {
      while (sizeof(Bits) == 8 && span >> shift >> kLog != 0) {
        ++shift;
      }
      const uint64_t steps = ((keys - 1) >> shift) + 1;
      factor = static_cast<uint32_t>(((uint64_t{1} << kLog) - 1) / steps + 1);
    }
    count = at(Distances<Bits>::first_of(span)) + 1;
  }
  __device__ __forceinline__ unsigned at(Distance distance) const {
    if constexpr (sizeof(Bits) == 2) {
      return distance >> shift;
    } else {
      const auto upper = static_cast<uint32_t>(sizeof(Bits) == 4 ? distance : distance >> shift);
      return static_cast<unsigned>(uint64_t{upper} * factor >> kLog);
    }
  }
  /// The smallest distance in a bucket.
  __device__ __forceinline__ uint64_t first(unsigned bucket) const {
    if constexpr (sizeof(Bits) == 2) {
      return uint64_t{bucket} << shift >> Distances<Bits>::kShift;
    } else {
      return ((uint64_t{bucket} << kLog) + factor - 1) / factor << shift;
    }
  }
};

} // namespace histo::cuda
