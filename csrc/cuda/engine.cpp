#include "engine.h"

#include "clustered.h"
#include "columns.h"
#include "exchange.h"
#include "planes.h"
#include "rows.h"
#include "runs.h"
#include "strided.h"

namespace histo::cuda {

template <class Binning>
void count(const Problem& problem, const Binning& binning, const Launch& launch) {
  const Plan plan = make_plan(problem, keys_of(problem.type, binning), launch.limits);
  if (std::holds_alternative<Interleaved>(plan.layout)) {
    count_columns(plan, problem, binning, launch);
  } else if (std::holds_alternative<WholeRows>(plan.layout)) {
    count_rows(plan, problem, launch);
  } else if (std::holds_alternative<Planar>(plan.layout)) {
    count_planes(plan, problem, binning, launch);
  } else if (std::holds_alternative<Clustered>(plan.layout)) {
    count_clustered(plan, problem, launch);
  } else if (std::holds_alternative<Runs>(plan.layout)) {
    count_runs(plan, problem, binning, launch);
  } else if (std::holds_alternative<Exchange>(plan.layout)) {
    count_exchange(plan, problem, launch);
  } else if (std::holds_alternative<Tiles>(plan.layout)) {
    count_strided(plan, problem, binning, launch);
  }
}

template void count(const Problem&, const ValueBinning&, const Launch&);
template void count(const Problem&, const LetterBinning&, const Launch&);

} // namespace histo::cuda
