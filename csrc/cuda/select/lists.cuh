// Lists of the values that lie near a quantile, and how many values lie elsewhere.
#pragma once

#include <cstdint>

#include "cuda/policy_select.h"
#include "cuda/select/sample.h"
#include "cuda/select/window.cuh"
#include "cuda/warp.cuh"

namespace histo::cuda {

/// The counters of a list: values below its low end, above it, and above its high end (NaN, too),
/// and those between both ends, which are in the list if there is room.
enum : unsigned { kBelowLow, kAboveLow, kAboveHigh, kBetween, kCountersOfList };

/// The lists of some q's, [q][channel].
template <class Bits>
struct ValueLists {
  SampleEnds ends;
  Bits* values;                 // [list][room]
  unsigned long long* counters; // [list][kCountersOfList], and then NaN of each channel
  int64_t channels;
  int64_t room;
  unsigned num_q;

  __device__ __forceinline__ int64_t index(unsigned q, int64_t channel) const {
    return q * channels + channel;
  }
  __device__ __forceinline__ unsigned long long* counters_of(int64_t list) const {
    return counters + list * kCountersOfList;
  }
  __device__ __forceinline__ unsigned long long* nans_of(int64_t channel) const {
    return counters_of(num_q * channels) + channel;
  }
  /// The keys at the ends of a list. They are numbers.
  __device__ __forceinline__ Bits
  low(const KeyOrder<Bits>& order, unsigned q, int64_t channel) const {
    const Bits key = order.key(static_cast<const Bits*>(ends.values)[index(2 * q, channel)]);
    return ends.q[2 * q] > 0 ? min(key, order.greatest()) : order.smallest();
  }
  __device__ __forceinline__ Bits
  high(const KeyOrder<Bits>& order, unsigned q, int64_t channel) const {
    const Bits key = order.key(static_cast<const Bits*>(ends.values)[index(2 * q + 1, channel)]);
    return ends.q[2 * q + 1] < 1 ? min(key, order.greatest()) : order.greatest();
  }
};

/// A part of a list, of one thread.
template <class Bits>
struct ListOfThread {
  using Of = Distances<Bits>;
  using Distance = typename Of::Distance;
  static_assert(Of::kShift == 0, "each distance is that of one key");

  // Distances from the smallest number.
  Distance low;
  Distance high;
  Distance span; // between both ends
  uint32_t below_low = 0, above_low = 0, above_high = 0;
  Bits* next; // in shared memory

  __device__ __forceinline__ void begin(Bits smallest, Bits low_key, Bits high_key, Bits* own) {
    low = low_key - smallest;
    high = high_key - smallest;
    span = high_key > low_key ? high - low - 1 : 0;
    next = own;
  }
  __device__ __forceinline__ void add(Distance distance, Bits bits, unsigned step) {
    count_above(low, distance, below_low);
    count_above(distance, low, above_low);
    count_above(distance, high, above_high);
    if (distance - low - 1 < span) {
      *next = bits;
      next += step;
    }
  }
};

/// Moves what a thread has to its list. It is called seldom, and so is a function: it would take
/// registers from the loops.
template <class Bits>
__device__ __noinline__ void move_to_list(
    const Bits* own,
    unsigned size,
    unsigned step,
    unsigned long long* counter,
    Bits* list,
    int64_t room) {
  if (size == 0) {
    return;
  }
  const auto at = static_cast<int64_t>(atomicAdd(counter, static_cast<unsigned long long>(size)));
  for (unsigned i = 0; i < size; ++i) {
    if (at + i < room) {
      list[at + i] = own[i * step];
    }
  }
}

/// The lists of a thread that reads kColumns channels, which are neighbours.
template <class Bits, int kQ, int kColumns, int kThreads>
class ListsOfThread {
  using Of = Distances<Bits>;
  static constexpr unsigned kSize = bytes_of_list(kQ) / sizeof(Bits) / kColumns;

