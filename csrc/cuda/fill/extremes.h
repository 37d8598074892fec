// The extremes of channels.
#pragma once

#include "cuda/fill/fill.h"
#include "cuda/plan/extremes_plan.h"

namespace histo::cuda {

/// Whether extremes become ranges: see range_of_extremes().
struct Widened {
  bool yes;
};

/// The smallest and the largest finite value of each channel, rounded outwards; infinity and
/// -infinity where there is none. E: the type of its edges.
template <class E>
void find_extremes(const Problem& problem, Widened widened, E* low, E* high, const Launch& launch);

/// The same of short channels.
template <class E>
void find_short_extremes(
    const ChannelWords& in,
    const Problem& problem,
    Widened widened,
    E* low,
    E* high,
    const Launch& launch);

/// The same of types of one byte, which are counted.
template <class E>
void find_extremes_of_bytes(
    const Problem& problem, Widened widened, E* low, E* high, const Launch& launch);

} // namespace histo::cuda
