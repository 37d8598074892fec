// Counting bytes that lie side by side: the engine's fast way.
#pragma once

#include "../binning.h"
#include "../problem.h"
#include "launch.h"

namespace histo::cuda {

/// False, and nothing done, where the problem has another shape or is too small
/// for the tables to pay.
template <class Binning>
bool count_columns(const Problem& problem, const Binning& binning, const Launch& launch);

} // namespace histo::cuda
