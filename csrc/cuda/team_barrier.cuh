// A barrier of some warps of a block.
#pragma once

namespace histo::cuda {

/// Waits for `size` threads of the block, whole warps: one of up to 16 barriers.
__device__ __forceinline__ void sync_team(unsigned index, unsigned size) {
  asm volatile("bar.sync %0, %1;" ::"r"(index), "r"(size) : "memory");
}

} // namespace histo::cuda
