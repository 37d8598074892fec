// The table of a stripe of columns in shared memory, small enough that a multiprocessor has several
// blocks.
#pragma once

#include "core/accumulator.h"
#include "cuda/cluster.cuh"
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
  /// The count of a column, after `rotate`, in the tables of `blocks` blocks of a cluster.
  __device__ __forceinline__ Count::Total sum(
      unsigned slot, unsigned column, unsigned words, unsigned blocks) const {
    Count::Total sum = 0;
    for (unsigned lane = column / kOfWord; lane < kLanes; lane += words) {
      const uint32_t* counter = &memory[rotated<kLogLanes>(slot, lane)];
      if (blocks == 1) {
        sum += part(*counter, column);
      } else {
        for (unsigned rank = 0; rank < blocks; ++rank) {
          sum += part(load_from_rank(counter, rank), column);
        }
      }
    }
    return sum;
  }

 private:
  __device__ __forceinline__ static uint32_t part(uint32_t word, unsigned column) {
    return kOfWord == 1 ? word : word >> (column % 2 * 16) & 0xffff;
  }
};

} // namespace histo::cuda
