// The threads that take a channel together.
#pragma once

#include <cstdint>

#include "cuda/storage/shared.cuh"

namespace histo::cuda {

/// A warp, or a block.
template <bool kIsWarp>
struct Team {
  unsigned thread;   // of the team
  unsigned threads;  // that it has
  unsigned of_block; // which team of its block
  int64_t index;     // among all teams
  int64_t count;     // of all teams

  __device__ __forceinline__ static Team own() {
    if constexpr (kIsWarp) {
      const unsigned of_block = threadIdx.x / kWarp, teams = blockDim.x / kWarp;
      return {
          threadIdx.x % kWarp, kWarp, of_block, int64_t{blockIdx.x} * teams + of_block,
          int64_t{gridDim.x} * teams};
    } else {
      return {threadIdx.x, blockDim.x, 0, blockIdx.x, gridDim.x};
    }
  }
  /// A thread that needs no other.
  __device__ __forceinline__ static Team alone() {
    return {0, 1, 0, 0, 1};
  }
  /// All threads of the team call it.
  __device__ __forceinline__ void wait() const {
    if constexpr (kIsWarp) {
      __syncwarp();
    } else {
      __syncthreads();
    }
  }
};

} // namespace histo::cuda
