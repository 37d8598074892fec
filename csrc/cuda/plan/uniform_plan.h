// How a GPU counts between edges of one width: the plan, which count_uniform follows and explain
// tells.
#pragma once

#include <variant>

#include "cuda/plan/edge_plan.h"
#include "cuda/plan/extremes_plan.h"
#include "cuda/plan/short_plan.h"

namespace histo::cuda {

/// Short channels are counted by one kernel. Others have the plan of a count between edges.
struct UniformPlan {
  std::variant<ShortPlan, EdgePlan> layout;
  bool computes_edges; // where values meet them, and not by a kernel before
};

/// Edges that channels share are those of a range of numbers. Others lie between the extremes of each
/// channel. There must be elements, and counts.
UniformPlan plan_uniform(const Problem& problem, const Edges& edges, const DeviceLimits& limits);

} // namespace histo::cuda
