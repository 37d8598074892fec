// Reading bytes as 32-bit words, at any address, never outside the tensor.
#pragma once

#include <cstdint>

namespace histo::cuda {

/// The first byte of the tensor, and the one behind its last.
struct Bounds {
  const uint8_t* begin;
  const uint8_t* end;
};

/// `count` bytes, 0 to 4; the others are 0.
__device__ __forceinline__ uint32_t
load_single_bytes(const uint8_t* __restrict__ address, int count) {
  uint32_t bytes = 0;
#pragma unroll 1 // little code: few words need it
  for (int i = 0; i < count; ++i) {
    bytes |= static_cast<uint32_t>(address[i]) << (8 * i);
  }
  return bytes;
}

/// Four bytes from any address, as the two aligned words that hold them. They are
/// put together where they are needed, so that a load does not wait for itself.
struct LooseWord {
  uint32_t low;
  uint32_t high;
  unsigned shift;

  /// The first byte in the lowest bits.
  __device__ __forceinline__ uint32_t bytes() const {
    return __funnelshift_r(low, high, shift);
  }
};

/// Four bytes that have others around them in the tensor, three before and seven behind.
__device__ __forceinline__ LooseWord load_inner_word(const uint8_t* __restrict__ address) {
  const unsigned beyond = reinterpret_cast<uintptr_t>(address) & 3;
  const auto* word = reinterpret_cast<const uint32_t*>(address - beyond);
  return {__ldg(word), __ldg(word + 1), 8 * beyond};
}

/// An address as the same aligned word for all threads, and how far behind it.
struct WordPlace {
  const uint8_t* __restrict__ word;
  uint32_t offset;

  __device__ __forceinline__ operator const uint8_t*() const {
    return word + offset;
  }
};

/// The same of such an address.
__device__ __forceinline__ LooseWord load_inner_word(const WordPlace& place) {
  const auto* word = reinterpret_cast<const uint32_t*>(place.word + (place.offset & ~3u));
  return {__ldg(word), __ldg(word + 1), 8 * (place.offset & 3)};
}

/// The first `count` bytes, 1 to 4, count; the others are unspecified. At the ends of
/// the tensor a word may reach beyond it: there the bytes are read one by one.
__device__ __forceinline__ LooseWord
load_loose_word(const uint8_t* __restrict__ address, int count, const Bounds& bounds) {
  if (address - 3 >= bounds.begin && address + 8 <= bounds.end) {
    return load_inner_word(address);
  }
  return {load_single_bytes(address, count), 0, 0};
}

/// A word that is whole and aligned, in the same shape.
__device__ __forceinline__ LooseWord load_aligned_word(const uint8_t* __restrict__ address) {
  return {__ldcs(reinterpret_cast<const uint32_t*>(address)), 0, 0};
}

/// Adds a vec16 to a table of bytes. Lanes whose words come one later, two later or both begin with
/// others, so that they do not meet in a bank.
template <class AnyTable>
__device__ __forceinline__ void add_turned(
    const AnyTable& table, uint4 v, const bool (&turned)[2], const uint32_t (&places)[4]) {
  if (turned[0]) {
    v = make_uint4(v.y, v.z, v.w, v.x);
  }
  if (turned[1]) {
    v = make_uint4(v.z, v.w, v.x, v.y);
  }
  table.add_word(v.x, places[0]);
  table.add_word(v.y, places[1]);
  table.add_word(v.z, places[2]);
  table.add_word(v.w, places[3]);
}

__device__ __forceinline__ uint8_t byte_of(uint32_t word, int index) {
  return static_cast<uint8_t>(word >> (8 * index));
}

} // namespace histo::cuda
