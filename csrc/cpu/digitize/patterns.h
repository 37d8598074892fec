// Counting between edges by the patterns of small values.
#pragma once

#include <optional>

#include "core/edges.h"
#include "core/problem.h"
#include "cpu/kernels.h"

namespace histo::cpu {

/// Values of one or two bytes as integers that are counted first: if each channel has many more of
/// them than there are patterns.
std::optional<Problem> patterns_of(const Problem& input);

/// Counts the patterns of values. If that is not worth it, it does nothing and returns false.
/// `ranges` are those of edges of one width, or null.
bool count_patterns(
    const Problem& input,
    const Edges& edges,
    const UniformRanges* ranges,
    const Flow& flow,
    Allocator& allocate);

} // namespace histo::cpu
