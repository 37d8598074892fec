// The extremes of channels, and evenly spaced edges.
#include <algorithm>
#include <limits>

#include "core/uniform_edges.h"
#include "cuda/axis/uniform_bins.cuh"
#include "cuda/fill/extremes.h"
#include "cuda/pdl.cuh"
#include "cuda/storage/clear.h"
#include "cuda/walk/walk.cuh"

namespace histo::cuda {
namespace {

using ExtremeStreamReads = ReadShape<kThreadsOfExtremes, 1, 4>;
template <class T>
using ExtremeColumnReads = ReadShape<kThreadsOfExtremes, 1, sizeof(T) == 8 ? 8 : 16>;
constexpr int kThreads = 256;

/// The extremes of what a thread has seen. Without a finite value low is above high.
template <class T>
struct ThreadExtremes {
  using Wide = typename Number<T>::Wide;
  Wide low = std::numeric_limits<Wide>::max();
  Wide high = std::numeric_limits<Wide>::lowest();

  __device__ __forceinline__ void add(T element) {
    const Wide value = Number<T>::wide(element);
    if (is_finite(value)) {
      low = min(low, value);
      high = max(high, value);
    }
  }
  /// Adds them to those of a channel.
  __device__ __forceinline__ void put(long long* lows, long long* highs, int64_t channel) const {
    if (low <= high) {
      atomicMin(&lows[channel], static_cast<long long>(ordinal_of_wide<T>(low)));
      atomicMax(&highs[channel], static_cast<long long>(ordinal_of_wide<T>(high)));
    }
  }
};

__global__ void clear_extremes_kernel(long long* lows, long long* highs, int64_t channels) {
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < channels; i += step) {
    lows[i] = std::numeric_limits<long long>::max();
    highs[i] = std::numeric_limits<long long>::min();
  }
}

template <class T>
__global__ __launch_bounds__(ExtremeStreamReads::kThreads, 1) void stream_extremes_kernel(
    const T* __restrict__ data,
    const __grid_constant__ ChannelStreams in,
    long long* lows,
    long long* highs) {
  const int64_t channel = blockIdx.x / in.chunks;
  const StreamOfBlock<T> stream(data, in, channel, blockIdx.x % in.chunks);
  ThreadExtremes<T> own;
  stream.template for_each<ExtremeStreamReads>([&](T element) { own.add(element); });
  // One lane adds for its warp.
  for (int step = kWarp / 2; step > 0; step /= 2) {
    own.low = min(own.low, __shfl_xor_sync(0xffffffff, own.low, step));
    own.high = max(own.high, __shfl_xor_sync(0xffffffff, own.high, step));
  }
  if (threadIdx.x % kWarp == 0) {
    own.put(lows, highs, channel);
  }
}

template <class T>
__global__ __launch_bounds__(ExtremeColumnReads<T>::kThreads, 1) void column_extremes_kernel(
    const T* __restrict__ data,
    const __grid_constant__ ChannelColumns in,
    long long* lows,
    long long* highs) {
  const ColumnOfThread<T> column(data, in, ExtremeColumnReads<T>::kThreads);
  ThreadExtremes<T> own[ColumnOfThread<T>::kOfWord];
  column.template for_each<ExtremeColumnReads<T>>(
      [&](T element, int of_word) { own[of_word].add(element); });
#pragma unroll
  for (int j = 0; j < ColumnOfThread<T>::kOfWord; ++j) {
    own[j].put(lows, highs, in.channel(column.batch, column.column + j));
  }
}

template <class T, class To>
__global__ void round_extremes_kernel(
    const long long* lows,
    const long long* highs,
    int64_t channels,
    bool widened,
    To* low,
    To* high) {
  constexpr To kInfinity = std::numeric_limits<To>::infinity();
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < channels; i += step) {
    const bool any = lows[i] <= highs[i];
    To of_low = any ? rounded_down<To>(wide_of_ordinal<T>(lows[i])) : kInfinity;
    To of_high = any ? rounded_up<To>(wide_of_ordinal<T>(highs[i])) : -kInfinity;
    if (widened) {
      range_of_extremes(of_low, of_high);
    }
    low[i] = of_low;
    high[i] = of_high;
  }
}

