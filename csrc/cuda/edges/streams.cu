// Counts channels one after another between their edges. A block has a table of one channel in
// shared memory: [place][copy].
#include "../counts.cuh"
#include "bins.cuh"
#include "edges.h"
#include "walk.cuh"

namespace histo::cuda {
namespace {

template <class T>
constexpr int kThreadsOf = sizeof(typename Number<T>::Key) == 4 ? 1024 : 512;

/// Counts all elements of a block. NaN has a place of its own, which is that of underflow where
/// neither is shown.
template <Guess kGuess, int kLogCopies, class T>
__device__ __forceinline__ void count_stream(
    const StreamOfBlock<T>& stream, const BlockBins<T>& bins, uint32_t* table, unsigned nan_place) {
  const uint32_t counters =
      address_of(table) + 4 * (threadIdx.x & ((1u << kLogCopies) - 1));
  stream.template for_each<kThreadsOf<T>>([&](T element) {
    const auto value = Number<T>::key(element);
    unsigned place = bins.template place<kGuess>(value, kLogCopies);
    if constexpr (Number<T>::kIsFloat) {
      place = is_nan(value) ? nan_place : place;
    }
    add_shared(counters + (place << (2 + kLogCopies)), 1);
  });
}

template <int kLogCopies, class T>
__global__ __launch_bounds__(kThreadsOf<T>, 2) void count_streams_kernel(
    const T* __restrict__ data,
    ChannelStreams in,
    Edges edges,
    Flow flow,
    unsigned long long* __restrict__ counts) {
  using Key = typename Number<T>::Key;
  extern __shared__ __align__(16) unsigned char shared[];
  const auto bins_of_channel = static_cast<unsigned>(edges.bins);
  // Wide keys come first, because they must be aligned.
  auto* thresholds = reinterpret_cast<Key*>(shared);
  auto* cells = reinterpret_cast<uint32_t*>(thresholds + ((bins_of_channel + 2) << kLogCopies));
  uint32_t* table = cells + kCells;
  const StreamOfBlock<T> stream(data, in);
  for (unsigned i = threadIdx.x; i < (bins_of_channel + 3) << kLogCopies; i += kThreadsOf<T>) {
    table[i] = 0;
  }
  const BlockBins<T> bins = find_bins<T>(edges, stream.channel, thresholds, cells, kLogCopies);
  __syncthreads();
  const unsigned nan_place = flow.shown ? bins_of_channel + 2 : 0;
  switch (bins.guess) {
    case Guess::kFormula:
      count_stream<Guess::kFormula, kLogCopies>(stream, bins, table, nan_place);
      break;
    case Guess::kComparison:
      count_stream<Guess::kComparison, kLogCopies>(stream, bins, table, nan_place);
      break;
    case Guess::kCells:
      count_stream<Guess::kCells, kLogCopies>(stream, bins, table, nan_place);
      break;
  }
  __syncthreads();
  const auto num_counts = static_cast<unsigned>(flow.num_counts(edges.bins));
  unsigned long long* histogram = counts + stream.channel * num_counts;
  for (unsigned i = threadIdx.x; i < num_counts; i += kThreadsOf<T>) {
    const unsigned place = i + (flow.shown ? 0 : 1);
    uint32_t sum = 0;
    for (unsigned copy = 0; copy < 1u << kLogCopies; ++copy) {
      // Lanes begin with different copies, so that they meet in no bank.
      sum += table[(place << kLogCopies) + ((copy + threadIdx.x) & ((1u << kLogCopies) - 1))];
    }
    const bool counts_here = bins.valid || place == bins_of_channel + 2;
    put_or_add(&histogram[i], counts_here ? sum : 0, in.chunks > 1);
  }
}

} // namespace

void count_streams_between(
    const EdgePlan& plan,
    const Problem& problem,
    const Edges& edges,
    const Flow& flow,
    const Launch& launch) {
  visit_wide_type(problem.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto with = [&](auto kernel) {
      start(
          launch, "count_streams", kernel, grid_of(plan.blocks),
          dim3(static_cast<unsigned>(plan.threads)), plan.shared_bytes,
          static_cast<const T*>(problem.data), plan.streams, edges, flow,
          reinterpret_cast<unsigned long long*>(problem.counts));
    };
    if constexpr (sizeof(T) == 2 && Number<T>::kIsFloat) {
      if (plan.streams.log_copies == 5) {
        return with(count_streams_kernel<5, T>);
      }
      if (plan.streams.log_copies == 3) {
        return with(count_streams_kernel<3, T>);
      }
    }
    if (plan.streams.log_copies != 0) {
      no_kernel("count_streams");
    }
    with(count_streams_kernel<0, T>);
  });
}

} // namespace histo::cuda
