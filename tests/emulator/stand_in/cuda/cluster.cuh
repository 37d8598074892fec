// In place of csrc/cuda/cluster.cuh.
#pragma once

#include "emulator/emulator.h"

namespace histo::cuda {

inline uint32_t rank_in_cluster() {
  return blockIdx.x % emulated::cluster_size();
}
inline uint32_t cluster_of_grid() {
  return blockIdx.x / emulated::cluster_size();
}
inline void sync_cluster() {
  emulated::wait_for_cluster();
}
/// All wait for each other later, which is enough where nobody waits for anything between.
inline void arrive_having_read() {
}
inline void wait_for_readers() {
  emulated::wait_for_cluster();
}
inline uint32_t load_from_rank(const uint32_t* address, uint32_t rank) {
  return emulated::load_of_rank(address, rank);
}

} // namespace histo::cuda
