// Summaries of channels that lie one after another, each in one run or several.
#include "cuda/summary/sums.cuh"
#include "cuda/walk/vec16s.cuh"
#include "cuda/walk/walk.cuh"

namespace histo::cuda {
namespace {

template <class T, int kThreads>
using Reads = ReadShape<
    kThreads,
    kThreads == kThreadsOfSummary ? summary_blocks_of_sm(sizeof(T)) : 16,
    kSummaryInFlight,
    1>;

/// The vec16s of a block.
template <class T>
struct RunsOfBlock {
  const ChannelRuns& in;
  const T* channel;
  int64_t first;
  int64_t size;

  __device__ __forceinline__
  RunsOfBlock(const T* all, const ChannelRuns& runs, int64_t index, unsigned chunk)
      : in(runs),
        channel(all + offset_in(in.vec16s.channels, index)),
        first(chunk * in.share),
        size(min(in.share, in.vec16s.vec16s() - first)) {
  }

  /// Calls f(all elements of a vec16), or f(element) where others are none of the channel's.
  template <class Shape, class F>
  __device__ __forceinline__ void for_each(const F& f) const {
    // A block has fewer than 2^31 vec16s.
    const auto thread = static_cast<int>(threadIdx.x), vec16s = static_cast<int>(size);
    const int count = thread < vec16s ? (vec16s - thread - 1) / Shape::kThreads + 1 : 0;
    const Vec16sOfThread<T, uint32_t> from(
        in.vec16s, static_cast<uint32_t>(first) + threadIdx.x, Shape::kThreads);
    for_each_word<Shape>(Words{from, channel}, count, [&](const auto& some) { some.for_each(f); });
  }

 private:
  struct Words {
    using Word = typename Vec16sOfThread<T, uint32_t>::Some;
    Vec16sOfThread<T, uint32_t> from;
    const T* channel;

    __device__ __forceinline__ Word load(int) {
      return from.next_some(channel);
    }
    __device__ __forceinline__ void skip(int) {
    }
  };
};

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
  const unsigned long long low = max_of_warp(own.low_key()), high = max_of_warp(own.high_key());
  if (threadIdx.x % kWarp == 0) {
    atomicMax(&block[0], low);
    atomicMax(&block[1], high);
  }
}

/// `Part` tells what a block reads.
template <class T, int kThreads, class Part, class Channels>
__global__ __launch_bounds__(kThreads, Reads<T, kThreads>::kBlocks) void summarize_streams_kernel(
    const T* __restrict__ data,
    const __grid_constant__ Channels in,
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
  const Part part(data, in, channel, blockIdx.x % in.chunks);
  SumsOfThread<T> own;
  own.begin(DigitTable(words, thread % kCopies, kCopies));
  part.template for_each<Reads<T, kThreads>>(GroupsOf<T>{own});
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

template <class Part, class Channels, class T>
void start_streams(
    const SummaryPlan& plan,
    const Channels& in,
    const T* data,
    unsigned long long* found,
    const Launch& launch) {
  start(
      launch, "summarize_streams",
      plan.threads == kThreadsOfSummary
          ? summarize_streams_kernel<T, kThreadsOfSummary, Part, Channels>
          : summarize_streams_kernel<T, kThreadsOfWarpSummary, Part, Channels>,
      grid_of(plan.blocks), dim3(static_cast<unsigned>(plan.threads)), 0, data, in, found);
}

} // namespace

void summarize_streams(
    const SummaryPlan& plan,
    const Problem& problem,
    unsigned long long* found,
    const Launch& launch) {
  visit_number_type(problem.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto* data = static_cast<const T*>(problem.data);
    if (const auto* runs = std::get_if<ChannelRuns>(&plan.layout)) {
      start_streams<RunsOfBlock<T>>(plan, *runs, data, found, launch);
    } else {
      start_streams<StreamOfBlock<T>>(
          plan, std::get<ChannelStreams>(plan.layout), data, found, launch);
    }
  });
}

} // namespace histo::cuda
