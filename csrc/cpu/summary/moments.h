// Mean and variance from exact sums.
#pragma once

#include <cstdint>

#include "core/exact_sum.h"

namespace histo::cpu {

/// Each is the float64 nearest to the exact number.
struct Moments {
  double mean; // NaN for no value
  double var;  // of torch.var: NaN for fewer than two values
  double std;  // right also where float64 cannot hold the variance
  double sum;
  double sum_of_squares;
};

constexpr int64_t kMoments = 5;

/// `digits` are canonical: those of the sum of `number` values, and those of the sum of squares.
Moments moments_of(const int64_t* digits, ElementType type, int64_t number);

} // namespace histo::cpu
