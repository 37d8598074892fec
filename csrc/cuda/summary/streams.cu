// Summaries of channels that lie one after another.
#include "cuda/summary/sums.cuh"
#include "cuda/walk/walk.cuh"

namespace histo::cuda {
namespace {

template <class T, int kThreads>
using Reads = ReadShape<
    kThreads,
    kThreads == kThreadsOfSummary ? summary_blocks_of_sm(sizeof(T)) : 16,
    kSummaryInFlight,
    true>;

/// Copies of the table of a block, which lanes take in turns.
template <class T>
constexpr int copies(int threads) {
  return threads == kThreadsOfWarpSummary || sizeof(T) == 8 ? 4 : kWarp;
}

/// The sum of a row over all copies, for the first lane.
template <int kCopies>
__device__ __forceinline__ int64_t sum_of_copies(uint32_t* words, int row) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  int64_t sum = lane < kCopies ? DigitTable(words, lane, kCopies).at(row) : 0;
#pragma unroll
  for (int step = kCopies / 2; step > 0; step /= 2) {
    sum += __shfl_down_sync(kAllLanes, sum, step);
  }
  return sum;
}

/// Adds the extremes of a warp to those of its block.
template <class Sums>
__device__ __forceinline__ void add_extremes(const Sums& own, unsigned long long* block) {
  unsigned long long low = own.low_key(), high = own.high_key();
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) {
    low = max(low, __shfl_xor_sync(kAllLanes, low, step));
    high = max(high, __shfl_xor_sync(kAllLanes, high, step));
  }
  if (threadIdx.x % kWarp == 0) {
    atomicMax(&block[0], low);
    atomicMax(&block[1], high);
  }
}

template <class T, int kThreads>
__global__ __launch_bounds__(kThreads, Reads<T, kThreads>::kBlocks) void summarize_streams_kernel(
    const T* __restrict__ data,
    const __grid_constant__ ChannelStreams in,
    unsigned long long* __restrict__ all) {
  using Rows = SummaryRows<T>;
  constexpr int kCopies = copies<T>(kThreads);
  constexpr int kWords = 2 * Rows::kAdded * kCopies;
  __shared__ uint32_t words[kWords];
  __shared__ unsigned long long extremes[2];
  const auto thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < kWords; i += kThreads) {
    words[i] = 0;
  }
  if (thread < 2) {
    extremes[thread] = 0;
  }
  __syncthreads();

  const unsigned channel = blockIdx.x / in.chunks;
  const StreamOfBlock<T> stream(data, in, channel, blockIdx.x % in.chunks);
  SumsOfThread<T> own;
  own.begin(DigitTable(words, thread % kCopies, kCopies));
  stream.template for_each<Reads<T, kThreads>>(GroupsOf<T>{own});
  own.finish();
  add_extremes(own, extremes);
  __syncthreads();

  unsigned long long* found = all + int64_t{channel} * Rows::kRows;
  for (int row = thread / kWarp; row < Rows::kAdded; row += kThreads / kWarp) {
    const int64_t sum = sum_of_copies<kCopies>(words, row);
    if (thread % kWarp > 0) {
      continue;
    }
    if (in.chunks > 1) {
      add_to_channel<T>(found, row, sum);
    } else {
      found[row] = static_cast<unsigned long long>(sum);
    }
  }
  if (thread < 2) {
    if (in.chunks > 1) {
      atomicMax(&found[Rows::kLow + thread], extremes[thread]);
    } else {
      found[Rows::kLow + thread] = extremes[thread];
    }
  }
}

template <class T, int kThreads>
void start_streams(
    const SummaryPlan& plan,
    const Problem& problem,
    unsigned long long* found,
    const Launch& launch) {
  start(
      launch, "summarize_streams", summarize_streams_kernel<T, kThreads>, grid_of(plan.blocks),
      dim3(kThreads), 0, static_cast<const T*>(problem.data), plan.streams, found);
}

} // namespace

void summarize_streams(
    const SummaryPlan& plan,
    const Problem& problem,
    unsigned long long* found,
    const Launch& launch) {
  visit_number_type(problem.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (plan.threads == kThreadsOfSummary) {
      start_streams<T, kThreadsOfSummary>(plan, problem, found, launch);
    } else {
      start_streams<T, kThreadsOfWarpSummary>(plan, problem, found, launch);
    }
  });
}

} // namespace histo::cuda
