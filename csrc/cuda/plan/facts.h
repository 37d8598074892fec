// Facts about plans, in groups, which `explain` prints. The facts of a layout stand beside its
// planner.
#pragma once

#include <string>
#include <vector>

#include "core/facts.h"
#include "cuda/plan/uniform_plan.h"
#include "cuda/plan/weights_plan.h"

namespace histo::cuda {

using Steps = std::vector<std::string>; // kernels by name, and "zeroing"

inline Fact launches_of(const Steps& steps) {
  return {"launches", Facts{{"launches", steps.size()}, {"steps", steps}}};
}

const char* name_of(Access access);

/// The facts about a layout.
struct LayoutFacts {
  std::string kernel; // the one that counts; a reduction may follow it
  Facts layout;
  Facts table;
  int64_t bytes_of_gaps = 0; // bytes between rows, which are read and not counted
};

LayoutFacts facts_of(const Interleaved& in, const Problem& problem);
LayoutFacts facts_of(const WholeRows& in, const Problem& problem);
LayoutFacts facts_of(const Planar& in, const Problem& problem);
LayoutFacts facts_of(const Clustered& in, const Problem& problem);
LayoutFacts facts_of(const Runs& in, const Problem& problem);
LayoutFacts facts_of(const Generic& in, const Problem& problem);
LayoutFacts facts_of(const Partitioned& in, const Problem& problem);

/// The facts of a plan, whatever it is for.
struct PlanFacts {
  Facts groups; // each is facts, too
  Steps steps;
  int64_t workspace_bytes = 0;
  int64_t bytes_of_gaps = 0;
};

PlanFacts facts_of(const CountPlan& plan, const Problem& problem);
/// Edges are there.
PlanFacts facts_of(
    const EdgePlan& plan, const Problem& problem, const Edges& edges, const DeviceLimits& limits);
/// One call makes the edges and counts.
PlanFacts facts_of(
    const UniformPlan& plan,
    const Problem& problem,
    const Edges& edges,
    const DeviceLimits& limits);
/// `sum_digits`: of a weight's sum.
Facts facts_of(const WeightsPlan& plan, int sum_digits);

} // namespace histo::cuda
