// Copies of channels that lie side by side.
#pragma once

#include "cuda/launch.h"
#include "cuda/plan/gather_plan.h"

namespace histo::cuda {

/// Copies all channels of a problem.
void gather(const GatherShape& shape, const Problem& problem, void* copy, const Launch& launch);

/// The problem, or that of a copy if takes_copy() says so.
Problem in_runs(const Problem& problem, const Launch& launch);

} // namespace histo::cuda
