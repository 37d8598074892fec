// Types of one byte: the integer engine counts raw bytes, and here the 256 sums of a channel are
// mapped to its bins.
#include "cuda/axis/search.cuh"
#include "cuda/count/dispatch.h"
#include "cuda/fill/byte_sums.h"
#include "cuda/pdl.cuh"

namespace histo::cuda {

unsigned long long* count_bytes(const Problem& problem, const Launch& launch) {
  const int64_t channels = problem.num_channels();
  Problem bytes = problem;
  bytes.type = ElementType::kUInt8;
  bytes.num_bins = kBytes;
  bytes.adds = false;
  bytes.counts = static_cast<int64_t*>(
      launch.allocate(channels * kBytes * static_cast<int64_t>(sizeof(int64_t))));
  count(bytes, ValueBinning{kBytes}, launch);
  return totals_of(bytes);
}

namespace {

/// The edges of a channel in shared memory.
struct CopiedEdges {
  static constexpr int64_t kMost = 512;

  const Real* edges;
  int64_t bins;

  __device__ __forceinline__ Real at(int64_t, int64_t k) const {
    return edges[k];
  }
};

/// The slot of a byte's value among the counts with flow, or kNoBin if it is not counted. All
/// threads of the block must call it: they wait for each other.
template <class T, class E>
__device__ __forceinline__ int64_t slot_of_byte(const E& edges, int64_t channel) {
  const bool valid = are_valid(edges, channel);
  const auto value = Number<T>::wide(bits_as<T>(static_cast<uint8_t>(threadIdx.x)));
  if (is_nan(value)) {
    return edges.bins + 2;
  }
  return valid ? search_edges(edges, channel, real_of(value), edges.bins / 2) : kNoBin;
}

template <class T>
__global__ __launch_bounds__(kBytes) void map_bytes_kernel(
    const unsigned long long* __restrict__ sums,
    const __grid_constant__ Edges edges,
    Flow flow,
    bool adds,
    unsigned long long* __restrict__ counts) {
  __shared__ Real copy[CopiedEdges::kMost + 1];
  wait_for_previous(); // it counts the bytes
  const int64_t channel = blockIdx.x;
  const int64_t num_counts = flow.num_counts(edges.bins);
  unsigned long long* histogram = counts + channel * num_counts;
  const unsigned long long sum = sums[channel * kBytes + threadIdx.x];
  for (int64_t i = threadIdx.x; i < num_counts && !adds; i += kBytes) {
    histogram[i] = 0;
  }
  int64_t slot;
  if (edges.bins <= CopiedEdges::kMost) {
    for (int64_t k = threadIdx.x; k <= edges.bins; k += kBytes) {
      copy[k] = edges.at(channel, k);
    }
    __syncthreads();
    slot = slot_of_byte<T>(CopiedEdges{copy, edges.bins}, channel);
  } else {
    slot = slot_of_byte<T>(edges, channel);
  }
  // The threads have waited, so the counts are zero, or those of before.
  const int64_t at = flow.shown || slot < 0 ? slot : slot - 1;
  if (sum > 0 && at >= 0 && at < num_counts) {
    atomicAdd(&histogram[at], sum);
  }
}

} // namespace

void count_bytes_between(
    const Problem& problem, const Edges& edges, const Flow& flow, const Launch& launch) {
  const unsigned long long* sums = count_bytes(problem, launch);
  visit_byte_type(problem.type, [&](auto tag) {
    start(
        launch, "map_bytes", map_bytes_kernel<typename decltype(tag)::type>,
        LaunchShape{grid_of(problem.num_channels()), kBytes, 0, 1, launch.limits.has_clusters()},
        sums, edges, flow, problem.adds, totals_of(problem));
  });
}

} // namespace histo::cuda
