// Loads of what is read once.
#pragma once

#include <cstdint>

namespace histo::cuda {

// The second-level cache fetches the whole line of 128 bytes, of which another block may
// read the rest a little later: half lines then arrive at the speed of whole ones, where
// they reach 0.74 of it otherwise. What is read once is the first to leave the cache.
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
  uint4 quad;
  asm volatile("ld.global.cs.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(quad.x), "=r"(quad.y), "=r"(quad.z), "=r"(quad.w)
               : "l"(address));
  return quad;
}

/// A word that nobody looks for in the first-level cache, where others need the room: uint8
/// [2^20, 64] takes 21.4 us and not 21.7.
__device__ __forceinline__ uint32_t load_past_first_cache(const uint32_t* address) {
  uint32_t word;
  asm volatile("ld.global.L1::no_allocate.L2::128B.u32 %0, [%1];" : "=r"(word) : "l"(address));
  return word;
}

/// The same of a line that other blocks read too, at about the same time: int16 [2^23, 64] in 4096
/// bins takes 301 us, and 306 where words stay in the first-level cache.
///
/// In the second-level cache the first to leave have little room after other kernels left it full,
/// and go before all blocks have come: uint8 [2^20, 511] takes 144 us after nothing else and 153
/// after a copy of 160 MiB, with the usual priority 139 and 140; [2^20, 500] 127 and 136, 128 and
/// 129. It has to be named: [2^20, 500] takes 126.7 and 127.3 so, 126.6 and 131.9 without.
/// Whole lines go by unharmed: [2^20, 512] takes 126.6 and 128.0, so 129.2 and 129.6.
__device__ __forceinline__ uint32_t load_of_shared_line(const uint32_t* address) {
#if __CUDA_ARCH__ >= 900
  // What createpolicy makes of L2::evict_normal; made in the loop it takes 12 % longer.
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

/// Later reads see everything that was written before this word.
__device__ __forceinline__ uint32_t load_acquire(const uint32_t* address) {
  uint32_t word;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(word) : "l"(address) : "memory");
  return word;
}

/// Forgets a whole, aligned line of memory: what a kernel left for the next one in the
/// cache need not be written to memory.
///
/// int32 [2^22, 64], 16.5 MiB of tables: 243.5 us and not 253.4; uint8 [2^20, 512], 8.25 MiB,
/// after a copy of 160 MiB 128.0 us and not 131.6.
__device__ __forceinline__ void discard_line(const void* line) {
#if __CUDA_ARCH__ >= 800
  asm volatile("discard.global.L2 [%0], 128;" ::"l"(line) : "memory");
#endif
}

} // namespace histo::cuda
