// A table of bytes in shared memory for half a line of memory.
#pragma once

#include "bytes.cuh"
#include "shared.cuh"
#include "tuning.h"

namespace histo::cuda {

/// 256 rows of 32 words, each word two 16-bit counters, so 64 columns in 32 KiB.
///
/// A lane counts two of four neighbouring bytes in a word and two in the next. Lanes that have
/// other rows and the same columns begin with the other word, and with other four of 16 bytes: no
/// two lanes ever meet in a bank. The address of a counter is a sum of products of all four bytes,
/// of which the factors choose one.
struct HalfTable {
  static constexpr int kKeyWords = kHalfColumns / 2;
  static constexpr uint32_t kFactor = 4 * kKeyWords; // what a value is multiplied by
  static_assert(kKeyWords == kWarp && kFactor < 256);

  uint32_t factor;    // of the byte that comes first; the next one is in the same word
  uint32_t places[4]; // where it is counted if it is 0, of each word of four bytes
  bool turned[2];     // whether a lane's words come one later, and two later

  /// A lane has so many words of a row.
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
      places[i] = address_of(shared) + 4 * (2 * word + odd);
    }
  }
  static __device__ __forceinline__ unsigned column_of_word(unsigned word, unsigned half) {
    return 2 * word + half;
  }
  __device__ __forceinline__ void add_word(uint32_t bytes, uint32_t place) const {
    const uint32_t second = factor ^ (kFactor << 16 | kFactor);
    add_shared(__dp4a(bytes, factor, place), 1);
    add_shared(__dp4a(bytes, factor << 8, place), 0x10000);
    add_shared(__dp4a(bytes, second, place ^ 4), 1);
    add_shared(__dp4a(bytes, second << 8, place ^ 4), 0x10000);
  }
  __device__ __forceinline__ void add(uint32_t bytes) const {
    add_word(bytes, places[0]);
  }
  __device__ __forceinline__ void add(const LooseWord& word) const {
    add(word.bytes());
  }
  __device__ __forceinline__ void add(uint4 v) const {
    add_turned(*this, v, turned, places);
  }
};

} // namespace histo::cuda
