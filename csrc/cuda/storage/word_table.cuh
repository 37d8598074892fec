// Exact sums of weights in shared memory. A slot has words of 32 bits; word i counts multiples of
// 2^(origin + 32 i). Several copies, which lanes take in turns, keep equal slots apart. An addition
// returns what was there before, and so the carry. Words begin at 2^31, so that one beyond the word
// or below it is rare.
//
// The words may be a window: what lies outside is added to the result.
#pragma once

#include <cstdint>

#include "cuda/plan/weights_plan.h"
#include "cuda/storage/fill_words.cuh"
#include "cuda/storage/shared.cuh"
#include "cuda/storage/slot_places.cuh"
#include "cuda/storage/sums.cuh"

namespace histo::cuda {

constexpr uint32_t kMiddleOfWord = 0x80000000;

/// Where the copies of a table are columns: the channel of each. Otherwise all fields are 0.
struct ColumnsOfResult {
  int64_t num_bins;        // of a channel
  int64_t channels;        // column c belongs to channel c % channels
  int64_t first;           // column
  int64_t columns;         // those behind them fill the last stripe
  const unsigned* invalid; // of each copy: whether its edges are; null: none are
};

/// The table of a block, and its result, which threads seldom add to while they read. It lies in
/// shared memory.
struct BlockResult {
  ChannelSums sums;
  SlotPlaces places;
  WordTable table;
  int origin;      // the first bit of the table
  uint32_t memory; // its address
  // Of a block that writes its result itself: [slot][kNumNonFinite] counts. Otherwise null.
  unsigned* non_finite;
  ColumnsOfResult columns;

  __device__ __forceinline__ ChannelSums sums_of(unsigned copy) const {
    if (columns.channels == 0) {
      return sums;
    }
    const int64_t channel = (columns.first + copy) % columns.channels;
    return {sums.of(channel * columns.num_bins), sums.layout, sums.carries};
  }
  /// The bin of a slot, or kNoBin if its elements do not count.
  __device__ __forceinline__ int64_t bin_of(unsigned slot, unsigned copy) const {
    const bool valid = columns.invalid == nullptr || columns.invalid[copy] == 0;
    const bool counts = (valid && places.counts(slot)) || places.is_nan(slot);
    return counts ? places.of(slot) : kNoBin;
  }
};

/// A word of a table: where it lies.
struct WordPlace {
  unsigned slot, word, copy;

  __device__ __forceinline__ WordPlace(const BlockResult& result, uint32_t address) {
    const uint32_t index = (address - result.memory) / sizeof(uint32_t);
    copy = index & ((1u << result.table.log_copies) - 1);
    slot = (index >> result.table.log_copies) / result.table.words;
    word = (index >> result.table.log_copies) - slot * result.table.words;
  }
};

/// Adds a weight that has no place in the table to a slot, whose first word is at `base`.
template <class W>
__device__ __noinline__ void add_beside(const BlockResult* of_block, uint32_t base, W weight) {
  const BlockResult& result = *of_block;
  const WordPlace place(result, base);
  const unsigned slot = place.slot;
  const int64_t bin = result.bin_of(slot, place.copy);
  if (bin == kNoBin) {
    return;
  }
  const ChannelSums sums = result.sums_of(place.copy);
  const WeightParts parts = parts_of_weight(weight);
  if (result.non_finite != nullptr) { // such a table has all bits of the others
    atomicAdd(&result.non_finite[slot * kNumNonFinite + parts.kind], 1u);
    return;
  }
  if (!parts.is_finite) {
    sums.add(bin, sums.layout.digits + parts.kind, 1);
    return;
  }
  const int position = parts.position - result.table.bias;
  const uint64_t significand =
      position < 0 ? parts.significand >> min(-position, 63) : parts.significand;
  add_by_digits(max(position, 0), significand, parts.is_negative, [&](int digit, int64_t number) {
    sums.add(bin, digit, number);
  });
}

/// The table of a block. Sizes stay where the kernel's arguments are.
struct Words {
  const BlockResult& result;
  const WordTable& table;

  /// The address of a word of a slot whose first one is at `base`.
  __device__ __forceinline__ uint32_t at(uint32_t base, int word) const {
    return base + static_cast<uint32_t>(word) * table.word_bytes;
  }
};

/// The copies of a table that a thread adds to: element i of a pack to number i % kCopies.
template <int kCopies>
struct CopiesOfThread {
  const WordTable& table;
  uint32_t first[kCopies]; // the address of each one's first word

