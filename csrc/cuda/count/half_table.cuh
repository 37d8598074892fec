// The table for bytes in shared memory, for rows of half a line of memory.
#pragma once

#include "cuda/count/bytes.cuh"
#include "cuda/policy.h"
#include "cuda/storage/shared.cuh"

namespace histo::cuda {

/// The table has 256 entries of 32 words. A word is two 16-bit counters, so the table has 64
/// columns in 32 KiB.
///
/// A lane counts two of four neighbouring bytes in a word and two in the next word. Lanes that read
/// the same columns of other rows begin with the other word, and with another four of their 16
/// bytes. So there are no bank conflicts. The address of a counter is a dot product of all four
/// bytes with factors that select one of them.
struct HalfTable {
  static constexpr int kEntryWords = kHalfColumns / 2;
  static constexpr uint32_t kFactor = 4 * kEntryWords; // what a value is multiplied by
  static_assert(kEntryWords == kWarp && kFactor < 256);

  uint32_t factor;       // of the byte that is added first
  uint32_t addresses[4]; // of the counter of its value 0, for each word of four bytes
  bool turned[2];        // whether a lane's words are added one later, and two later

  /// `words` are the words of a row that a lane reads at once.
  __device__ HalfTable(const uint32_t* shared, int lane, int words) : turned() {
    const int lanes_of_row = kHalfColumns / 4 / words;
    const int row = lane / lanes_of_row;
    const int odd = row % 2;
    factor = kFactor << 16 * odd;
    turned[0] = row & 2;
    turned[1] = row & 4;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int word = lane % lanes_of_row * words + (i + row / 2) % words;
      addresses[i] = address_of(shared) + 4 * (2 * word + odd);
    }
  }
  static __device__ __forceinline__ unsigned column_of_word(unsigned word, unsigned half) {
    return 2 * word + half;
  }
  __device__ __forceinline__ void add_word(uint32_t bytes, uint32_t address) const {
    const uint32_t second = factor ^ (kFactor << 16 | kFactor);
    add_shared(__dp4a(bytes, factor, address), 1);
    add_shared(__dp4a(bytes, factor << 8, address), 0x10000);
    add_shared(__dp4a(bytes, second, address ^ 4), 1);
    add_shared(__dp4a(bytes, second << 8, address ^ 4), 0x10000);
  }
  __device__ __forceinline__ void add(uint32_t bytes) const {
    add_word(bytes, addresses[0]);
  }
  __device__ __forceinline__ void add(const LooseWord& word) const {
    add(word.bytes());
  }
  __device__ __forceinline__ void add(uint4 v) const {
    add_turned(*this, v, turned, addresses);
  }
};

} // namespace histo::cuda
