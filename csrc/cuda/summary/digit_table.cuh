// Digits of exact sums in shared memory, which the threads of a block add to.
#pragma once

#include "core/exact_sum.h"
#include "cuda/storage/shared.cuh"
#include "cuda/summary/summary.h"

namespace histo::cuda {

/// What a block finds of a channel: a row of numbers of 64 bits. A number is two words, because
/// additions of 64 bits are loops in shared memory.
struct DigitTable {
  uint32_t address; // of the thread's copy of the table, or its column
  uint32_t step;    // bytes from one word to the next: those of other copies or columns lie between

  DigitTable() = default;
  /// Copy or column `own` of as many as a row has.
  __device__ __forceinline__ DigitTable(const uint32_t* words, int own, int of_row)
      : address(address_of(words + own)), step(of_row * uint32_t{sizeof(uint32_t)}) {
  }

  __device__ __forceinline__ void add(int row, int64_t number) const {
    const auto low = static_cast<uint32_t>(number);
    auto high = static_cast<uint32_t>(static_cast<uint64_t>(number) >> 32);
    const uint32_t word = address + 2 * row * step;
    high += fetch_add_shared(word, low) > ~low ? 1 : 0;
    if (high != 0) {
      add_shared(word + step, high);
    }
  }
  /// Adds magnitude * 2^exponent, or subtracts it, to the digits from a row on, whose lowest bit is
  /// 2^lowest.
  __device__ __forceinline__ void add(
      int row, int lowest, int exponent, uint64_t magnitude, bool is_negative) const {
    int position = exponent - lowest;
    if (position < 0) { // the bits below the lowest digit are not set
      magnitude = position > -64 ? magnitude >> -position : 0;
      position = 0;
    }
    add_by_digits(position, magnitude, is_negative, [&](int digit, int64_t number) {
      if (number != 0) {
        add(row + digit, number);
      }
    });
  }
  /// The number of a row, in this copy or column.
  __device__ __forceinline__ int64_t at(int row) const {
    const uint32_t word = address + 2 * row * step;
    return static_cast<int64_t>(uint64_t{load_shared(word + step)} << 32 | load_shared(word));
  }
};

/// Adds number * 2^exponent to the digits from a row on. It is called seldom, and so is a function:
/// it would take registers from the loops.
inline __device__ __noinline__ void add_scaled(
    DigitTable table, int row, int lowest, int exponent, int64_t number) {
  const auto bits = static_cast<uint64_t>(number);
  if (number != 0) {
    table.add(row, lowest, exponent, number < 0 ? -bits : bits, number < 0);
  }
}

/// Adds a number of a block to that of its channel. Several blocks may do so. A digit hands what it
/// has above its 32 bits to the next one, so that many additions have room.
template <class T>
__device__ __forceinline__ void add_to_channel(unsigned long long* found, int row, int64_t number) {
  using Rows = SummaryRows<T>;
  if (number == 0) {
    return;
  }
  if (Rows::has_next(row)) {
    const int64_t above = number >> kDigitBits;
    atomicAdd(&found[row], static_cast<unsigned long long>(number & kDigitMask));
    if (above != 0) {
      atomicAdd(&found[row + 1], static_cast<unsigned long long>(above));
    }
  } else {
    atomicAdd(&found[row], static_cast<unsigned long long>(number));
  }
}

} // namespace histo::cuda
