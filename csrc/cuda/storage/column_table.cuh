// The table of a stripe of columns in shared memory.
#pragma once

#include "cuda/storage/accumulate.cuh"
#include "cuda/storage/rotated.cuh"

namespace histo::cuda {

/// [column of the word][slot][word]: the lanes of a warp have different words, and so different
/// banks.
template <class Accumulator, int kOfWord, int kLogWords>
struct ColumnTable {
  using Local = typename Accumulator::Local;
  using Step = typename Accumulator::Step;

  Local* memory;
  unsigned slots;
  uint32_t own;   // the address of slot 0 of the first column of this thread's word
  unsigned plane; // bytes of a column of all words

  __device__ __forceinline__ ColumnTable(Local* shared, unsigned slots_of_column, unsigned word)
      : memory(shared),
        slots(slots_of_column),
        own(address_of(shared) + sizeof(Local) * word),
        plane(sizeof(Local) * (slots_of_column << kLogWords)) {
  }
  __device__ __forceinline__ unsigned size() const {
    return (slots << kLogWords) * kOfWord;
  }
  /// All threads of the block clear it. They must wait for each other before one adds.
  template <unsigned kThreads>
  __device__ __forceinline__ void clear() const {
    for (unsigned i = threadIdx.x; i < size(); i += kThreads) {
      memory[i] = 0;
    }
  }
  __device__ __forceinline__ uint32_t address(unsigned slot, int of_word) const {
    return own + of_word * plane + sizeof(Local) * (slot << kLogWords);
  }
  __device__ __forceinline__ void add(unsigned slot, int of_word, Step step) const {
    add_step(address(slot, of_word), step);
  }
  /// Moves the table so that `at` causes no bank conflict, neither along slots nor along columns.
  /// All threads of the block have added, and call it together.
  __device__ __forceinline__ void rotate() const {
    rotate_rows<kLogWords>(memory, size());
    __syncthreads();
  }
  /// The local value of a column, after `rotate`.
  __device__ __forceinline__ Local at(unsigned slot, unsigned column) const {
    return memory[rotated<kLogWords>(column % kOfWord * slots + slot, column / kOfWord)];
  }
};

} // namespace histo::cuda
