// Tables of columns, [row][word] with a word for each lane, that are to be read down a column.
#pragma once

#include <cstdint>

#include "cuda/storage/shared.cuh"

namespace histo::cuda {

/// The index of a word in a rotated table. The table's rows lie one after another, and each 32
/// words of it are moved within their rows, by one word more than the 32 before. Lanes then have no
/// bank conflict, neither along a row nor down a column.
template <int kLogWords>
__device__ __forceinline__ unsigned rotated(unsigned row, unsigned word) {
  constexpr unsigned kWords = 1u << kLogWords;
  return row * kWords + (word + row / (kWarp / kWords)) % kWords;
}

/// Rotates a table of `size` words. A warp moves 32 words at a time.
template <int kLogWords>
__device__ __forceinline__ void rotate_rows(uint32_t* table, unsigned size) {
  constexpr unsigned kWords = 1u << kLogWords;
  const unsigned lane = threadIdx.x % kWarp;
  for (unsigned first = threadIdx.x - lane; first < size; first += blockDim.x) {
    const unsigned i = first + lane;
    const uint32_t word = i < size ? table[i] : 0;
    __syncwarp();
    if (i < size) {
      table[rotated<kLogWords>(i / kWords, i % kWords)] = word;
    }
  }
}

} // namespace histo::cuda
