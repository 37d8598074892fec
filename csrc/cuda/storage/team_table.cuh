// The table of a team in shared memory, used for one channel after another.
#pragma once

#include <cstdint>

#include "cuda/storage/shared.cuh"
#include "cuda/walk/team.cuh"

namespace histo::cuda {

/// [slot][copy]: threads add to copies in turns.
template <bool kIsWarp>
struct TeamTable {
  const Team<kIsWarp>& team;
  uint32_t* memory;
  unsigned log_copies;
  uint32_t own;   // the address of this thread's copy of slot 0
  uint32_t bytes; // of the copies of a slot

  __device__ __forceinline__
  TeamTable(const Team<kIsWarp>& the_team, uint32_t* shared, unsigned slots, unsigned copies)
      : team(the_team), memory(shared), log_copies(copies) {
    own = address_of(memory) + 4 * (team.thread & ((1u << log_copies) - 1));
    bytes = 4u << log_copies;
    for (unsigned i = team.thread; i < slots << log_copies; i += team.threads) {
      memory[i] = 0;
    }
    team.wait();
  }
  __device__ __forceinline__ void add(unsigned slot) const {
    add_shared(own + slot * bytes, 1);
  }
  /// Counts a value that was counted `times` too often.
  __device__ __forceinline__ void take(unsigned slot, unsigned times) const {
    add_shared(own + slot * bytes, 0 - times);
  }
  /// The sum of a slot's copies, which are zero afterwards.
  __device__ __forceinline__ uint32_t empty(unsigned slot) const {
    uint32_t sum = 0;
    for (unsigned i = slot << log_copies; i < (slot + 1) << log_copies; ++i) {
      sum += memory[i];
      memory[i] = 0;
    }
    return sum;
  }
};

} // namespace histo::cuda
