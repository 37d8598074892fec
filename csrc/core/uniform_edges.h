// Edges at equal distances, as NumPy makes them.
#pragma once

#include <cstdint>
#include <limits>

#include "core/rounded.h"

namespace histo {

/// Bins of one width between two numbers that all channels share, or between the finite extremes
/// of each channel.
struct UniformBins {
  int64_t bins;
  const double* range; // both numbers; null for the extremes
  void* edges;         // not initialized: [bins + 1], or [channels, bins + 1] for the extremes
  ElementType type;    // of the edges: float32 for floats of up to 32 bits, or float64
};

/// Edge k of `bins` bins of the same width between low and high, as np.linspace has it:
/// k * ((high - low) / bins) + low, each operation rounded once in T. NumPy refuses a range with
/// too few numbers between its ends for so many bins. If such a step is below the normal
/// numbers, or the width is beyond the largest one, or there are more than 2^24 + 1 bins in
/// float32, an edge is, in double, low + (k * (high - low)) / bins for float32, and for float64
/// low + (k / bins) * (high - low), or (1 - k / bins) * low + (k / bins) * high if the width is
/// beyond the largest number. No edge is beyond `high`. All are NaN unless low <= high.
template <class T>
HISTO_HOST_DEVICE T uniform_edge(T low, T high, int64_t bins, int64_t k) {
  if (!(low <= high)) {
    return std::numeric_limits<T>::quiet_NaN();
  }
  if (k == 0 || k == bins) {
    return k == 0 ? rounded_sum(low, T{0}) : high; // the sum makes 0 of -0
  }
  const T n = static_cast<T>(bins), steps = static_cast<T>(k);
  const T width = rounded_sum(high, -low);
  const T step = width / n;
  const auto after = [&](T some_steps) {
    return rounded_sum(rounded_product(some_steps, step), low);
  };
  constexpr int64_t kMostFloats = (int64_t{1} << 24) + 1;
  const bool is_float32 = sizeof(T) == 4;
  bool loses = width > std::numeric_limits<T>::max() || (is_float32 && bins > kMostFloats);
  if (step < std::numeric_limits<T>::min() || (is_float32 && bins == kMostFloats)) {
    loses = loses || !(low < after(1)) || !(after(static_cast<T>(bins - 1)) < high);
  }
  T edge;
  if (!loses) {
    edge = after(steps);
  } else if (is_float32) {
    const double wide = rounded_sum(double{high}, -double{low});
    const double beyond = rounded_product(static_cast<double>(k), wide) / static_cast<double>(bins);
    edge = static_cast<T>(rounded_sum(double{low}, beyond));
  } else if (width > std::numeric_limits<T>::max()) {
    const T part = steps / n;
    edge = rounded_sum(rounded_product(1 - part, low), rounded_product(part, high));
  } else {
    edge = rounded_sum(low, rounded_product(steps / n, width));
  }
  return edge < high ? edge : high;
}

/// The range that a channel's extremes give: 0 and 1 if there is no finite value (low > high), and
/// 0.5 more on either side if both are equal.
template <class T>
HISTO_HOST_DEVICE void range_of_extremes(T& low, T& high) {
  if (low > high) {
    low = 0;
    high = 1;
  }
  const T more = low == high ? T{0.5} : T{0};
  low = rounded_sum(low, -more);
  high = rounded_sum(high, more); // the sum makes 0 of -0
}

} // namespace histo
