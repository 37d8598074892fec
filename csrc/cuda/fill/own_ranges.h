// Counting in bins of one width, in a range of each channel.
#pragma once

#include "cuda/fill/fill.h"

namespace histo::cuda {

/// Counts by a plan of plan_own_rows between low and high, [channels], of the type of edges, and
/// writes the edges. Counts are cleared if the plan says so.
template <class E>
void count_own_teams(
    const EdgePlan& plan,
    const Problem& problem,
    const E* low,
    const E* high,
    const UniformBins& bins,
    const Flow& flow,
    const Launch& launch);

} // namespace histo::cuda
