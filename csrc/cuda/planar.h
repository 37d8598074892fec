// Counting bytes of one channel after another, or of three in turn.
#pragma once

#include "../binning.h"
#include "launch.h"

namespace histo::cuda {

void count_planar(
    const Plan& plan, const Problem& problem, const ByteAxis& axis, const Launch& launch);

} // namespace histo::cuda
