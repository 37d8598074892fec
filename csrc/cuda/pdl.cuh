// Kernels that overlap (programmatic dependent launch, from Hopper on). A kernel of a call starts
// while the kernel before it ends. This saves 0.6 us for each.
//
// Small calls (generic.cu) let the next one start as soon as they have started. For others that is
// no gain, or a loss. A reduction may start when all blocks have counted. Its blocks then start as
// blocks of the count end. docs/tuning.md has the figures.
#pragma once

namespace histo::cuda {

/// The kernel launched next may start, if it was launched to overlap.
__device__ __forceinline__ void let_next_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// Waits until the kernel before has ended and its writes can be seen.
__device__ __forceinline__ void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

} // namespace histo::cuda
