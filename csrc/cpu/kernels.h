// The CPU kernels.
#pragma once

#include "../binning.h"
#include "../problem.h"
#include "axis.h"

namespace histo::cpu {

/// One thread, one element after another: the definition of the answer. It is instantiated for
/// every binning.
template <class Binning>
void sequential(const Problem& problem, const Binning& binning);

/// The engine: every thread of torch, each with tables of its own.
void count(const Problem& problem, const Axis& axis, Allocator& allocate);

} // namespace histo::cpu
