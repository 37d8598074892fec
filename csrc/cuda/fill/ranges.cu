// Evenly spaced edges, and counting between them.
#include <algorithm>
#include <limits>

#include "core/joint.h"
#include "core/uniform_edges.h"
#include "core/uniform_line.h"
#include "cuda/axis/uniform_bins.cuh"
#include "cuda/fill/extremes.h"
#include "cuda/fill/short_channels.h"
#include "cuda/fill/stripes.h"
#include "cuda/pdl.cuh"
#include "cuda/plan/uniform_plan.h"
#include "cuda/storage/clear.h"
#include "cuda/storage/gather.h"
#include "cuda/storage/put_row.cuh"

namespace histo::cuda {
namespace {

constexpr int kThreads = 256;
// Rows that a warp takes have so many bins.
constexpr int64_t kMinBinsOfRow = 32;
constexpr int64_t kMostBinsOfRow = 1 << 16;

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

/// The same for many rows of many edges: a warp takes a row, and finds its step once.
template <class T, class Edge>
__global__ void edges_of_rows_kernel(
    Ranges<T> ranges,
    int64_t rows,
    int64_t bins,
    Edge* edges,
    int64_t* counts,
    int64_t num_counts) {
  wait_for_previous(); // it computes the ranges
  let_next_start();
  const auto team = Team<true>::own();
  for (int64_t row = team.index; row < rows; row += team.count) {
    const T low = ranges.low[row], high = ranges.high[row];
    UniformLine<T> line;
    const bool has_line = find_line<T, Edge>(low, high, bins, line);
    const auto size = static_cast<unsigned>(bins + 1);
    put_row(team, edges + row * (bins + 1), size, [&](unsigned k) {
      if (has_line && k < bins) {
        return static_cast<Edge>(line.edge(static_cast<T>(k)));
      }
      return static_cast<Edge>(uniform_edge(low, high, bins, k));
    });
  }
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < num_counts; i += step) {
    counts[i] = 0;
  }
}

/// Axes whose edges one kernel writes. The ranges are by value: a graph may be replayed later.
struct FewAxes {
  OneRange ranges[kMostAxes];
  UniformBins bins[kMostAxes];
};

__global__ void edges_of_axes_kernel(const __grid_constant__ FewAxes axes) {
  wait_for_previous(); // it may use the same memory
  let_next_start();
  const OneRange& range = axes.ranges[blockIdx.y];
  const UniformBins& bins = axes.bins[blockIdx.y];
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t k = blockIdx.x * int64_t{kThreads} + threadIdx.x; k <= bins.bins; k += step) {
    const double edge = uniform_edge(range.low, range.high, bins.bins, k);
    if (bins.type == ElementType::kFloat32) {
      static_cast<float*>(bins.edges)[k] = static_cast<float>(edge);
    } else {
      static_cast<double*>(bins.edges)[k] = edge;
    }
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
  if constexpr (!std::is_same_v<AnyRanges, OneRange>) {
    const int64_t warps = int64_t{8} * launch.limits.sm_count * (kThreads / kWarp);
    if (rows >= warps && bins >= kMinBinsOfRow && bins <= kMostBinsOfRow) {
      using T = std::decay_t<decltype(*ranges.low)>;
      return start(
          launch, "uniform_edges", edges_of_rows_kernel<T, Edge>,
          LaunchShape{
              grid_of(int64_t{8} * launch.limits.sm_count), kThreads, 0, 1,
              launch.limits.has_clusters()},
          ranges, rows, bins, edges, counts, num_counts);
    }
  }
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

/// The kernel that writes the edges clears the counts, too.
template <class E, class AnyRanges>
void count_between_stored(
    const AnyRanges& ranges, const EdgeCount& call, const UniformBins& bins, const Launch& launch) {
  const Problem& problem = call.problem;
  const int64_t rows = call.edges.shared ? 1 : problem.num_channels();
  set_up(
      ranges, rows, bins.bins, static_cast<E*>(bins.edges), problem.counts,
      call.plan.clears ? problem.num_counts() : 0, launch);
  count_by(call, launch);
}

/// The range of each channel.
template <class E>
Ranges<E> find_ranges(const Problem& problem, const Launch& launch) {
  const int64_t channels = problem.num_channels();
  auto* low = static_cast<E*>(launch.allocate(2 * channels * static_cast<int64_t>(sizeof(E))));
  E* high = low + channels;
  find_extremes(problem, Widened{true}, low, high, launch);
  return {low, high};
}

template <class E>
void count_between_extremes(
    const EdgeCount& call, bool computes_edges, const UniformBins& bins, const Launch& launch) {
  const auto& [plan, problem, edges, flow] = call;
  const Ranges<E> ranges = find_ranges<E>(problem, launch);
  if (!computes_edges) {
    return count_between_stored<E>(ranges, call, bins, launch);
  }
  if (plan.clears) {
    clear(launch, problem, plan.overlaps);
  }
  std::holds_alternative<EdgeStripes>(plan.layout)
      ? count_own_stripes<E>(
            plan, problem, ranges, bins.bins, flow, static_cast<E*>(bins.edges), launch)
      : count_own_teams(plan, problem, ranges.low, ranges.high, bins, flow, launch);
}

/// Writes edges that do not depend on the elements, and clears the counts.
template <class E>
void set_up_without_elements(
    const Problem& problem, const UniformBins& bins, int64_t num_counts, const Launch& launch) {
  const bool own = bins.range == nullptr;
  // NumPy computes the edges of no elements in float64.
  const OneRange range = own ? OneRange{0, 1} : OneRange{bins.range[0], bins.range[1]};
  set_up(
      range, own ? problem.num_channels() : 1, bins.bins, static_cast<E*>(bins.edges),
      problem.counts, num_counts, launch);
}

template <class E>
void edges_of(const Problem& problem, const UniformBins& bins, const Launch& launch) {
  if (bins.range != nullptr || problem.num_rows() == 0 || problem.num_channels() == 0) {
    return set_up_without_elements<E>(problem, bins, 0, launch);
  }
  set_up(
      find_ranges<E>(problem, launch), problem.num_channels(), bins.bins,
      static_cast<E*>(bins.edges), nullptr, 0, launch);
}

template <class E>
void count_uniform(
    const Problem& given, const UniformBins& bins, const Flow& flow, const Launch& launch) {
  const Problem problem = copied_into_runs(given, launch);
  const bool own = bins.range == nullptr;
  if (problem.num_rows() == 0 || problem.num_counts() == 0) {
    return set_up_without_elements<E>(problem, bins, problem.num_counts(), launch);
  }
  const Edges edges = Edges::all(bins.edges, bins.type, bins.bins, !own);
  const UniformPlan plan = plan_uniform(problem, edges, launch.limits);
  if (const auto* in = std::get_if<ShortPlan>(&plan.layout)) {
    return plan.computes_edges ? count_own_ranges(*in, problem, bins, flow, launch)
                               : count_short_channels(*in, problem, bins, flow, launch);
  }
  const EdgeCount call{std::get<EdgePlan>(plan.layout), problem, edges, flow};
  if (own) {
    count_between_extremes<E>(call, plan.computes_edges, bins, launch);
  } else {
    count_between_stored<E>(OneRange{bins.range[0], bins.range[1]}, call, bins, launch);
  }
}

} // namespace

void count_uniform(
    const Problem& problem, const UniformBins& bins, const Flow& flow, const Launch& launch) {
  bins.type == ElementType::kFloat32 ? count_uniform<float>(problem, bins, flow, launch)
                                     : count_uniform<double>(problem, bins, flow, launch);
}

void edges_of_axes(const std::vector<UniformBins>& axes, const Launch& launch) {
  for (size_t first = 0; first < axes.size(); first += kMostAxes) {
    const size_t count = std::min<size_t>(kMostAxes, axes.size() - first);
    FewAxes few{};
    int64_t most = 0;
    for (size_t d = 0; d < count; ++d) {
      const UniformBins& bins = axes[first + d];
      few.ranges[d] = {bins.range[0], bins.range[1]};
      few.bins[d] = bins;
      most = std::max(most, bins.bins + 1);
    }
    const dim3 grid(grid_for(most, launch).x, static_cast<unsigned>(count));
    start(
        launch, "edges_of_axes", edges_of_axes_kernel,
        LaunchShape{grid, kThreads, 0, 1, launch.limits.has_clusters()}, few);
  }
}

void edges_of(const Problem& problem, const UniformBins& bins, const Launch& launch) {
  bins.type == ElementType::kFloat32 ? edges_of<float>(problem, bins, launch)
                                     : edges_of<double>(problem, bins, launch);
}

} // namespace histo::cuda