  /// `copy_of(i)`: the copy of element i.
  template <class F>
  __device__ __forceinline__
  CopiesOfThread(const WordTable& of_kernel, const uint32_t* memory, const F& copy_of)
      : table(of_kernel) {
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      first[i] = address_of(memory) + copy_of(i) * sizeof(uint32_t);
    }
  }
  /// The first word of a slot.
  __device__ __forceinline__ uint32_t base(unsigned slot, int i) const {
    return first[i % kCopies] + slot * table.slot_bytes;
  }
};

/// low + high * 2^32, which is added to a word and to the next one.
struct Addend {
  uint32_t address;
  uint32_t low;
  int32_t high;
};

/// Whether an addition passed an end of a word, as the sign of the result. Signs of words are the
/// opposite ones, since these begin in the middle.
__device__ __forceinline__ int32_t beyond_word(uint32_t before, int32_t number) {
  const auto addend = static_cast<uint32_t>(number);
  const uint32_t after = before + addend;
  return static_cast<int32_t>((before ^ after) & ~(addend ^ after));
}

/// Adds a carry of 1 or -1 to the word behind one. This is seldom called.
inline __device__ __noinline__ void add_carry(
    const BlockResult* of_block, uint32_t address, int carry) {
  const BlockResult& result = *of_block;
  const WordTable& table = result.table;
  const WordPlace place(result, address);
  unsigned word = place.word + 1;
  for (; word < table.words; ++word) {
    address += table.word_bytes;
    if (beyond_word(fetch_add_shared(address, static_cast<uint32_t>(carry)), carry) >= 0) {
      return;
    }
  }
  const int64_t bin = result.bin_of(place.slot, place.copy);
  const int position = result.origin - table.bias + kDigitBits * static_cast<int>(word);
  if (bin != kNoBin && position < kDigitBits * result.sums.layout.digits) {
    result.sums_of(place.copy).add_shifted(bin, position, carry);
  }
}

/// Adds carries, if an addition passed an end of its word. All are asked at once, because a branch
/// takes long.
template <int kSize>
__device__ __forceinline__ void add_carries(
    const Words& words,
    const uint32_t (&addresses)[kSize],
    const int32_t (&numbers)[kSize],
    const int32_t (&beyond)[kSize]) {
  int32_t any = 0;
#pragma unroll
  for (int j = 0; j < kSize; ++j) {
    any |= beyond[j];
  }
  if (any < 0) {
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      if (beyond[j] < 0) {
        add_carry(&words.result, addresses[j], numbers[j] < 0 ? -1 : 1);
      }
    }
  }
}

/// Adds all low parts before a high one, so that additions do not wait for each other. kRare: most
/// high parts are 0, with the carry from the low one. kWraps: there is no word behind the second.
template <bool kRare, bool kWraps, int kSize>
__device__ __forceinline__ void add_to_words(const Words& words, Addend (&addends)[kSize]) {
  uint32_t before[kSize], addresses[kSize];
  int32_t high[kSize], beyond[kSize];
#pragma unroll
  for (int j = 0; j < kSize; ++j) {
    before[j] = fetch_add_shared(addends[j].address, addends[j].low);
  }
  bool any = !kRare;
#pragma unroll
  for (int j = 0; j < kSize; ++j) {
    const uint64_t number = uint64_t{static_cast<uint32_t>(addends[j].high)} << kDigitBits;
    high[j] = static_cast<int32_t>((number + addends[j].low + before[j]) >> kDigitBits);
    addresses[j] = addends[j].address + words.table.word_bytes;
    any = any || high[j] != 0;
  }
  if (!any) {
    return;
  }
#pragma unroll
  for (int j = 0; j < kSize; ++j) {
    beyond[j] = 0;
    if (!kRare || high[j] != 0) {
      before[j] = fetch_add_shared(addresses[j], static_cast<uint32_t>(high[j]));
      beyond[j] = beyond_word(before[j], high[j]);
    }
  }
  if constexpr (!kWraps) {
    add_carries(words, addresses, high, beyond);
  }
}

/// All threads of the block clear its table, whose words are a multiple of 4. They must wait for each
/// other before one adds.
__device__ __forceinline__ void clear_words(uint32_t* memory, unsigned size) {
  fill_words(memory, size, kMiddleOfWord);
}

} // namespace histo::cuda
