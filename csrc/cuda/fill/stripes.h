// Counting stripes of columns between ranges of their own.
#pragma once

#include "cuda/axis/uniform_bins.cuh"
#include "cuda/fill/fill.h"

namespace histo::cuda {

/// Writes the edges of channels, and counts between them. The counts are cleared if the plan says so.
template <class E>
void count_own_stripes(
    const EdgePlan& plan,
    const Problem& problem,
    const Ranges<E>& ranges,
    int64_t bins,
    const Flow& flow,
    E* edges,
    const Launch& launch);

} // namespace histo::cuda
