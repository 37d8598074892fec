// Bins of one width whose edges are computed where they are needed, and not stored.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace histo::cpu {

/// Edge k of the bins is k * step + low, each operation rounded in T.
template <class T>
struct UniformLine {
  T low;
  T step;
  T scale; // bins for each 1
};

/// Whether uniform_edge() gives such edges, rounded to `Edge`, and a guess of a value's bin is off
/// by one edge at most.
///
/// Let u be half of epsilon. In widths of a bin, with n bins, and M the larger magnitude of low and
/// high: (value - low) * scale + 0.5 is rounded five times and is off by less than 6nu. The edge is
/// off by less than 4nu for the rounded width, step and product, and by 2 Mu / step, u that of
/// Edge, for the sum and the conversion. The conditions make this 10/64 + 1/4 or less. So
/// the edge whose number is the whole part of the guess is less than a width from the value: the
/// value is not below the edge before it, and below the edge behind it. One comparison decides.
///
/// Numbers in M * 4 * epsilon <= step are normal, so no operation loses more than that, and all
/// edges are below `high`, as their distance from it is at least 3/4 of a width.
template <class T, class Edge>
bool find_line(T low, T high, int64_t bins, UniformLine<T>& line) {
  using Narrow = std::conditional_t<sizeof(Edge) < sizeof(T), Edge, T>;
  using Limits = std::numeric_limits<Narrow>;
  constexpr T kMostBins = 1 / (32 * std::numeric_limits<T>::epsilon());
  const T width = high - low, n = static_cast<T>(bins);
  const T magnitude = std::max(std::abs(low), std::abs(high));
  line = {low, width / n, n / width};
  // NaN and infinities fail here, too.
  return width <= std::numeric_limits<T>::max() && magnitude <= Limits::max() &&
         line.step >= Limits::min() && line.scale >= std::numeric_limits<T>::min() &&
         n <= std::min<T>(kMostBins, 0x1p30) &&
         magnitude * (4 * static_cast<T>(Limits::epsilon())) <= line.step;
}

} // namespace histo::cpu
