// Counting any type over any strides: the engine's general way.
#pragma once

#include "../binning.h"
#include "launch.h"

namespace histo::cuda {

void count_generic(
    const Plan& plan, const Problem& problem, const ByteAxis& bytes, const Launch& launch);

} // namespace histo::cuda
