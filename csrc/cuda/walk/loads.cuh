// Loads of elements that are read once.
#pragma once

#include <cstdint>

namespace histo::cuda {

// L2 fetches the whole line of 128 bytes, because another block may read the rest soon. Half lines
// then arrive at the speed of whole lines, instead of 0.74 of it. Data that are read once are the
// first to leave the cache.
__device__ __forceinline__ uint32_t load_once(const uint32_t* address) {
  uint32_t word;
  asm volatile("ld.global.cs.L2::128B.u32 %0, [%1];" : "=r"(word) : "l"(address));
  return word;
}
__device__ __forceinline__ uint64_t load_once(const uint64_t* address) {
  uint64_t word;
  asm volatile("ld.global.cs.L2::128B.u64 %0, [%1];" : "=l"(word) : "l"(address));
  return word;
}
__device__ __forceinline__ uint4 load_once(const uint4* address) {
  uint4 vec16;
  asm volatile("ld.global.cs.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(vec16.x), "=r"(vec16.y), "=r"(vec16.z), "=r"(vec16.w)
               : "l"(address));
  return vec16;
}

__device__ __forceinline__ uint16_t load_once(const uint16_t* address) {
  uint16_t half;
  asm volatile("ld.global.cs.L2::128B.u16 %0, [%1];" : "=h"(half) : "l"(address));
  return half;
}

/// Loads a word that does not stay in L1, because other lines need the room.
__device__ __forceinline__ uint32_t load_past_l1(const uint32_t* address) {
  uint32_t word;
  asm volatile("ld.global.L1::no_allocate.L2::128B.u32 %0, [%1];" : "=r"(word) : "l"(address));
  return word;
}

/// The same for a line that other blocks read too, at about the same time. It has the usual
/// priority in L2. Lines that are the first to leave have little room there after other kernels
/// left it full, and are gone before all blocks have read them.
__device__ __forceinline__ uint32_t load_of_shared_line(const uint32_t* address) {
#if __CUDA_ARCH__ >= 900
  // createpolicy makes this of L2::evict_normal; made in the loop it takes 12 % longer.
  constexpr uint64_t kUsualPriority = uint64_t{1} << 60;
  uint32_t word;
  asm volatile("ld.global.L1::no_allocate.L2::cache_hint.L2::128B.u32 %0, [%1], %2;"
               : "=r"(word)
               : "l"(address), "l"(kUsualPriority));
  return word;
#else
  return load_once(address);
#endif
}

/// Begins to copy 16 aligned bytes to shared memory.
__device__ __forceinline__ void copy_once(void* shared, const uint4* address) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(shared))),
               "l"(address)
               : "memory");
#else
  *static_cast<uint4*>(shared) = load_once(address);
#endif
}
/// Waits for the copies that this thread began.
__device__ __forceinline__ void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

/// Later reads see everything that was written before this word.
__device__ __forceinline__ uint32_t load_acquire(const uint32_t* address) {
  uint32_t word;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(word) : "l"(address) : "memory");
  return word;
}

/// L2 begins to fetch what a block reads soon: a multiple of 16 bytes.
__device__ __forceinline__ void fetch_ahead(const void* address, uint32_t bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(address), "r"(bytes) : "memory");
#endif
}

/// L2 begins to fetch a line.
__device__ __forceinline__ void fetch_line(const void* address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}

/// Forgets a whole, aligned line of memory: what a kernel left for the next one in the cache need
/// not be written to memory.
__device__ __forceinline__ void discard_line(const void* line) {
#if __CUDA_ARCH__ >= 800
  asm volatile("discard.global.L2 [%0], 128;" ::"l"(line) : "memory");
#endif
}

} // namespace histo::cuda
