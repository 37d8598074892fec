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
  const ByteAxis axis = byte_axis(problem.type, binning);
  const Plan plan = make_plan(problem, keys_of(problem, axis), launch.limits);
  if (std::holds_alternative<Interleaved>(plan.layout)) {
    return count_columns(plan, problem, axis, launch);
  }
  if (std::holds_alternative<WholeRows>(plan.layout)) {
    return count_rows(plan, problem, axis, launch);
  }
  if (std::holds_alternative<Planar>(plan.layout)) {
    return count_planes(plan, problem, axis, launch);
  }
  if (std::holds_alternative<Clustered>(plan.layout)) {
    return count_clustered(plan, problem, axis, launch);
  }
  if (std::holds_alternative<Runs>(plan.layout)) {
    return count_runs(plan, problem, axis, launch);
  }
  if (std::holds_alternative<Tiles>(plan.layout)) {
    return count_strided(plan, problem, axis, launch);
  }
  if (std::holds_alternative<Exchange>(plan.layout)) {
    return count_exchange(plan, problem, launch);
  }
  no_kernel("count");
}

template void count(const Problem&, const ValueBinning&, const Launch&);
template void count(const Problem&, const LetterBinning&, const Launch&);

} // namespace histo::cuda
