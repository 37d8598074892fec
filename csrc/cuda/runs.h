// Elements in many short runs.
#pragma once

#include "launch.h"

namespace histo::cuda {

template <class Binning>
void count_runs(
    const Plan& plan, const Problem& problem, const Binning& binning, const Launch& launch);

} // namespace histo::cuda
