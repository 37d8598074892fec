// Counting bytes of one channel after another, or of three in turn.
#pragma once

#include "../binning.h"
#include "launch.h"

namespace histo::cuda {

template <class Binning>
void count_planes(
    const Plan& plan, const Problem& problem, const Binning& binning, const Launch& launch);

} // namespace histo::cuda
