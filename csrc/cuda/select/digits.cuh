// Counting a digit of the rows of a block, in a table in shared memory: [slot][digit].
#pragma once

#include <cstdint>

#include "cuda/select/targets.cuh"
#include "cuda/storage/fill_words.cuh"
#include "cuda/walk/walk.cuh"

namespace histo::cuda {

/// A table of counters. It needs no copies: lanes that add 1 to the same word do so together.
struct DigitCounts {
  uint32_t* words;
  unsigned counters;

  /// Called by the block, which must wait afterwards. There is room for a multiple of four words.
  __device__ __forceinline__ void clear() const {
    fill_words(words, (counters + 3) / 4 * 4, 0);
  }
};

/// The first digit of all values. `for_each` calls a function with each.
template <class Bits, class ForEach>
__device__ __forceinline__ void count_first_digit(
    const ForEach& for_each,
    const KeyOrder<Bits>& order,
    const KeyDigit& digit,
    const DigitCounts& table) {
  const uint32_t counters = address_of(table.words);
  const unsigned nan_value = digit.values(), shift = digit.shift;
  for_each([&](Bits bits) {
    const auto value = static_cast<unsigned>(order.ordered(bits) >> shift);
    add_shared(counters + 4 * (order.is_nan(bits) ? nan_value : value), 1);
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
    const DigitCounts& table) {
  const uint32_t counters = address_of(table.words);
  const unsigned shift = digit.shift, bits = digit.bits, mask = digit.values() - 1;
  if (slots.count == 1) {
    const auto only = static_cast<Bits>(slots.prefixes[0]);
    for_each([&](Bits number) {
      const Bits upper = static_cast<Bits>(order.key(number) >> shift);
      if (static_cast<Bits>(upper >> bits) == only) {
        add_shared(counters + 4 * (static_cast<unsigned>(upper) & mask), 1);
      }
    });
    return;
  }
  if (lookup.is_exact(digit)) {
    // Other values go to a counter that nobody reads: a branch would be slower.
    const uint32_t elsewhere = address_of(lookup.elsewhere + threadIdx.x % kWarp);
    for_each([&](Bits number) {
      const auto upper = static_cast<unsigned>(order.key(number) >> shift);
      const unsigned slot = lookup.slot_at(upper >> bits);
      const uint32_t counter = counters + 4 * (slot << bits | (upper & mask));
      add_shared(slot == kNoSlot ? elsewhere : counter, 1);
    });
    return;
  }
  const auto factor = lookup.factor;
  for_each([&](Bits number) {
    const Bits upper = static_cast<Bits>(order.key(number) >> shift);
    const auto prefix = static_cast<Bits>(upper >> bits);
    const unsigned slot = lookup.slot_at(SlotLookup<Bits>::index_of(prefix, factor));
    if (slot != kNoSlot && lookup.prefixes[slot] == prefix) {
      const unsigned counter = slot << bits | (static_cast<unsigned>(upper) & mask);
      add_shared(counters + 4 * counter, 1);
    }
  });
}

} // namespace histo::cuda
