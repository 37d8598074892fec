// Counts one channel in more bins than one block's shared memory holds.
//
// The shared memory of all blocks together holds them. Each block owns some of the bins and counts
// them for all blocks. In a round a block reads a tile and sorts it by owner into buckets. It
// leaves these in the workspace, which stays in L2. When all blocks have done
// so, it counts the buckets that the others have left for it.
//
// The bits of a value are mixed before they are split into the owner and the number of the bin
// among the owner's. Data are often full of neighbouring bins, and mixing gives these different
// owners. If a lane's 16 bytes are equal elements, they are one item of a bucket. A full bucket
// turns further values away. The block that has read them then counts them itself: a few bins in
// shared memory, and the others in the counts. If a few values fill the tile, too many are turned
// away, and the block counts the whole next tile itself.
#include "cuda/count/grid_barrier.cuh"
#include "cuda/count/partitioned_block.cuh"
#include "cuda/count/sweeps.h"

namespace histo::cuda {
namespace {

template <class T>
__global__ __launch_bounds__(kPartitionedThreads, 1) void count_partitioned_kernel(
    const __grid_constant__ Partitioned in,
    uint32_t* __restrict__ arrived,
    uint4* buckets,
    unsigned long long* __restrict__ counts) {
  extern __shared__ __align__(16) uint4 shared[];
  constexpr int kElements = PartitionedBlock<T>::kVec16s * PartitionedBlock<T>::kOfVec16;
  PartitionedBlock<T> block(in, shared, buckets, counts);
  const GridBarrier barrier{arrived};
  block.load(0);
  block.clear_counts();
  barrier.arrive(0); // the counts may be added to when all have come
  block.clear();
  barrier.wait(0);
  block.count_ragged();

  bool single_block = false;
  for (unsigned round = 0; round <= in.rounds; ++round) {
    const bool reads = round < in.rounds;
    if (reads) {
      const int overflowing =
          __syncthreads_count(block.sort(single_block) > kElements / kOverflowPart);
      single_block = overflowing > kPartitionedThreads / 2;
      block.load(round + 1);
    }
    // The barrier is one round ahead: its first use was for the counts.
    if (round > 0) {
      barrier.wait(round);
      if (block.is_owner()) {
        block.count(round - 1);
      }
    }
    if (reads) {
      block.flush(round);
      barrier.arrive(round + 1);
    }
  }
  block.own.end();
  if (block.is_owner()) {
    block.put_table();
  }
}

} // namespace

void count_partitioned(const CountPlan& plan, const Problem& problem, const Launch& launch) {
  const auto& in = std::get<Partitioned>(plan.layout);
  auto* workspace = static_cast<uint8_t*>(launch.allocate(plan.workspace_bytes));
  fill_zero(launch, workspace, kBarrierBytes);
  const auto run = [&](auto tag) {
    start(
        launch, "count_partitioned", count_partitioned_kernel<typename decltype(tag)::type>,
        LaunchShape{
            grid_of(plan.blocks), dim3(static_cast<unsigned>(plan.threads)), plan.shared_bytes, 1,
            false, true},
        in, reinterpret_cast<uint32_t*>(workspace),
        reinterpret_cast<uint4*>(workspace + kBarrierBytes),
        reinterpret_cast<unsigned long long*>(problem.counts));
  };
  // A negative value is above the limit as it stands.
  switch (in.element_bytes) {
    case 2:
      return run(TypeTag<uint16_t>{});
    case 4:
      return run(TypeTag<uint32_t>{});
    case 8:
      return run(TypeTag<uint64_t>{});
    default:
      no_kernel("count_partitioned");
  }
}

} // namespace histo::cuda
