// The extremes of channels, as numbers of values in their order.
#pragma once

#include <limits>

#include "cuda/fill/fill.h"

namespace histo::cuda {

template <class Wide>
HISTO_HOST_DEVICE bool is_finite(Wide value) {
  if constexpr (std::is_floating_point_v<Wide>) {
    return value >= std::numeric_limits<Wide>::lowest() &&
           value <= std::numeric_limits<Wide>::max();
  } else {
    return true;
  }
}

/// A number that grows with the value: extremes are found among integers, which atomics take.
template <class T>
HISTO_HOST_DEVICE int64_t ordinal_of_wide(typename Number<T>::Wide value) {
  using Wide = typename Number<T>::Wide;
  if constexpr (std::is_floating_point_v<Wide>) {
    return Number<Wide>::ordinal_of(value);
  } else {
    return static_cast<int64_t>(
        static_cast<uint64_t>(value) - static_cast<uint64_t>(Number<Wide>::wide_at(0)));
  }
}
/// The value of such a number.
template <class T>
HISTO_HOST_DEVICE typename Number<T>::Wide wide_of_ordinal(int64_t ordinal) {
  return Number<typename Number<T>::Wide>::wide_at(ordinal);
}

/// Types of one byte: lowers `lows` and raises `highs`, [channels].
void add_extremes_of_bytes(
    const Problem& problem, long long* lows, long long* highs, const Launch& launch);

} // namespace histo::cuda
