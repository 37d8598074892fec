// The table of a block -> the sums in the result.
#pragma once

#include "cuda/storage/word_table.cuh"
#include "cuda/warp.cuh"

namespace histo::cuda {

/// The sum of a word over all copies. Lanes begin with different copies, so that they seldom meet in
/// a bank.
__device__ __forceinline__ int64_t
sum_of_copies(const uint32_t* memory, const WordTable& table, unsigned word) {
  constexpr unsigned kOfVec16 = 4;
  const unsigned copies = 1u << table.log_copies;
  const uint32_t* own = memory + (word << table.log_copies);
  uint64_t sum = 0;
  if (copies < kOfVec16) {
    for (unsigned copy = 0; copy < copies; ++copy) {
      sum += own[(copy + threadIdx.x) & (copies - 1)];
    }
  } else {
    for (unsigned copy = 0; copy < copies; copy += kOfVec16) {
      const unsigned other = (copy + kOfVec16 * threadIdx.x) & (copies - 1);
      const uint4 some = *reinterpret_cast<const uint4*>(own + other);
      sum += uint64_t{some.x} + some.y + some.z + some.w;
    }
  }
  return static_cast<int64_t>(sum) - (int64_t{kMiddleOfWord} << table.log_copies);
}

/// Makes canonical digits of a slot's words, all 32 bits long. They take the place of its first copy.
/// A block has so few weights that the last one holds the sign.
__device__ __forceinline__ void make_digits(
    uint32_t* memory, const WordTable& table, unsigned slot, int position) {
  uint32_t* digits = memory + (slot * table.words << table.log_copies);
  const int first = position >> 5, shift = position & (kDigitBits - 1); // first <= 0
  int64_t carry = 0, before = 0;
  for (unsigned word = 0; word < table.words; ++word) {
    const int64_t sum = sum_of_copies(digits, table, word);
    const uint64_t low = static_cast<uint64_t>(sum) << shift & static_cast<uint64_t>(kDigitMask);
    carry += static_cast<int64_t>(low) + (before >> (kDigitBits - shift));
    const int digit = first + static_cast<int>(word);
    if (digit >= 0) {
      digits[digit << table.log_copies] = static_cast<uint32_t>(carry);
    }
    carry >>= kDigitBits;
    before = sum;
  }
}

/// Number i of a slot whose digits are made.
__device__ __forceinline__ int64_t
number_of(const uint32_t* memory, const BlockResult& result, unsigned slot, int i) {
  const WordTable& table = result.table;
  const int last = result.sums.layout.digits - 1;
  const uint32_t* digits = memory + (slot * table.words << table.log_copies);
  if (i > last) {
    return result.non_finite[slot * kNumNonFinite + i - last - 1];
  }
  const uint32_t digit = digits[i << table.log_copies];
  if (last == 0) { // an integer, which has two words
    const uint64_t high = digits[1 << table.log_copies];
    return static_cast<int64_t>(high << kDigitBits | digit);
  }
  return i == last ? int64_t{static_cast<int32_t>(digit)} : int64_t{digit};
}

/// Writes the whole result of a channel, by a block that alone has it. The table has all bits.
__device__ __forceinline__ void write_words(uint32_t* memory, const BlockResult& result) {
  const unsigned slots = result.places.slots();
  for (unsigned slot = threadIdx.x; slot < slots; slot += blockDim.x) {
    make_digits(memory, result.table, slot, result.origin - result.table.bias);
  }
  __syncthreads();
  // Neighbouring threads write neighbouring numbers.
  const auto size = static_cast<unsigned>(result.sums.layout.size());
  const unsigned slots_of_step = blockDim.x / size, rest_of_step = blockDim.x % size;
  unsigned slot = threadIdx.x / size, number = threadIdx.x % size;
  while (slot < slots) {
    const int64_t bin = result.places.of(slot);
    if (bin != kNoBin) {
      const auto i = static_cast<int>(number);
      const int64_t found = result.places.counts(slot) ? number_of(memory, result, slot, i) : 0;
      reinterpret_cast<int64_t*>(result.sums.of(bin))[number] = found;
    }
    number += rest_of_step;
    slot += slots_of_step + (number >= size ? 1 : 0);
    number -= number >= size ? size : 0;
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
__device__ __forceinline__ void put_or_write_words(uint32_t* memory, const BlockResult& result) {
  result.non_finite != nullptr ? write_words(memory, result) : put_words(memory, result);
}

} // namespace histo::cuda
