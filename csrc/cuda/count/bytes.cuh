// Reads bytes as 32-bit words, at any address, but never outside the tensor.
#pragma once

#include <cstdint>

namespace histo::cuda {

/// The first byte of the tensor, and the one behind its last.
struct Bounds {
  const uint8_t* begin;
  const uint8_t* end;
};

/// Loads `count` bytes, 0 to 4. The others are 0.
__device__ __forceinline__ uint32_t
load_single_bytes(const uint8_t* __restrict__ address, int count) {
  uint32_t bytes = 0;
#pragma unroll 1 // keeps the code small, because few words need it
  for (int i = 0; i < count; ++i) {
    bytes |= static_cast<uint32_t>(address[i]) << (8 * i);
  }
  return bytes;
}

/// Four bytes from any address, as the two aligned words that hold them. The bytes are put together
/// only when they are needed, so that the load has time to arrive.
struct LooseWord {
  uint32_t low;
  uint32_t high;
  unsigned shift;

  /// The four bytes, the first one in the lowest bits.
  __device__ __forceinline__ uint32_t bytes() const {
    return __funnelshift_r(low, high, shift);
  }
};

/// Loads four bytes. The tensor must have three more bytes before them and seven behind.
__device__ __forceinline__ LooseWord load_inner_word(const uint8_t* __restrict__ address) {
  const unsigned beyond = reinterpret_cast<uintptr_t>(address) & 3;
  const auto* word = reinterpret_cast<const uint32_t*>(address - beyond);
  return {__ldg(word), __ldg(word + 1), 8 * beyond};
}

/// An address as an aligned word that all threads share, and an offset in bytes.
struct WordAddress {
  const uint8_t* __restrict__ word;
  uint32_t offset;

  __device__ __forceinline__ operator const uint8_t*() const {
    return word + offset;
  }
};

/// Loads four bytes from such an address.
__device__ __forceinline__ LooseWord load_inner_word(const WordAddress& at) {
  const auto* word = reinterpret_cast<const uint32_t*>(at.word + (at.offset & ~3u));
  return {__ldg(word), __ldg(word + 1), 8 * (at.offset & 3)};
}

/// Loads `count` bytes, 1 to 4. The others are unspecified. At the ends of the tensor a word may
/// reach beyond it, so the bytes are read one by one there.
__device__ __forceinline__ LooseWord
load_loose_word(const uint8_t* __restrict__ address, int count, const Bounds& bounds) {
  if (address - 3 >= bounds.begin && address + 8 <= bounds.end) {
    return load_inner_word(address);
  }
  return {load_single_bytes(address, count), 0, 0};
}

/// Loads an aligned word, in the same form.
__device__ __forceinline__ LooseWord load_aligned_word(const uint8_t* __restrict__ address) {
  return {__ldcs(reinterpret_cast<const uint32_t*>(address)), 0, 0};
}

/// Adds a vec16 to a table of bytes. `bases` is what the table adds the first to the fourth word at.
/// `turned` tells whether a lane adds its words one later, two later or both, so that lanes begin
/// with different words and have no bank conflicts.
template <class AnyTable>
__device__ __forceinline__ void add_turned(
    const AnyTable& table, uint4 v, const bool (&turned)[2], const uint32_t (&bases)[4]) {
  if (turned[0]) {
    v = make_uint4(v.y, v.z, v.w, v.x);
  }
  if (turned[1]) {
    v = make_uint4(v.z, v.w, v.x, v.y);
  }
  table.add_word(v.x, bases[0]);
  table.add_word(v.y, bases[1]);
  table.add_word(v.z, bases[2]);
  table.add_word(v.w, bases[3]);
}

__device__ __forceinline__ uint8_t byte_of(uint32_t word, int index) {
  return static_cast<uint8_t>(word >> (8 * index));
}

} // namespace histo::cuda
