// Reading bytes as 32-bit words, at any address, never outside the tensor.
#pragma once

#include <cstdint>

namespace histo::cuda {

/// The first byte of the tensor, and the one behind its last.
struct Bounds {
  const uint8_t* begin;
  const uint8_t* end;
};

__device__ __forceinline__ bool is_word_aligned(const uint8_t* address) {
  return (reinterpret_cast<uintptr_t>(address) & 3) == 0;
}

// Four bytes from any address come as one word, the first in the lowest bits. Any
// two aligned words side by side hold them; but at the ends of a tensor a word may
// reach beyond it, and there the bytes are read one by one.

__device__ __forceinline__ uint32_t load_two_words(const uint8_t* __restrict__ address) {
  const unsigned shift = reinterpret_cast<uintptr_t>(address) & 3;
  const auto* word = reinterpret_cast<const uint32_t*>(address - shift);
  return __funnelshift_r(__ldg(word), __ldg(word + 1), 8 * shift);
}

/// Only the first `count`, 0 to 4; the others are 0.
__device__ __forceinline__ uint32_t
load_single_bytes(const uint8_t* __restrict__ address, int count) {
  uint32_t bytes = 0;
  for (int i = 0; i < count; ++i) {
    bytes |= static_cast<uint32_t>(address[i]) << (8 * i);
  }
  return bytes;
}

/// The first `count` bytes, 1 to 4; what lies above them is unspecified.
__device__ __forceinline__ uint32_t
load_bytes(const uint8_t* __restrict__ address, int count, const Bounds& bounds) {
  const bool inside = address - 3 >= bounds.begin && address + 8 <= bounds.end;
  return inside ? load_two_words(address) : load_single_bytes(address, count);
}

__device__ __forceinline__ uint8_t byte_of(uint32_t word, int index) {
  return static_cast<uint8_t>(word >> (8 * index));
}

} // namespace histo::cuda
