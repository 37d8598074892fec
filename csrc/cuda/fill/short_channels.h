// Counting short channels, each by a warp or a block.
#pragma once

#include "cuda/fill/fill.h"
#include "cuda/plan/short_plan.h"

namespace histo::cuda {

/// Channels with the ranges of their extremes, or with one range of numbers if edges are float64:
/// writes edges and counts.
void count_own_ranges(
    const ShortPlan& plan,
    const Problem& problem,
    const UniformBins& bins,
    const Flow& flow,
    const Launch& launch);

/// Channels with one range of numbers, if edges are float32: writes edges and counts.
void count_short_channels(
    const ShortPlan& plan,
    const Problem& problem,
    const UniformBins& bins,
    const Flow& flow,
    const Launch& launch);

} // namespace histo::cuda
