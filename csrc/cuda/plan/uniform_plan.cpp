#include "cuda/plan/uniform_plan.h"

#include <cstdint>

namespace histo::cuda {
namespace {

/// Whether other layouts count a few long channels of bytes sooner.
bool are_long_bytes(const Problem& problem, const Edges& edges) {
  const int64_t rows = problem.num_rows(), bytes = rows * problem.num_channels();
  return bytes_of_type(problem.type) == 1 && bytes > kFewBytesTogether &&
         rows > (edges.shared ? kMostBytesOfShortBytes : kMostBytesOfShortBytesWithRanges);
}

std::optional<ShortPlan> plan_short(
    const Problem& problem, const Edges& edges, const DeviceLimits& limits) {
  if (are_long_bytes(problem, edges)) {
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
