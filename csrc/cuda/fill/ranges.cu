// Evenly spaced edges, and counting between them.
#include <algorithm>
#include <limits>

#include "core/uniform_edges.h"
#include "cuda/axis/uniform_bins.cuh"
#include "cuda/fill/extremes.h"
#include "cuda/fill/short_channels.h"
#include "cuda/fill/stripes.h"
#include "cuda/pdl.cuh"
#include "cuda/storage/clear.h"

namespace histo::cuda {
namespace {

constexpr int kThreads = 256;

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

} // namespace

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

/// Counts behind `set_up`, which writes the edges: so no block may read them before it has ended. Stripes
/// wait for it.
void count_behind(
    EdgePlan plan,
    const Problem& problem,
    const Edges& edges,
    const Flow& flow,
    const Launch& launch) {
  plan.overlaps = plan.layout == EdgeLayout::kStripes && launch.limits.has_clusters();
  count_by(plan, problem, edges, flow, launch);
}

template <class E>
void count_between_extremes(
    const Problem& problem, const UniformBins& bins, const Flow& flow, const Launch& launch) {
  const int64_t channels = problem.num_channels();
  auto* low = static_cast<E*>(launch.allocate(2 * channels * static_cast<int64_t>(sizeof(E))));
  E* high = low + channels;
  find_extremes(problem, Widened{true}, low, high, launch);
  if (EdgePlan stripes{}; plan_own_stripes(problem, bins.bins, launch.limits, stripes)) {
    if (stripes.clears) {
      clear(launch, problem, launch.limits.has_clusters());
    }
    return count_own_stripes<E>(
        stripes, problem, {low, high}, bins.bins, flow, static_cast<E*>(bins.edges), launch);
  }
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

/// Counts short channels, if they are, by one kernel.
bool count_short(
    const Problem& problem, const UniformBins& bins, const Flow& flow, const Launch& launch) {
  // Edges of one range that are float64 are those that each channel would compute for itself. Those
  // of float32 are rounded from float64.
  const bool computed = bins.range == nullptr || bins.type == ElementType::kFloat64;
  const auto plan =
      computed ? plan_own_ranges(problem, bins.bins, launch.limits)
               : plan_short_channels(problem, bins.bins, 8 * (bins.bins + 1), launch.limits);
  if (plan) {
    computed ? count_own_ranges(*plan, problem, bins, flow, launch)
             : count_short_channels(*plan, problem, bins, flow, launch);
  }
  return plan.has_value();
}

template <class Edge>
void count_uniform(
    const Problem& problem, const UniformBins& bins, const Flow& flow, const Launch& launch) {
  const int64_t rows = bins.range != nullptr ? 1 : problem.num_channels();
  const bool counts = problem.num_rows() > 0 && problem.num_counts() > 0;
  if (counts && count_short(problem, bins, flow, launch)) {
    return;
  }
  if (counts && bins.range == nullptr) {
    return count_between_extremes<Edge>(problem, bins, flow, launch);
  }
  // NumPy computes the edges of no elements in float64.
  const OneRange range =
      bins.range != nullptr ? OneRange{bins.range[0], bins.range[1]} : OneRange{0, 1};
  const Edges edges = Edges::all(bins.edges, bins.type, bins.bins, bins.range != nullptr);
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
