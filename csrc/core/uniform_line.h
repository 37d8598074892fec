// Bins of one width whose edges are computed where they are needed, and not stored.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/rounded.h"

namespace histo {

/// Edge k of the bins is k * step + low, each operation rounded in T.
template <class T>
struct UniformLine {
  T low;
  T step;
  T scale; // bins for each 1

  HISTO_HOST_DEVICE T edge(T k) const {
    return rounded_sum(rounded_product(k, step), low);
  }
};

/// Sets the line of a range. Returns whether uniform_edge() gives its edges, rounded to `Edge`, and
/// the edge nearest to a value is guessed so well that one comparison finds the bin.
///
/// The proof: let u be half of epsilon, n the bins, M the larger magnitude of low and high, and a
/// width of a bin the unit. The guess (value - low) * scale + 0.5 is rounded five times, and is off
/// by less than 6(n + 1)u. A device computes value * scale + (0.5 - low * scale), with one rounding
/// each; in float32 it leaves 0.5 out, and rounds to the nearest number instead of down. The scale is
/// off by 2u of itself, the constant by Mu / step, and the sum by (n + 1)u, so its guess is off by
/// less than 3(n + 1)u + Mu / step. An edge is off by less than 4nu for the rounded width, step and
/// product, and by 2Mu / step for the sum and the conversion, with the u of Edge. The conditions
/// make n at most 1 / 64u, and Mu / step at most 1 / 8. So the sums are below 11/64 + 1/4 and
/// 15/64 + 1/4, which is below a half. So the edge whose number is the whole part of the guess is
/// the last one that the value reaches, or the one behind that.
///
/// A step of a normal number keeps underflow from losing more. Edges but the last are more than half
/// a width below `high`.
template <class T, class Edge>
HISTO_HOST_DEVICE bool find_line(T low, T high, int64_t bins, UniformLine<T>& line) {
  using Narrow = std::conditional_t<sizeof(Edge) < sizeof(T), Edge, T>;
  using Limits = std::numeric_limits<Narrow>;
  constexpr T kBinsOfProof = 1 / (32 * std::numeric_limits<T>::epsilon());
  constexpr T kMostBins = kBinsOfProof < T(0x1p30) ? kBinsOfProof : T(0x1p30);
  const T width = rounded_sum(high, -low), n = static_cast<T>(bins);
  const T of_low = low < 0 ? -low : low, of_high = high < 0 ? -high : high;
  const T magnitude = of_low < of_high ? of_high : of_low;
  line = {low, width / n, n / width};
  // NaN and infinities fail here, too.
  return width <= std::numeric_limits<T>::max() && magnitude <= Limits::max() &&
         line.step >= Limits::min() && line.scale >= std::numeric_limits<T>::min() &&
         n <= kMostBins && magnitude * (4 * static_cast<T>(Limits::epsilon())) <= line.step;
}

} // namespace histo
