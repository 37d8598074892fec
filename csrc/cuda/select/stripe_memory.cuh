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
constexpr unsigned kWarpsOfStripes = kThreadsOfStripes / kWarp;
static_assert(kDigits % (kWarpsOfStripes * kMaxCluster) == 0, "warps sum as many digits each");

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
  /// [column]
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
  /// [slot][digit][word]. The first digit has a row for NaN behind the others.
  __device__ __forceinline__ uint32_t* table() const {
    return groups() + shape.slots * kDigitGroups * kWarp;
  }

  /// The count of one of the columns of a word.
  static __device__ __forceinline__ uint32_t count_of(uint32_t word, unsigned of_word) {
    return kOfWord == 1 ? word : word >> 16 * of_word & 0xffff;
  }
  static __device__ __forceinline__ uint32_t one(unsigned of_word) {
    return kOfWord == 1 ? 1 : 1u << 16 * of_word;
  }
};

/// A block of a cluster, which has one or more.
struct BlockOfCluster {
  unsigned size;
  unsigned rank;

  __device__ __forceinline__ void sync() const {
    if (size == 1) {
      __syncthreads();
    } else {
      sync_cluster();
    }
  }
  __device__ __forceinline__ uint32_t load(const uint32_t* address, unsigned from) const {
    return size == 1 ? *address : load_from_rank(address, from);
  }
};

/// Calls f(key, is NaN, column of the word) with the keys of a word; the key of NaN is any.
template <class Bits, class F>
__device__ __forceinline__ void for_each_key(
    const Pack<Bits, ColumnOfThread<Bits>::kOfWord>& pack,
    const KeyOrder<Bits>& order,
    const F& f) {
  if constexpr (sizeof(Bits) == 2) {
    const auto twice = [](Bits half) { return uint32_t{half} << 16 | half; };
    const auto word = reinterpret_cast<const uint32_t&>(pack);
    const uint32_t keys =
        word ^ (signs_of_halves(word) & twice(order.reversed)) ^ twice(order.sign);
    const uint32_t magnitudes = word & twice(order.mask);
    f(keys & 0xffff, (magnitudes & 0xffff) > order.largest, 0);
    f(keys >> 16, magnitudes >> 16 > order.largest, 1);
  } else {
    f(KeyWord<Bits>{order.ordered(pack.elements[0])}, order.is_nan(pack.elements[0]), 0);
  }
}

} // namespace histo::cuda
