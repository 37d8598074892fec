// The CPU kernels. Each is instantiated for every binning in its .cpp file.
#pragma once

#include "../binning.h"
#include "../problem.h"

namespace histo::cpu {

/// One thread, one element after another: the definition of the answer.
template <class Binning>
void sequential(const Problem& problem, const Binning& binning);

/// The engine: every thread of torch, each with tables of its own.
template <class Binning>
void count(const Problem& problem, const Binning& binning, const Allocator& allocate);

} // namespace histo::cpu
