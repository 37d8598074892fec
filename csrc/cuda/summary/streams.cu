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
    1>;

/// Copies of the table of a block, which lanes take in turns.
constexpr int copies(int threads) {
  return threads == kThreadsOfWarpSummary ? 4 : 8;
}

/// The sum of a row over all copies, for the first of so many lanes; each of them has a copy.
template <int kCopies>
__device__ __forceinline__ int64_t sum_of_copies(const uint32_t* words, int row) {
  int64_t sum = DigitTable(words, static_cast<int>(threadIdx.x) % kCopies, kCopies).at(row);
#pragma unroll
  for (int step = kCopies / 2; step > 0; step /= 2) {
    sum += __shfl_down_sync(kAllLanes, sum, step, kCopies);
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
  constexpr int kCopies = copies(kThreads);
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
  own.finish_warp();
  add_extremes(own, extremes);
  __syncthreads();

  unsigned long long* found = all + int64_t{channel} * Rows::kRows;
  for (int first = 0; first < Rows::kAdded; first += kThreads / kCopies) {
    const int row = first + thread / kCopies;
    const int64_t sum = sum_of_copies<kCopies>(words, min(row, Rows::kAdded - 1));
    if (thread % kCopies > 0 || row >= Rows::kAdded) {
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
