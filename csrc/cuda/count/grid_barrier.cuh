// A barrier of all blocks of a grid.
#pragma once

#include <cstdint>

#include "cuda/walk/loads.cuh"

namespace histo::cuda {

/// All blocks of the grid meet here; they are resident at the same time.
///
/// Even and odd rounds have a word each. No block can arrive in the round after next before all
/// blocks have seen this one.
struct GridBarrier {
  uint32_t* words;

  __device__ void arrive(unsigned time) const {
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence();
      atomicAdd(&words[time % 2], 1);
    }
  }
  /// Waits until all blocks have arrived.
  __device__ void wait(unsigned time) const {
    if (threadIdx.x == 0) {
      const uint32_t expected = (time / 2 + 1) * gridDim.x;
      uint32_t seen = 0;
      do {
        seen = load_acquire(&words[time % 2]);
      } while (static_cast<int32_t>(seen - expected) < 0);
    }
    __syncthreads();
  }
};

} // namespace histo::cuda
