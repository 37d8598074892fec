// The extremes of channels, and evenly spaced edges.
#include <algorithm>
#include <limits>

#include "core/uniform_edges.h"
#include "cuda/fill/extremes.h"
#include "cuda/pdl.cuh"
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
    const long long* lows, const long long* highs, int64_t channels, To* low, To* high) {
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < channels; i += step) {
    const bool any = lows[i] <= highs[i];
    low[i] =
        any ? rounded_down<To>(wide_of_ordinal<T>(lows[i])) : std::numeric_limits<To>::infinity();
    high[i] =
        any ? rounded_up<To>(wide_of_ordinal<T>(highs[i])) : -std::numeric_limits<To>::infinity();
  }
}

template <class T, class Edge>
__global__ void uniform_edges_kernel(
    const T* low, const T* high, int64_t size, int64_t bins, Edge* edges) {
  wait_for_previous(); // it computes the range
  let_next_start();
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < size; i += step) {
    const int64_t row = i / (bins + 1);
    edges[i] = static_cast<Edge>(uniform_edge(low[row], high[row], bins, i % (bins + 1)));
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

} // namespace

template <class To>
void finite_range(const Problem& problem, To* low, To* high, const Launch& launch) {
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
        static_cast<const long long*>(highs), channels, low, high);
  });
}
template void finite_range(const Problem&, float*, float*, const Launch&);
template void finite_range(const Problem&, double*, double*, const Launch&);

template <class T, class Edge>
void uniform_edges(
    const T* low, const T* high, int64_t rows, int64_t bins, Edge* edges, const Launch& launch) {
  const int64_t size = rows * (bins + 1);
  if (size > 0) {
    start(
        launch, "uniform_edges", uniform_edges_kernel<T, Edge>,
        LaunchShape{grid_for(size, launch), kThreads, 0, 1, launch.limits.has_clusters()}, low,
        high, size, bins, edges);
  }
}
template void uniform_edges(const float*, const float*, int64_t, int64_t, float*, const Launch&);
template void uniform_edges(const float*, const float*, int64_t, int64_t, double*, const Launch&);
template void uniform_edges(const double*, const double*, int64_t, int64_t, float*, const Launch&);
template void uniform_edges(const double*, const double*, int64_t, int64_t, double*, const Launch&);

} // namespace histo::cuda