/// A range of numbers for all rows.
struct OneRange {
  double low;
  double high;
};
template <class T>
__device__ __forceinline__ T low_of(const Ranges<T>& ranges, int64_t row) {
  return ranges.low[row];
}
template <class T>
__device__ __forceinline__ T high_of(const Ranges<T>& ranges, int64_t row) {
  return ranges.high[row];
}
__device__ __forceinline__ double low_of(const OneRange& range, int64_t) {
  return range.low;
}
__device__ __forceinline__ double high_of(const OneRange& range, int64_t) {
  return range.high;
}

/// Writes the edges of rows, and clears counts.
template <class AnyRanges, class Edge>
__global__ void uniform_edges_kernel(
    AnyRanges ranges,
    int64_t size,
    int64_t bins,
    Edge* edges,
    int64_t* counts,
    int64_t num_counts) {
  wait_for_previous(); // it computes the ranges
  let_next_start();
  const int64_t step = int64_t{gridDim.x} * kThreads;
  const int64_t first = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  for (int64_t i = first; i < size; i += step) {
    const int64_t row = i / (bins + 1);
    edges[i] = static_cast<Edge>(
        uniform_edge(low_of(ranges, row), high_of(ranges, row), bins, i % (bins + 1)));
  }
  for (int64_t i = first; i < num_counts; i += step) {
    counts[i] = 0;
  }
}

dim3 grid_for(int64_t size, const Launch& launch) {
  return grid_of(std::min<int64_t>(ceil_div(size, kThreads), int64_t{8} * launch.limits.sm_count));
}

template <class T>
void add_extremes(const Problem& problem, long long* lows, long long* highs, const Launch& launch) {
  const auto* data = static_cast<const T*>(problem.data);
  const EdgePlan plan = plan_extremes(problem, launch.limits);
  if (plan.layout == EdgeLayout::kColumns) {
    start(
        launch, "column_extremes", column_extremes_kernel<T>, grid_of(plan.blocks),
        dim3(ExtremeColumnReads<T>::kThreads), 0, data, plan.columns, lows, highs);
  } else {
    start(
        launch, "stream_extremes", stream_extremes_kernel<T>, grid_of(plan.blocks),
        dim3(ExtremeStreamReads::kThreads), 0, data, plan.streams, lows, highs);
  }
}

/// Rows of edges, and counts to clear.
template <class AnyRanges, class Edge>
void set_up(
    const AnyRanges& ranges,
    int64_t rows,
    int64_t bins,
    Edge* edges,
    int64_t* counts,
    int64_t num_counts,
    const Launch& launch) {
  const int64_t size = rows * (bins + 1);
  if (size > 0) {
    start(
        launch, "uniform_edges", uniform_edges_kernel<AnyRanges, Edge>,
        LaunchShape{
            grid_for(std::max(size, num_counts), launch), kThreads, 0, 1,
            launch.limits.has_clusters()},
        ranges, size, bins, edges, counts, num_counts);
  }
}

/// Finds the extremes of channels; if `widened`, the ranges that these give.
template <class To>
void find_extremes(const Problem& problem, bool widened, To* low, To* high, const Launch& launch) {
  const int64_t channels = problem.num_channels();
  if (channels == 0) {
    return;
  }
  auto* lows = static_cast<long long*>(
      launch.allocate(2 * channels * static_cast<int64_t>(sizeof(long long))));
  long long* highs = lows + channels;
  start(
      launch, "clear_extremes", clear_extremes_kernel, grid_for(channels, launch), dim3(kThreads),
      0, lows, highs, channels);
  visit_number_type(problem.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (problem.num_rows() > 0) {
      if constexpr (sizeof(T) == 1) {
        add_extremes_of_bytes(problem, lows, highs, launch);
      } else {
        add_extremes<T>(problem, lows, highs, launch);
      }
    }
    start(
        launch, "round_extremes", round_extremes_kernel<T, To>, grid_for(channels, launch),
        dim3(kThreads), 0, static_cast<const long long*>(lows),
        static_cast<const long long*>(highs), channels, widened, low, high);
  });
}

} // namespace

