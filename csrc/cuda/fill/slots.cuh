// The slots of one channel: adding the elements to a table, and writing the table to the result.
#pragma once

#include "core/edges.h"
#include "cuda/axis/block_bins.cuh"
#include "cuda/axis/uniform_bins.cuh"
#include "cuda/storage/counts.cuh"
#include "cuda/storage/slot_places.cuh"
#include "cuda/walk/teams.cuh"

namespace histo::cuda {

/// The bins of a block, found by one guess.
template <Guess kGuess, class T, int kLogCopies>
struct GuessedBins {
  const BlockBins<T, kLogCopies>& bins;

  template <int kSize>
  __device__ __forceinline__ void find(
      const typename Number<T>::Wide (&values)[kSize], unsigned (&slots)[kSize]) const {
    bins.template find<kGuess>(values, slots);
  }
};

/// Bins whose edges are computed.
template <bool kHasLine, class T>
struct ComputedBins {
  const UniformBinsOfChannel<T>& bins;

  template <int kSize>
  __device__ __forceinline__ void find(
      const typename Number<T>::Wide (&values)[kSize], unsigned (&slots)[kSize]) const {
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      slots[j] = bins.template slot<kHasLine>(values[j]);
    }
  }
};

/// Adds a step for each element to a table. NaN has a slot of its own, which is that of underflow
/// where neither is shown.
template <class T, class Bins, class Table>
struct FillTable {
  const Bins& bins;
  const Table& table;
  unsigned nan_slot;

  __device__ __forceinline__ void operator()(T element) const {
    (*this)(Pack<T, 1>{element});
  }
  template <int kSize>
  __device__ __forceinline__ void operator()(const Pack<T, kSize>& pack) const {
    add_if(pack, [](int) { return true; });
  }
  template <int kSize>
  __device__ __forceinline__ void operator()(const Pack<T, kSize>& pack, Within within) const {
    add_if(pack, [&](int j) { return within.has(j); });
  }

 private:
  /// All slots are found before a step is added, so that loads do not wait for each other.
  template <int kSize, class F>
  __device__ __forceinline__ void add_if(const Pack<T, kSize>& pack, const F& is_counted) const {
    typename Number<T>::Wide values[kSize];
    unsigned slots[kSize];
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      values[j] = Number<T>::wide(pack.elements[j]);
    }
    bins.find(values, slots);
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      if constexpr (Number<T>::kIsFloat) {
        slots[j] = is_nan(values[j]) ? nan_slot : slots[j];
      }
      if (is_counted(j)) {
        table.add(slots[j], typename Table::Step{});
      }
    }
  }
};

/// What `put_slots` writes, and who: thread `first` of every `step` threads.
struct SlotsToPut {
  unsigned first;
  unsigned step;
  Flow flow;
  bool valid;
  bool adds;
};

/// Writes the slots of a part of the bins, or adds them. Underflow belongs to the first part,
/// overflow to the last; NaN is counted by the first. sum_of(slot) is the sum of a slot.
template <class Total, class F>
__device__ __forceinline__ void put_slots(
    const SlotsToPut& put, const Edges& part, int64_t all_bins, Total* histogram, const F& sum_of) {
  const auto places = SlotPlaces::of_edges(part, all_bins, put.flow, put.valid);
  for (unsigned slot = put.first; slot < places.slots(); slot += put.step) {
    const int64_t place = places.of(slot);
    if (place != kNoBin) {
      put_or_add(&histogram[place], places.counts(slot) ? sum_of(slot) : 0, put.adds);
    }
  }
}

} // namespace histo::cuda
