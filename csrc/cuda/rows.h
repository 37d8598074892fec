// Counting whole rows of bytes, where each block has some of one table's.
#pragma once

#include "../binning.h"
#include "launch.h"

namespace histo::cuda {

void count_rows(
    const Plan& plan, const Problem& problem, const ByteAxis& axis, const Launch& launch);

} // namespace histo::cuda
