// Kernels of one call that overlap (programmatic dependent launch, Hopper on).
#pragma once

namespace histo::cuda {

/// The kernel launched next may start, if it was launched to overlap.
__device__ __forceinline__ void let_next_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// Until the kernel launched before has ended and its writes can be seen.
__device__ __forceinline__ void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

} // namespace histo::cuda
