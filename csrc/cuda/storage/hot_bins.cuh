// Counting in memory, with the hot bins in shared memory.
#pragma once

#include <cstdint>

#include "cuda/plan/layouts.h"
#include "cuda/storage/counts.cuh"
#include "cuda/storage/shared.cuh"

namespace histo::cuda {

/// The bins that a block counts itself. A bin takes one of its kWays slots when the block first
/// meets it, and keeps the slot. This helps if many values hit one bin. If values are spread,
/// memory counts them as fast as it can.
template <unsigned kThreads, unsigned kWays>
struct HotBins {
  static constexpr uint32_t kFree = 0xffffffff;
  static constexpr unsigned kSlots = kHotBins;

  uint32_t* owners; // [kSlots], then their counts
  unsigned long long* counts;
  int64_t first; // counter of the tile
  int64_t size;  // counters of the tile

  static __device__ __forceinline__ unsigned first_slot_of(uint32_t bin) {
    return bin * kGoldenRatio >> (kWarp - kLogHotBins) & ~(kWays - 1);
  }

  __device__ void begin() const {
    for (unsigned i = threadIdx.x; i < 2 * kSlots; i += kThreads) {
      owners[i] = i < kSlots ? kFree : 0;
    }
    __syncthreads();
  }

  __device__ __forceinline__ void add(int64_t counter) const {
    const auto bin = static_cast<uint32_t>(counter);
    const unsigned active = __activemask();
    // Runs of one value fill whole warps.
    if (__all_sync(active, __shfl_sync(active, bin, __ffs(active) - 1) == bin)) {
      if (static_cast<int>(threadIdx.x % 32) == __ffs(active) - 1) {
        add_in_slot(counter, bin, __popc(active));
      }
    } else {
      add_in_slot(counter, bin, 1);
    }
  }

  __device__ __forceinline__ void add_in_slot(int64_t counter, uint32_t bin, uint32_t n) const {
    const unsigned first_slot = first_slot_of(bin);
#pragma unroll
    for (unsigned slot = first_slot; size <= kFree && slot < first_slot + kWays; ++slot) {
      uint32_t owner = *static_cast<volatile uint32_t*>(&owners[slot]);
      if (owner == kFree) {
        owner = atomicCAS(&owners[slot], kFree, bin);
        owner = owner == kFree ? bin : owner;
      }
      if (owner == bin) {
        atomicAdd(&owners[kSlots + slot], n);
        return;
      }
    }
    atomicAdd(&counts[first + counter], static_cast<unsigned long long>(n));
  }

  /// The address of the block's counter for the bin, or `otherwise`.
  __device__ __forceinline__ uint32_t find(uint32_t bin, uint32_t otherwise) const {
    static_assert(kWays == 2);
    const unsigned slot = first_slot_of(bin);
    const uint2 pair = *reinterpret_cast<const uint2*>(&owners[slot]);
    const uint32_t address = address_of(&owners[kSlots + slot]);
    return pair.x == bin ? address : pair.y == bin ? address + 4 : otherwise;
  }

  __device__ void end() const {
    __syncthreads();
    for (unsigned i = threadIdx.x; i < kSlots; i += kThreads) {
      put<true>(&counts[first + owners[i]], owners[kSlots + i]);
    }
  }
};

} // namespace histo::cuda
