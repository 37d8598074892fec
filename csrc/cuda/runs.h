// Elements in many short runs.
#pragma once

#include "../binning.h"
#include "launch.h"

namespace histo::cuda {

void count_runs(
    const Plan& plan, const Problem& problem, const ByteAxis& axis, const Launch& launch);

} // namespace histo::cuda
