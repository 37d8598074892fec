// Mean and variance from exact sums.
#pragma once

#include <cstdint>

#include "core/moments.h"

namespace histo::cpu {

/// `digits` are canonical: those of the sum of `number` values, and those of the sum of squares.
Moments moments_of(const int64_t* digits, ElementType type, int64_t number);

} // namespace histo::cpu
