#include "cuda/plan/uniform_plan.h"

#include <cstdint>

namespace histo::cuda {
namespace {

/// Whether channels of one-byte elements are so long that counting raw bytes is faster.
bool counts_bytes_first(const Problem& problem, const Edges& edges) {
  const int64_t rows = problem.num_rows(), bytes = rows * problem.num_channels();
  return bytes_of_type(problem.type) == 1 && bytes > kLeastBytesToMap &&
         rows > (edges.shared ? kMostShortRowsOfBytes : kMostShortRowsOfBytesWithRanges);
}

std::optional<ShortPlan> plan_short(
    const Problem& problem, const Edges& edges, const DeviceLimits& limits) {
  if (counts_bytes_first(problem, edges)) {
    return std::nullopt;
  }
  const int64_t edge_bytes = (edges.bins + 1) * int64_t{sizeof(double)};
  return UniformPlan::are_computed(edges)
             ? plan_own_ranges(problem, edges.bins, limits)
             : plan_short_channels(problem, edges.bins, edge_bytes, limits);
}

} // namespace

UniformPlan plan_uniform(const Problem& problem, const Edges& edges, const DeviceLimits& limits) {
  UniformPlan plan{};
  if (const auto found = plan_short(problem, edges, limits)) {
    plan.layout = UniformLayout::kShort;
    plan.short_channels = *found;
    return plan;
  }
  if (!edges.shared) {
    if (const auto own = plan_own_stripes(problem, edges.bins, limits)) {
      plan.layout = UniformLayout::kOwnStripes;
      plan.edges = *own;
      return plan;
    }
    if (const auto own = plan_own_rows(problem, edges.bins, limits)) {
      plan.layout = UniformLayout::kOwnTeams;
      plan.edges = *own;
      return plan;
    }
  }
  plan.layout = UniformLayout::kStored;
  plan.edges = plan_edges(problem, edges, limits);
  // Edges must be there before they are searched. Stripes wait for the kernel that writes them.
  plan.edges.overlaps = plan.edges.layout == EdgeLayout::kStripes && limits.has_clusters();
  return plan;
}

} // namespace histo::cuda
