// Quantiles of a sketch. A block has a channel: it sums groups of counts, and a warp finds the count
// of each q's rank in one group.
#include <algorithm>

#include "core/sketch_quantile.h"
#include "cuda/fill/sketch.h"
#include "cuda/warp.cuh"

namespace histo::cuda {
namespace {

constexpr unsigned kWarps = kThreadsOfSketchQuantile / kWarp;
constexpr unsigned kMostGroups = kThreadsOfSketchQuantile; // each thread has one
constexpr unsigned kGroupsAtOnce = 8;                      // of a warp, whose loads are in flight

/// The counts of a channel but that of NaN, in groups.
struct Groups {
  const int64_t* counts;
  int64_t num_counts;
  int64_t size; // of a group: a multiple of the lanes of a warp
  unsigned number;
  int64_t* below; // [kMostGroups] in shared memory: the sum of each group and of those before

  __device__ __forceinline__ Groups(const int64_t* of_channel, int64_t num, int64_t* shared)
      : counts(of_channel), num_counts(num), below(shared) {
    size = (num_counts + kMostGroups * kWarp - 1) / (kMostGroups * kWarp) * kWarp;
    number = static_cast<unsigned>((num_counts + size - 1) / size);
  }
  __device__ __forceinline__ int64_t at(int64_t i) const {
    return i < num_counts ? counts[i] : 0;
  }
  /// All threads of the block call it.
  __device__ __forceinline__ void sum() const {
    const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
    for (unsigned first = warp; first < number; first += kWarps * kGroupsAtOnce) {
      int64_t sums[kGroupsAtOnce] = {};
      for (int64_t i = lane; i < size; i += kWarp) {
#pragma unroll
        for (unsigned j = 0; j < kGroupsAtOnce; ++j) {
          sums[j] += at((first + j * kWarps) * size + i);
        }
      }
#pragma unroll
      for (unsigned j = 0; j < kGroupsAtOnce; ++j) {
        const int64_t sum = sum_of_warp(sums[j]);
        if (lane == 0 && first + j * kWarps < number) {
          below[first + j * kWarps] = sum;
        }
      }
    }
    __syncthreads();
    add_those_before();
  }
  /// The first count up to which there are more than `rank`, or the last one. A warp calls it.
  __device__ __forceinline__ int64_t find(int64_t rank) const {
    unsigned low = 0, high = number - 1;
    while (low < high) {
      const unsigned middle = (low + high) / 2;
      below[middle] > rank ? high = middle : low = middle + 1;
    }
    int64_t before = low > 0 ? below[low - 1] : 0;
    for (int64_t i = low * size; i < (low + 1) * size; i += kWarp) {
      const int64_t upto = before + sum_upto_lane(at(i + threadIdx.x % kWarp));
      const unsigned more = __ballot_sync(kAllLanes, upto > rank);
      if (more != 0) {
        return min(i + __ffs(static_cast<int>(more)) - 1, num_counts - 1);
      }
      before = __shfl_sync(kAllLanes, upto, kWarp - 1);
    }
    return num_counts - 1;
  }

 private:
  __device__ __forceinline__ void add_those_before() const {
    __shared__ int64_t of_warps[kWarps];
    const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
    const int64_t upto = sum_upto_lane(threadIdx.x < number ? below[threadIdx.x] : 0);
    if (lane == kWarp - 1) {
      of_warps[warp] = upto;
    }
    __syncthreads();
    const int64_t before = sum_of_warp(lane < warp ? of_warps[lane] : 0);
    if (threadIdx.x < number) {
      below[threadIdx.x] = before + upto;
    }
    __syncthreads();
  }
};

__global__ __launch_bounds__(kThreadsOfSketchQuantile) void sketch_quantile_kernel(
    const __grid_constant__ SketchQuantiles call) {
  __shared__ int64_t below[kMostGroups];
  const int64_t channel = blockIdx.x, num_counts = call.bins.num_counts() - 1;
  const Groups groups(call.state.counts + channel * (num_counts + 1), num_counts, below);
  groups.sum();
  const int64_t all = below[groups.number - 1];
  const SketchTotals totals{all, groups.counts[0], all - groups.counts[num_counts - 1]};
  for (int64_t i = threadIdx.x / kWarp; i < call.num_q; i += kWarps) {
    const double q = call.q[i];
    double found = std::numeric_limits<double>::quiet_NaN();
    if (has_quantile(q, all)) {
      const int64_t rank = nearest_rank(q, all - 1);
      found = quantile_at(call, channel, totals, rank, groups.find(rank));
    }
    if (threadIdx.x % kWarp == 0) {
      call.found[i * call.channels + channel] = found;
    }
  }
}

} // namespace

void sketch_quantiles(const SketchQuantiles& call, const Launch& launch) {
  if (call.channels * call.num_q > 0) {
    start(
        launch, "sketch_quantile", sketch_quantile_kernel, grid_of(call.channels),
        dim3(kThreadsOfSketchQuantile), 0, call);
  }
}

} // namespace histo::cuda
