// Summing the tables that blocks leave in the workspace.
#pragma once

#include "core/axis.h"
#include "cuda/launch.h"

namespace histo::cuda {

void reduce_columns(
    const CountPlan& plan,
    const Problem& problem,
    const ByteAxis& axis,
    const uint4* partials,
    const Launch& launch);

} // namespace histo::cuda
