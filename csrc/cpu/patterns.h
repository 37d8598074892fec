// Counting between edges by the patterns of small values.
#pragma once

#include "../edges.h"
#include "../problem.h"

namespace histo::cpu {

/// Counts values of one or two bytes, if each channel has many more of them than there are
/// patterns. Otherwise it does nothing and returns false.
bool count_patterns(
    const Problem& input, const Edges& edges, const Flow& flow, Allocator& allocate);

} // namespace histo::cpu
