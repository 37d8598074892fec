// Kernels that overlap (programmatic dependent launch, Hopper on): those of one call, and the first
// of a call with the end of what the stream does before. The launch is then on its way while that
// ends, so graphs of nothing but calls take 0.6 us less each: int32 [4096, 8] 3.3 us and not 3.9,
// uint8 [2^17, 512] 24.0 and not 24.6, [2^29] 122.5 and not 123.1.
//
// Small calls (strided.cu) also let the next one start as soon as they have: 2.5 us and not 3.1.
// For others that is no gain, or a loss: after a fold that does so [2^18, 512] takes .9 us less,
// but [2^20, 512] .1 to .8 and [2^18, 2048] 1.0 to 1.4 us more.
//
// A fold may start when all blocks have counted, and does where one has ended: uint8 [2^17, 512]
// takes 20.7 us and not 20.9, [2^17, 500] 24.7 and 25.7, [2^20, 511] 127.3 and 128.1, int16 [2^23,
// 64] 297 and 298.5, int32 [2^18, 64] 23.4 and 23.9. Folds of 256 threads, which find room beside a
// block that still counts, are no gain: 21.7 and 21.0, whether they may start then or with the
// count.
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
