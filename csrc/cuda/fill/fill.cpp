#include "cuda/fill/fill.h"
#include "cuda/storage/clear.h"
#include "cuda/storage/gather.h"

namespace histo::cuda {

void count_between(
    const Problem& given, const Edges& edges, const Flow& flow, const Launch& launch) {
  const Problem problem = copied_into_runs(given, launch);
  const EdgePlan plan = plan_edges(problem, edges, launch.limits);
  if (plan.clears) {
    clear(launch, problem, plan.overlaps);
  }
  count_by({plan, problem, edges, flow}, launch);
}

void count_by(const EdgeCount& call, const Launch& launch) {
  std::visit([&](const auto& in) { count_layout(in, call, launch); }, call.plan.layout);
}

} // namespace histo::cuda
