#include "engine.h"

#include "clustered.h"
#include "generic.h"
#include "interleaved.h"
#include "partitioned.h"
#include "planar.h"
#include "rows.h"
#include "runs.h"

namespace histo::cuda {

template <class Binning>
void count(const Problem& problem, const Binning& binning, const Launch& launch) {
  const ByteAxis axis = byte_axis(problem.type, binning);
  const Plan plan = make_plan(problem, keys_of(problem, axis), launch.limits);
  if (std::holds_alternative<Interleaved>(plan.layout)) {
    return count_interleaved(plan, problem, axis, launch);
  }
  if (std::holds_alternative<WholeRows>(plan.layout)) {
    return count_rows(plan, problem, axis, launch);
  }
  if (std::holds_alternative<Planar>(plan.layout)) {
    return count_planar(plan, problem, axis, launch);
  }
  if (std::holds_alternative<Clustered>(plan.layout)) {
    return count_clustered(plan, problem, axis, launch);
  }
  if (std::holds_alternative<Runs>(plan.layout)) {
    return count_runs(plan, problem, axis, launch);
  }
  if (std::holds_alternative<Generic>(plan.layout)) {
    return count_generic(plan, problem, axis, launch);
  }
  if (std::holds_alternative<Partitioned>(plan.layout)) {
    return count_partitioned(plan, problem, launch);
  }
  no_kernel("count");
}

template void count(const Problem&, const ValueBinning&, const Launch&);
template void count(const Problem&, const LetterBinning&, const Launch&);

} // namespace histo::cuda
