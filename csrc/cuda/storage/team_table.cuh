// The table of a team in shared memory, used for one channel after another.
#pragma once

#include <cstdint>

#include "cuda/storage/shared.cuh"
#include "cuda/walk/team.cuh"

namespace histo::cuda {

/// A counter for each slot.
template <bool kIsWarp>
struct TeamTable {
  const Team<kIsWarp>& team;
  uint32_t* memory;
  uint32_t address;

  __device__ __forceinline__ TeamTable(const Team<kIsWarp>& the_team, void* shared, unsigned slots)
      : team(the_team), memory(static_cast<uint32_t*>(shared)), address(address_of(shared)) {
    for (unsigned i = team.thread; i < slots; i += team.threads) {
      memory[i] = 0;
    }
    team.wait();
  }
  /// Adds modulo 2^32: so it may take away, too.
  __device__ __forceinline__ void add(unsigned slot, uint32_t count) const {
    add_shared(address + slot * 4, count);
  }
  /// The counter, which is zero afterwards.
  __device__ __forceinline__ uint32_t empty(unsigned slot) const {
    const uint32_t count = memory[slot];
    memory[slot] = 0;
    return count;
  }
};

} // namespace histo::cuda
