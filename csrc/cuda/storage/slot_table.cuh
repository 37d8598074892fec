// The table of one channel in shared memory.
#pragma once

#include "cuda/plan/edge_plan.h"
#include "cuda/storage/accumulate.cuh"

namespace histo::cuda {

/// [slot][copy]: each thread adds to one of 2^kLogCopies copies.
template <class Accumulator, int kLogCopies>
struct SlotTable {
  using Local = typename Accumulator::Local;
  using Step = typename Accumulator::Step;
  static constexpr unsigned kCopies = 1u << kLogCopies;

  Local* memory;
  uint32_t own; // the address of this thread's copy of slot 0

  __device__ __forceinline__ explicit SlotTable(Local* shared)
      : memory(shared), own(address_of(shared) + sizeof(Local) * (threadIdx.x & (kCopies - 1))) {
  }
  /// All threads of the block clear it. They must wait for each other before one adds.
  template <unsigned kThreads>
  __device__ __forceinline__ void clear(unsigned slots) const {
    for (unsigned i = threadIdx.x; i < words_of(slots, kLogCopies); i += kThreads) {
      memory[i] = 0;
    }
  }
  __device__ __forceinline__ void add(unsigned slot, Step step) const {
    add_step(own + sizeof(Local) * word_of(slot, kLogCopies), step);
  }
  /// The sum of a slot's copies. Lanes begin with different copies, so that they meet in no bank.
  __device__ __forceinline__ Local sum(unsigned slot) const {
    Local sum = 0;
    for (unsigned copy = 0; copy < kCopies; ++copy) {
      sum += memory[word_of(slot, kLogCopies) + ((copy + threadIdx.x) & (kCopies - 1))];
    }
    return sum;
  }
  /// What the only copy of a slot holds, which is cleared.
  __device__ __forceinline__ Local take(unsigned slot) const {
    static_assert(kCopies == 1);
    const Local all = memory[word_of(slot, 0u)];
    memory[word_of(slot, 0u)] = 0;
    return all;
  }
};

} // namespace histo::cuda
