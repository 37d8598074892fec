// Counting a digit of the rows of a block, in a table in shared memory: [slot][digit][copy].
#pragma once

#include <cstdint>

#include "cuda/select/targets.cuh"
#include "cuda/walk/walk.cuh"

namespace histo::cuda {

/// A table of counters. Lanes take its copies in turns: most values may be equal.
struct DigitTable {
  uint32_t* words;
  unsigned counters;
  unsigned log_copies;

  /// As many copies as there is room for.
  __device__ __forceinline__
  DigitTable(uint32_t* memory, unsigned size, unsigned all, unsigned most_log_copies)
      : words(memory), counters(all), log_copies(most_log_copies) {
    while (log_copies > 0 && all << log_copies > size) {
      --log_copies;
    }
  }
  __device__ __forceinline__ unsigned copy() const {
    return threadIdx.x & ((1u << log_copies) - 1);
  }
  __device__ __forceinline__ uint32_t address() const {
    return address_of(words) + 4 * copy();
  }
  /// Called by the block, which must wait afterwards.
  __device__ __forceinline__ void clear() const {
    for (unsigned i = threadIdx.x; i < counters << log_copies; i += blockDim.x) {
      words[i] = 0;
    }
  }
  __device__ __forceinline__ uint32_t sum(unsigned counter) const {
    const unsigned mask = (1u << log_copies) - 1;
    uint32_t all = 0;
    for (unsigned i = 0; i <= mask; ++i) {
      // Lanes begin with different copies, so that they meet in few banks.
      all += words[(counter << log_copies) + ((i + threadIdx.x) & mask)];
    }
    return all;
  }
};

/// The first digit of all values. `for_each` calls a function with each, and perhaps how often it
/// counts.
template <class Bits, class ForEach>
__device__ __forceinline__ void count_first_digit(
    const ForEach& for_each,
    const KeyOrder<Bits>& order,
    const KeyDigit& digit,
    const DigitTable& table) {
  const uint32_t counters = table.address();
  const unsigned nan_value = digit.values(), shift = digit.shift, scale = table.log_copies + 2;
  for_each([&](Bits bits, uint32_t times = 1) {
    const auto value = static_cast<unsigned>(order.ordered(bits) >> shift);
    add_shared(counters + ((order.is_nan(bits) ? nan_value : value) << scale), times);
  });
}

/// Another digit, of the values that begin as a slot does.
template <class Bits, class ForEach>
__device__ __forceinline__ void count_next_digit(
    const ForEach& for_each,
    const KeyOrder<Bits>& order,
    const KeyDigit& digit,
    const Slots& slots,
    const SlotLookup<Bits>& lookup,
    const DigitTable& table) {
  const uint32_t counters = table.address();
  const unsigned shift = digit.shift, bits = digit.bits, mask = digit.values() - 1;
  const unsigned scale = table.log_copies + 2;
  if (slots.count == 1) {
    const auto only = static_cast<Bits>(slots.prefixes[0]);
    for_each([&](Bits number, uint32_t times = 1) {
      const Bits upper = static_cast<Bits>(order.key(number) >> shift);
      if (static_cast<Bits>(upper >> bits) == only) {
        add_shared(counters + ((static_cast<unsigned>(upper) & mask) << scale), times);
      }
    });
    return;
  }
  const auto factor = lookup.factor;
  for_each([&](Bits number, uint32_t times = 1) {
    const Bits upper = static_cast<Bits>(order.key(number) >> shift);
    const auto prefix = static_cast<Bits>(upper >> bits);
    const unsigned slot = lookup.slot_at(SlotLookup<Bits>::index_of(prefix, factor));
    if (slot != kNoSlot && lookup.prefixes[slot] == prefix) {
      const unsigned counter = slot << bits | (static_cast<unsigned>(upper) & mask);
      add_shared(counters + (counter << scale), times);
    }
  });
}

} // namespace histo::cuda
