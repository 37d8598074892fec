// Loads of what is read once.
#pragma once

#include <cstdint>

namespace histo::cuda {

// The second-level cache fetches the whole line of 128 bytes, of which another block may
// read the rest a little later: half lines then arrive at the speed of whole ones, where
// they reach 0.74 of it otherwise.
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

} // namespace histo::cuda
