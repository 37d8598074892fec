// The table of a stripe of columns in shared memory, small enough that a multiprocessor has several
// blocks.
#pragma once

#include "core/accumulator.h"
#include "cuda/storage/rotated.cuh"

namespace histo::cuda {

/// [slot][lane] words. If a stripe has fewer words than there are lanes, each column has several
/// lanes. Two columns of 16 bits are a word of a row, and their 16-bit counters are a word here.
template <int kOfWord, int kLogLanes>
struct StripeTable {
  static_assert(kOfWord == 1 || kOfWord == 2, "a counter has 32 or 16 bits");
  static constexpr unsigned kLanes = 1u << kLogLanes;
  static constexpr unsigned kBits = 32 / kOfWord;

  uint32_t* memory;
  unsigned slots;
  uint32_t own; // the address of slot 0 of this thread's lane

  __device__ __forceinline__ StripeTable(uint32_t* shared, unsigned slots_of_column)
      : memory(shared),
        slots(slots_of_column),
        own(address_of(shared) + sizeof(uint32_t) * (threadIdx.x & (kLanes - 1))) {
  }
  /// All threads of the block clear it. They must wait for each other before one adds.
  __device__ __forceinline__ void clear() const {
    auto* vec16s = reinterpret_cast<uint4*>(memory);
    for (unsigned i = threadIdx.x; i < slots * (kLanes / 4); i += blockDim.x) {
      vec16s[i] = {0, 0, 0, 0};
    }
  }
  __device__ __forceinline__ void add(unsigned slot, int of_word) const {
    add_shared(own + sizeof(uint32_t) * (slot << kLogLanes), 1u << (of_word * kBits % 32));
  }
  /// Moves the table so that `sum` causes no bank conflict. All threads of the block have added, and
  /// call it together.
  __device__ __forceinline__ void rotate() const {
    rotate_rows<kLogLanes>(memory, slots << kLogLanes);
  }
  /// The count of a column of a stripe of so many words, after `rotate`.
  __device__ __forceinline__ Count::Total sum(
      unsigned slot, unsigned column, unsigned words) const {
    Count::Total sum = 0;
    for (unsigned lane = column / kOfWord; lane < kLanes; lane += words) {
      sum += count_in(memory[rotated<kLogLanes>(slot, lane)], column % kOfWord);
    }
    return sum;
  }
  /// Sums the lanes of each word of a slot, for stripes of 8 words that were not rotated. Lanes of a
  /// warp should ask for slots that follow each other. The sum of 16-bit counters fits 16 bits: a
  /// block has fewer rows.
  __device__ __forceinline__ void sum_lanes(unsigned slot, uint32_t (&words)[8]) const {
    const auto* row = reinterpret_cast<const uint4*>(memory + (slot << kLogLanes));
    if constexpr (kLogLanes == 3) {
      const uint4 low = row[0], high = row[1];
      set(words, low, high, false);
    } else {
      static_assert(kLogLanes == 5, "8 lanes, or 4 for each of 8 words");
      // Eight lanes of a warp read eight different vec16s of their rows: no bank conflict.
      const unsigned lane = threadIdx.x;
      const bool swaps = lane & 4;
      uint4 low{}, high{};
#pragma unroll
      for (unsigned copy = 0; copy < 4; ++copy) {
        const uint4* both = row + (copy + lane) % 4 * 2;
        add(low, both[swaps ? 1 : 0]);
        add(high, both[swaps ? 0 : 1]);
      }
      set(words, low, high, swaps);
    }
  }
  /// The count of a column in a word of the table.
  __device__ __forceinline__ static uint32_t count_in(uint32_t word, unsigned of_word) {
    return kOfWord == 1 ? word : word >> (of_word * 16) & 0xffff;
  }

 private:
  __device__ __forceinline__ static void add(uint4& sum, const uint4& more) {
    sum.x += more.x;
    sum.y += more.y;
    sum.z += more.z;
    sum.w += more.w;
  }
  __device__ __forceinline__ static void set(
      uint32_t (&words)[8], const uint4& low, const uint4& high, bool swapped) {
    const uint32_t a[] = {low.x, low.y, low.z, low.w}, b[] = {high.x, high.y, high.z, high.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      words[i] = swapped ? b[i] : a[i];
      words[4 + i] = swapped ? a[i] : b[i];
    }
  }
};

} // namespace histo::cuda
