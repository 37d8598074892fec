// The table of a block -> the sums in the result.
#pragma once

#include "cuda/storage/word_table.cuh"
#include "cuda/warp.cuh"

namespace histo::cuda {

/// The sum of a word over all copies. Lanes begin with different copies, so that they meet in no
/// bank.
__device__ __forceinline__ int64_t
sum_of_copies(const uint32_t* memory, const WordTable& table, unsigned word) {
  const unsigned copies = 1u << table.log_copies;
  int64_t sum = 0;
  for (unsigned copy = 0; copy < copies; ++copy) {
    const unsigned other = (copy + threadIdx.x) & (copies - 1);
    sum += int64_t{memory[(word << table.log_copies) + other]} - int64_t{kMiddleOfWord};
  }
  return sum;
}

/// Lanes that have the words of a slot, one each.
constexpr unsigned kLanesOfSlot = kMostWordsToWrite;

/// Makes the numbers of lanes canonical: digit `digit` of a slot each, which may be no digit.
__device__ __forceinline__ int64_t normalize_lanes(int64_t number, int digit, int digits) {
  for (;;) {
    const bool hands_on = digit < digits - 1;
    const int64_t carry = hands_on ? number >> kDigitBits : 0;
    if (!__any_sync(kAllLanes, carry != 0)) {
      return number;
    }
    number = hands_on ? number & kDigitMask : number;
    const int64_t before = __shfl_up_sync(kAllLanes, carry, 1, kLanesOfSlot);
    number += threadIdx.x % kLanesOfSlot > 0 ? before : 0;
  }
}

/// Writes the whole result of a channel, by a block that alone has it. The table has all bits.
__device__ __forceinline__ void write_words(const uint32_t* memory, const BlockResult& result) {
  const WordTable& table = result.table;
  const SumLayout& layout = result.sums.layout;
  const auto lane = static_cast<int>(threadIdx.x % kLanesOfSlot);
  const int position = result.origin - table.bias, digit = (position >> 5) + lane;
  const int shift = position & (kDigitBits - 1);
  const unsigned step = blockDim.x / kLanesOfSlot, slots = result.places.slots();
  // All lanes of a warp take the same number of slots.
  for (unsigned first = threadIdx.x / kWarp * (kWarp / kLanesOfSlot); first < slots;
       first += step) {
    const unsigned slot = first + threadIdx.x % kWarp / kLanesOfSlot;
    const int64_t bin = slot < slots ? result.places.of(slot) : kNoBin;
    const bool counts = bin != kNoBin && result.places.counts(slot);
    const bool has_word = counts && lane < static_cast<int>(table.words);
    const int64_t sum = has_word ? sum_of_copies(memory, table, slot * table.words + lane) : 0;
    const auto bits = static_cast<uint64_t>(sum);
    const int64_t above = __shfl_up_sync(kAllLanes, sum >> (kDigitBits - shift), 1, kLanesOfSlot);
    const int64_t next = __shfl_down_sync(kAllLanes, sum, 1, kLanesOfSlot);
    const bool is_last = digit == layout.digits - 1;
    int64_t number = static_cast<int64_t>(is_last ? bits << shift : bits << shift & kDigitMask);
    number += lane > 0 ? above : 0;
    if (layout.digits == 1) { // an integer, which wraps
      number = static_cast<int64_t>(bits + (static_cast<uint64_t>(next) << kDigitBits));
    }
    number = normalize_lanes(number, digit, layout.digits);
    if (bin == kNoBin) {
      continue;
    }
    auto* of_bin = reinterpret_cast<int64_t*>(result.sums.of(bin));
    if (digit >= 0 && digit < layout.digits) {
      of_bin[digit] = number;
    }
    if (lane < layout.counts) {
      of_bin[layout.digits + lane] =
          counts ? int64_t{result.non_finite[slot * kNumNonFinite + lane]} : 0;
    }
  }
}

/// Adds a table whose copies are columns to the result, when all threads of the block have added.
__device__ __forceinline__ void put_columns(const uint32_t* memory, const BlockResult& result) {
  const WordTable& table = result.table;
  const unsigned columns = 1u << table.log_copies;
  const unsigned size = result.places.slots() * table.words * columns;
  for (unsigned i = threadIdx.x; i < size; i += blockDim.x) {
    const unsigned column = i % columns, slot = i / columns / table.words;
    const unsigned word = i / columns - slot * table.words;
    const int64_t sum = int64_t{memory[i]} - int64_t{kMiddleOfWord};
    const int64_t bin = result.bin_of(slot, column);
    if (sum != 0 && bin != kNoBin && result.columns.first + column < result.columns.columns) {
      const int position = result.origin - table.bias + kDigitBits * static_cast<int>(word);
      result.sums_of(column).add_shifted(bin, position, sum);
    }
  }
}

/// Adds the table to the result, when all threads of the block have added.
__device__ __forceinline__ void put_words(const uint32_t* memory, const BlockResult& result) {
  const WordTable& table = result.table;
  for (unsigned i = threadIdx.x; i < result.places.slots() * table.words; i += blockDim.x) {
    const unsigned slot = i / table.words, word = i - slot * table.words;
    const int64_t bin = result.bin_of(slot, 0);
    if (bin == kNoBin) {
      continue;
    }
    const int64_t sum = sum_of_copies(memory, table, i);
    const int position = result.origin - table.bias + kDigitBits * static_cast<int>(word);
    result.sums.add_shifted(bin, position, sum);
  }
}

/// Puts the table of a block where it belongs, when all its threads have added.
__device__ __forceinline__ void put_or_write_words(
    const uint32_t* memory, const BlockResult& result) {
  result.non_finite != nullptr ? write_words(memory, result) : put_words(memory, result);
}

} // namespace histo::cuda
