// Thread block clusters (Hopper on): blocks that read each other's shared memory.
#pragma once

#include <cstdint>

namespace histo::cuda {

__device__ __forceinline__ uint32_t rank_in_cluster() {
  uint32_t rank = 0;
#if __CUDA_ARCH__ >= 900
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
  return rank;
}

/// The index of the cluster, in a grid of one dimension.
__device__ __forceinline__ uint32_t cluster_of_grid() {
  uint32_t index = 0;
#if __CUDA_ARCH__ >= 900
  asm("mov.u32 %0, %%clusterid.x;" : "=r"(index));
#endif
  return index;
}

/// A barrier of all the threads of the cluster; those of a warp may come one by one.
__device__ __forceinline__ void sync_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "barrier.cluster.arrive;\n"
      "barrier.cluster.wait;" ::
          : "memory");
#endif
}

/// The same barrier in two steps. Between them a thread uses what it has read in other blocks, and
/// these may end after the second step. The barrier does not wait for the thread's own writes.
__device__ __forceinline__ void arrive_having_read() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
#endif
}
__device__ __forceinline__ void wait_for_readers() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait;" ::: "memory");
#endif
}

/// Loads from the shared memory of the block of that rank, where `address` is in this block's.
__device__ __forceinline__ uint32_t load_from_rank(const uint32_t* address, uint32_t rank) {
  uint32_t value = 0;
#if __CUDA_ARCH__ >= 900
  const auto local = static_cast<uint32_t>(__cvta_generic_to_shared(address));
  asm volatile(
      "{\n"
      ".reg .u32 remote;\n"
      "mapa.shared::cluster.u32 remote, %1, %2;\n"
      "ld.shared::cluster.u32 %0, [remote];\n"
      "}"
      : "=r"(value)
      : "r"(local), "r"(rank)
      : "memory");
#endif
  return value;
}

} // namespace histo::cuda