template <class To>
void finite_range(const Problem& problem, To* low, To* high, const Launch& launch) {
  find_extremes(problem, false, low, high, launch);
}
template void finite_range(const Problem&, float*, float*, const Launch&);
template void finite_range(const Problem&, double*, double*, const Launch&);

template <class T, class Edge>
void uniform_edges(
    const T* low, const T* high, int64_t rows, int64_t bins, Edge* edges, const Launch& launch) {
  set_up(Ranges<T>{low, high}, rows, bins, edges, nullptr, 0, launch);
}
template void uniform_edges(const float*, const float*, int64_t, int64_t, float*, const Launch&);
template void uniform_edges(const float*, const float*, int64_t, int64_t, double*, const Launch&);
template void uniform_edges(const double*, const double*, int64_t, int64_t, float*, const Launch&);
template void uniform_edges(const double*, const double*, int64_t, int64_t, double*, const Launch&);

namespace {

/// Counts behind `set_up`, which writes the edges: so no block may read them before it has ended.
void count_behind(
    EdgePlan plan,
    const Problem& problem,
    const Edges& edges,
    const Flow& flow,
    const Launch& launch) {
  plan.overlaps = false;
  count_by(plan, problem, edges, flow, launch);
}

template <class E>
void count_between_extremes(
    const Problem& problem, const UniformBins& bins, const Flow& flow, const Launch& launch) {
  const int64_t channels = problem.num_channels();
  auto* low = static_cast<E*>(launch.allocate(2 * channels * static_cast<int64_t>(sizeof(E))));
  E* high = low + channels;
  find_extremes(problem, true, low, high, launch);
  if (const auto own = plan_own_rows(problem, bins.bins, launch.limits)) {
    if (own->clears) {
      clear(launch, problem, own->overlaps);
    }
    return count_own_teams(*own, problem, low, high, bins, flow, launch);
  }
  const Edges edges = Edges::all(bins.edges, bins.type, bins.bins, false);
  const EdgePlan plan = plan_edges(problem, edges, launch.limits);
  set_up(
      Ranges<E>{low, high}, channels, bins.bins, static_cast<E*>(bins.edges), problem.counts,
      plan.clears ? problem.num_counts() : 0, launch);
  count_behind(plan, problem, edges, flow, launch);
}

template <class Edge>
void count_uniform(
    const Problem& problem, const UniformBins& bins, const Flow& flow, const Launch& launch) {
  const int64_t rows = bins.range != nullptr ? 1 : problem.num_channels();
  if (bins.range == nullptr && problem.num_rows() > 0 && problem.num_counts() > 0) {
    return count_between_extremes<Edge>(problem, bins, flow, launch);
  }
  // NumPy computes the edges of no elements in float64.
  const OneRange range =
      bins.range != nullptr ? OneRange{bins.range[0], bins.range[1]} : OneRange{0, 1};
  const Edges edges = Edges::all(bins.edges, bins.type, bins.bins, bins.range != nullptr);
  const bool counts = problem.num_rows() > 0 && problem.num_counts() > 0;
  const EdgePlan plan = counts ? plan_edges(problem, edges, launch.limits) : EdgePlan{};
  set_up(
      range, rows, bins.bins, static_cast<Edge*>(bins.edges), problem.counts,
      !counts || plan.clears ? problem.num_counts() : 0, launch);
  if (counts) {
    count_behind(plan, problem, edges, flow, launch);
  }
}

} // namespace

void count_uniform(
    const Problem& problem, const UniformBins& bins, const Flow& flow, const Launch& launch) {
  bins.type == ElementType::kFloat32 ? count_uniform<float>(problem, bins, flow, launch)
                                     : count_uniform<double>(problem, bins, flow, launch);
}

} // namespace histo::cuda
