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

/// Whether a short channel computes its edges. Float64 edges of one range are those that a channel
/// would have. Float32 edges of one range are rounded from float64.
bool are_computed(const Edges& edges) {
  return !edges.shared || edges.type == ElementType::kFloat64;
}

std::optional<ShortPlan> plan_short(
    const Problem& problem, const Edges& edges, const DeviceLimits& limits) {
  if (counts_bytes_first(problem, edges)) {
    return std::nullopt;
  }
  const int64_t edge_bytes = (edges.bins + 1) * int64_t{sizeof(double)};
  return are_computed(edges) ? plan_own_ranges(problem, edges.bins, limits)
                             : plan_short_channels(problem, edges.bins, edge_bytes, limits);
}

} // namespace

UniformPlan plan_uniform(const Problem& problem, const Edges& edges, const DeviceLimits& limits) {
  if (const auto found = plan_short(problem, edges, limits)) {
    return {*found, are_computed(edges)};
  }
  if (!edges.shared) {
    for (const auto plan_own : {plan_own_stripes, plan_own_rows}) {
      if (const auto own = plan_own(problem, edges.bins, limits)) {
        return {*own, true};
      }
    }
  }
  EdgePlan plan = plan_edges(problem, edges, limits);
  // Edges must be there before they are searched. Stripes wait for the kernel that writes them.
  plan.overlaps = std::holds_alternative<EdgeStripes>(plan.layout) && limits.has_clusters();
  return {plan, false};
}

} // namespace histo::cuda
