// Copies of channels that lie side by side.
#pragma once

#include "cuda/launch.h"
#include "cuda/plan/gather_plan.h"

namespace histo::cuda {

/// Copies all channels of a problem.
void gather(const GatherShape& shape, const Problem& problem, void* copy, const Launch& launch);

/// The problem itself, or one of a copy in which each channel is a run, as plan_copy() says.
Problem copied_into_runs(const Problem& problem, const Launch& launch);

} // namespace histo::cuda
