// The production engine: any problem, the fastest way known here.
#pragma once

#include "core/axis.h"
#include "core/problem.h"
#include "cuda/launch.h"

namespace histo::cuda {

/// Counts a problem that has channels and rows.
template <class Binning>
void count(const Problem& problem, const Binning& binning, const Launch& launch);

} // namespace histo::cuda
