// How accumulators add: a step to a local value in shared memory, and a block's local value to a
// total in the result.
#pragma once

#include "core/accumulator.h"
#include "cuda/storage/counts.cuh"
#include "cuda/storage/shared.cuh"

namespace histo::cuda {

__device__ __forceinline__ void add_step(uint32_t address, Count::Step) {
  add_shared(address, 1);
}

} // namespace histo::cuda
