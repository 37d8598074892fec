// Sums of weights of many short channels.
#pragma once

#include "core/edges.h"
#include "cuda/launch.h"
#include "cuda/plan/warp_sums_plan.h"

namespace histo::cuda {

/// Writes the rounded sums of all bins.
void sum_in_warps(
    const WarpSumsPlan& plan,
    const Problem& problem,
    const Edges& edges,
    const Flow& flow,
    double* rounded,
    const Launch& launch);

} // namespace histo::cuda
