// Counting elements that lie side by side: the engine's fast way.
#pragma once

#include "../binning.h"
#include "launch.h"

namespace histo::cuda {

void count_interleaved(
    const Plan& plan, const Problem& problem, const ByteAxis& axis, const Launch& launch);

} // namespace histo::cuda