 public:
  __device__ __forceinline__
  ListsOfThread(const ValueLists<Bits>& lists, const KeyOrder<Bits>& order, Bits* memory)
      : lists_(lists),
        distances_(order, order.smallest()),
        greatest_(Of::last_of(order.greatest() - order.smallest())),
        own_(memory + threadIdx.x) {
  }
  /// A column of the thread is this channel. One that is not `listed` lies beyond the last channel.
  __device__ __forceinline__ void begin(
      const KeyOrder<Bits>& order, int column, int64_t channel, bool listed) {
    channels_[column] = channel;
    nans_[column] = 0;
#pragma unroll
    for (int q = 0; q < kQ; ++q) {
      const Bits smallest = order.smallest();
      const bool is_used = listed && static_cast<unsigned>(q) < lists_.num_q;
      const unsigned of = min(static_cast<unsigned>(q), lists_.num_q - 1);
      const Bits low = lists_.low(order, of, channel);
      const Bits high = is_used ? lists_.high(order, of, channel) : low;
      of_[q][column].begin(smallest, low, high, first(q, column));
    }
  }
  __device__ __forceinline__ void add(Bits bits, int column) {
    add(distances_.of(bits), bits, column);
  }
  /// Makes room for one element more of each column, if a lane has none.
  __device__ __forceinline__ void make_room() {
    static_assert(kSize >= 4, "lists have room for some values");
    bool is_full = false;
#pragma unroll
    for (int q = 0; q < kQ; ++q) {
#pragma unroll
      for (int column = 0; column < kColumns; ++column) {
        is_full |= of_[q][column].next > first(q, column) + (kSize - 1) * kThreads;
      }
    }
    if (__any_sync(__activemask(), is_full)) {
      move();
    }
  }
  /// Moves all values to the lists.
  __device__ __forceinline__ void move() {
#pragma unroll
    for (int q = 0; q < kQ; ++q) {
#pragma unroll
      for (int column = 0; column < kColumns; ++column) {
        Bits* own = first(q, column);
        const auto size = static_cast<unsigned>(of_[q][column].next - own) / kThreads;
        const int64_t list = lists_.index(static_cast<unsigned>(q), channels_[column]);
        move_to_list(
            own, size, unsigned{kThreads}, lists_.counters_of(list) + kBetween,
            lists_.values + list * lists_.room, lists_.room);
        of_[q][column].next = own;
      }
    }
  }
  /// Calls f(counter in memory, count) with all counts of a column.
  template <class F>
  __device__ __forceinline__ void for_each_count(int column, const F& f) const {
#pragma unroll
    for (int q = 0; q < kQ; ++q) {
      if (static_cast<unsigned>(q) < lists_.num_q) {
        unsigned long long* to =
            lists_.counters_of(lists_.index(static_cast<unsigned>(q), channels_[column]));
        f(to + kBelowLow, of_[q][column].below_low);
        f(to + kAboveLow, of_[q][column].above_low);
        f(to + kAboveHigh, of_[q][column].above_high);
      }
    }
    f(lists_.nans_of(channels_[column]), nans_[column]);
  }

 private:
  __device__ __forceinline__ Bits* first(int q, int column) const {
    return own_ + static_cast<unsigned>(q * kColumns + column) * kSize * kThreads;
  }
  __device__ __forceinline__ void add(typename Of::Distance distance, Bits bits, int column) {
    count_above(distance, greatest_, nans_[column]);
#pragma unroll
    for (int q = 0; q < kQ; ++q) {
      of_[q][column].add(distance, bits, kThreads);
    }
  }

  const ValueLists<Bits>& lists_;
  Of distances_;
  typename Of::Distance greatest_;
  Bits* own_;
  int64_t channels_[kColumns];
  uint32_t nans_[kColumns];
  ListOfThread<Bits> of_[kQ][kColumns];
};

} // namespace histo::cuda
