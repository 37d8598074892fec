// Shared memory by 32-bit address.
#pragma once

#include <cstdint>

namespace histo::cuda {

constexpr int kWarp = 32;

__device__ __forceinline__ uint32_t address_of(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

__device__ __forceinline__ void add_shared(uint32_t address, uint32_t value) {
  asm volatile("red.shared.add.u32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

/// Adds 1 and returns the value before.
__device__ __forceinline__ uint32_t count_shared(uint32_t address) {
  uint32_t before;
  asm volatile("atom.shared.add.u32 %0, [%1], 1;" : "=r"(before) : "r"(address) : "memory");
  return before;
}

/// Counts a value if it is above a limit. The compiler would take a third instruction.
__device__ __forceinline__ void count_above(uint32_t value, uint32_t limit, uint32_t& above) {
  asm("{\n"
      ".reg .pred above;\n"
      "setp.gt.u32 above, %1, %2;\n"
      "@above add.u32 %0, %0, 1;\n"
      "}"
      : "+r"(above)
      : "r"(value), "r"(limit));
}

__device__ __forceinline__ void count_above(uint64_t value, uint64_t limit, uint32_t& above) {
  above += value > limit;
}

/// All bits of each half are its sign.
__device__ __forceinline__ uint32_t signs_of_halves(uint32_t halves) {
  uint32_t signs;
  asm("prmt.b32 %0, %1, 0, 0xbb99;" : "=r"(signs) : "r"(halves));
  return signs;
}

/// Stores a value if a < b, as unsigned numbers.
__device__ __forceinline__ void store_shared_if_below(
    uint32_t a, uint32_t b, uint32_t address, uint16_t value) {
  asm volatile(
      "{\n"
      ".reg .pred below;\n"
      "setp.lt.u32 below, %0, %1;\n"
      "@below st.shared.u16 [%2], %3;\n"
      "}" ::"r"(a),
      "r"(b), "r"(address), "h"(value)
      : "memory");
}

} // namespace histo::cuda
