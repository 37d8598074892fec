// The shared memory of a block that has rows of a stripe of columns, and its cluster.
#pragma once

#include <cstdint>

#include "cuda/cluster.cuh"
#include "cuda/select/sort_keys.cuh"
#include "cuda/walk/walk.cuh"

namespace histo::cuda {

constexpr unsigned kDigits = 1u << kBitsOfColumnDigit;
constexpr unsigned kDigitGroups = 16; // of neighbouring digits, which have a sum
constexpr unsigned kOfGroup = kDigits / kDigitGroups;
static_assert(
    kDigits % (kThreadsOfStripes / kWarp * kMaxCluster) == 0 &&
        kDigits / (kThreadsOfStripes / 2 / kWarp) <= kOfGroup,
    "warps sum as many digits each, those of one group");

template <class Bits>
using KeyWord = std::conditional_t<sizeof(Bits) == 8, uint64_t, uint32_t>;

/// The shared memory of a block.
template <class Bits>
struct StripeMemory {
  static constexpr unsigned kOfWord = ColumnOfThread<Bits>::kOfWord;
  static constexpr unsigned kWidth = kOfWord * kWarp;

  // Addresses are computed where they are needed: so they take no registers.
  unsigned char* memory;
  const StripeShape& shape;

  /// [target][column], as much of the keys as is known.
  __device__ __forceinline__ Bits* found() const {
    return reinterpret_cast<Bits*>(memory);
  }
  /// [slot][column]
  __device__ __forceinline__ Bits* prefixes() const {
    return found() + shape.targets * kWidth;
  }
  /// [target][column], among the values with that prefix.
  __device__ __forceinline__ uint32_t* ranks() const {
    return reinterpret_cast<uint32_t*>(prefixes() + shape.slots * kWidth);
  }
  /// [column], those of the channel.
  __device__ __forceinline__ uint32_t* nans() const {
    return ranks() + shape.targets * kWidth;
  }
  /// [column], how many slots.
  __device__ __forceinline__ uint32_t* used() const {
    return nans() + kWidth;
  }
  /// [slot][group of digits][word]
  __device__ __forceinline__ uint32_t* groups() const {
    return used() + kWidth;
  }
  /// [slot][digit][word]. Digits are those of the numbers' bits, not of their keys.
  __device__ __forceinline__ uint32_t* table() const {
    return groups() + shape.slots * kDigitGroups * kWarp;
  }
  /// [column], those of the block's rows. Later it takes the counts of numbers that have no slot.
  __device__ __forceinline__ uint32_t* own_nans() const {
    return table() + shape.slots * kDigits * kWarp;
  }
  /// [first digit][word], of 16-bit types: the first row of each column's slot, or kNoRow.
  __device__ __forceinline__ uint32_t* first_rows() const {
    return own_nans() + kWidth;
  }
  static constexpr uint16_t kNoRow = 0xffff;

  /// The count of one of the columns of a word.
  static __device__ __forceinline__ uint32_t count_of(uint32_t word, unsigned of_word) {
    return kOfWord == 1 ? word : word >> 16 * of_word & 0xffff;
  }
  static __device__ __forceinline__ uint32_t one(unsigned of_word) {
    return kOfWord == 1 ? 1 : 1u << 16 * of_word;
  }
};

/// A block of a cluster.
struct BlockOfCluster {
  unsigned size; // a power of two
  unsigned rank;

  __device__ __forceinline__ void sync() const {
    if (size == 1) {
      __syncthreads();
    } else {
      sync_cluster();
    }
  }
  /// The rank of the block that lies so far behind this one. After the last one follows the first.
  __device__ __forceinline__ unsigned behind(unsigned distance) const {
    return (rank + distance) & (size - 1);
  }
  __device__ __forceinline__ uint32_t load(const uint32_t* address, unsigned from) const {
    return size == 1 ? *address : load_from_rank(address, from);
  }
};

/// Calls f(bits of a number, column of the word) with the numbers of a word. NaN gets a positive sign,
/// so that it lies behind all numbers, and is added to `nans`: in both halves, if numbers have 16 bits.
template <class Bits, class F>
__device__ __forceinline__ void for_each_number(
    const Pack<Bits, ColumnOfThread<Bits>::kOfWord>& pack,
    const KeyOrder<Bits>& order,
    uint32_t& nans,
    const F& f) {
  if constexpr (sizeof(Bits) == 2) {
    const auto twice = [](uint32_t half) { return half << 16 | half; };
    constexpr uint32_t kSigns = 0x80008000, kMagnitude = 0x7fff;
    const uint32_t to_sign = order.has_nan() ? kMagnitude - order.largest : 0; // of NaN alone
    auto word = reinterpret_cast<const uint32_t&>(pack);
    const uint32_t beyond = (word & twice(order.mask)) + twice(to_sign);
    nans += beyond >> 15 & twice(1);
    word &= ~(beyond & kSigns);
    f(word & 0xffff, 0);
    f(word >> 16, 1);
  } else {
    KeyWord<Bits> bits = pack.elements[0];
    if (order.is_nan(pack.elements[0])) {
      bits &= order.mask;
      ++nans;
    }
    f(bits, 0);
  }
}

} // namespace histo::cuda
