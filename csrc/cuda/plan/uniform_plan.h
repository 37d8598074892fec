// How a GPU counts between edges of one width: the plan, which count_uniform follows and explain
// tells.
#pragma once

#include "cuda/plan/edge_plan.h"
#include "cuda/plan/extremes_plan.h"
#include "cuda/plan/short_plan.h"

namespace histo::cuda {

enum class UniformLayout {
  kShort,      // short channels: one kernel makes edges and counts
  kOwnStripes, // columns with ranges of their own: edges are computed where values meet them
  kOwnTeams,   // the same for channels that lie one after another
  kStored,     // a kernel writes the edges, and another one searches them
};

struct UniformPlan {
  UniformLayout layout;
  ShortPlan short_channels; // kShort
  EdgePlan edges;           // of the other layouts

  /// Whether edges are computed where values meet them.
  bool computes_edges(const Edges& edges) const {
    return layout == UniformLayout::kShort ? are_computed(edges) : layout != UniformLayout::kStored;
  }

  /// Whether a short channel computes its edges. Float64 edges of one range are those that a channel
  /// would have. Float32 edges of one range are rounded from float64.
  static bool are_computed(const Edges& edges) {
    return !edges.shared || edges.type == ElementType::kFloat64;
  }
};

/// Edges that channels share are those of a range of numbers. Others lie between the extremes of each
/// channel. There must be elements, and counts.
UniformPlan plan_uniform(const Problem& problem, const Edges& edges, const DeviceLimits& limits);

} // namespace histo::cuda
