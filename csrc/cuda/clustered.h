// Counting a few MiB of bytes that lie side by side, in one launch.
#pragma once

#include "../binning.h"
#include "launch.h"

namespace histo::cuda {

void count_clustered(
    const Plan& plan, const Problem& problem, const ByteAxis& axis, const Launch& launch);

} // namespace histo::cuda
