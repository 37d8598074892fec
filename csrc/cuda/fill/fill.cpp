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
  count_by(plan, problem, edges, flow, launch);
}

void count_by(
    const EdgePlan& plan,
    const Problem& problem,
    const Edges& edges,
    const Flow& flow,
    const Launch& launch) {
  switch (plan.layout) {
    case EdgeLayout::kBytes:
      return count_bytes_between(problem, edges, flow, launch);
    case EdgeLayout::kTeams:
      return count_teams_between(plan, problem, edges, flow, launch);
    case EdgeLayout::kStreams:
      return count_streams_between(plan, problem, edges, flow, launch);
    case EdgeLayout::kColumns:
      return count_columns_between(plan, problem, edges, flow, launch);
    case EdgeLayout::kStripes:
      return count_stripes_between(plan, problem, edges, flow, launch);
    case EdgeLayout::kTiles:
      return count_tiles_between(plan, problem, edges, flow, launch);
  }
  no_kernel("count_between");
}

} // namespace histo::cuda
