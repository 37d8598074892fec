// Sums and extremes over the lanes of a warp, and lanes that agree.
#pragma once

#include "cuda/storage/shared.cuh"

namespace histo::cuda {

constexpr unsigned kAllLanes = 0xffffffff;

/// The sum of the values of this lane and of those before it.
template <class N>
__device__ __forceinline__ N sum_upto_lane(N own) {
  const unsigned lane = threadIdx.x % kWarp;
#pragma unroll
  for (unsigned step = 1; step < kWarp; step *= 2) {
    const N before = __shfl_up_sync(kAllLanes, own, step);
    own += lane >= step ? before : 0;
  }
  return own;
}

/// The sum of the values of all lanes.
template <class N>
__device__ __forceinline__ N sum_of_warp(N own) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) {
    own += __shfl_xor_sync(kAllLanes, own, step);
  }
  return own;
}

/// The smallest and the largest of the values of all lanes.
template <class N>
__device__ __forceinline__ N min_of_warp(N own) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) {
    own = min(own, __shfl_xor_sync(kAllLanes, own, step));
  }
  return own;
}
template <class N>
__device__ __forceinline__ N max_of_warp(N own) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) {
    own = max(own, __shfl_xor_sync(kAllLanes, own, step));
  }
  return own;
}

/// For how many lanes this one acts, if lanes with one value need to act only once: the first active
/// lane for all of them if all have the same value, and then no other lane; else each for itself.
template <class T>
__device__ __forceinline__ unsigned lanes_to_act_for(T value) {
  const unsigned active = __activemask();
  const int first = __ffs(active) - 1;
  if (!__all_sync(active, __shfl_sync(active, value, first) == value)) {
    return 1;
  }
  return static_cast<int>(threadIdx.x % kWarp) == first ? __popc(active) : 0;
}

} // namespace histo::cuda
