// Bins of one width. An edge is computed where a value is near it: none is stored, read or checked.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/edges.h"
#include "core/locate.h"
#include "core/uniform_edges.h"
#include "core/uniform_line.h"

namespace histo::cuda {

/// The type of edges of one width: float32 for floats of up to 32 bits.
template <class T>
using UniformEdgeOf =
    std::conditional_t<std::is_same_v<typename Number<T>::Wide, float>, float, double>;

/// The ranges of channels, [channels]: low <= high, both finite.
template <class E>
struct Ranges {
  const E* low;
  const E* high;
};

/// The slot of a value by a search among edges that are computed: for ranges that have no line.
template <class T>
__device__ __noinline__ unsigned search_uniform_slot(
    typename Number<T>::Wide value, UniformEdgeOf<T> low, UniformEdgeOf<T> high, unsigned bins) {
  const Real own = real_of(value);
  if (is_below(real_of(high), own)) {
    return bins + 1;
  }
  unsigned reached = 0, most = bins; // edges; the last one is only passed
  while (reached < most) {
    const unsigned middle = reached + (most - reached) / 2;
    if (is_at_most(real_of(uniform_edge(low, high, bins, middle)), own)) {
      reached = middle + 1;
    } else {
      most = middle;
    }
  }
  return reached;
}

/// An edge of a range that has no line. It is rare, and takes many registers.
template <class E>
__device__ __noinline__ E edge_without_line(E low, E high, unsigned bins, unsigned k) {
  return uniform_edge(low, high, bins, k);
}

/// The bins of one channel, in registers.
template <class T>
struct UniformBinsOfChannel {
  using Wide = typename Number<T>::Wide;
  using E = UniformEdgeOf<T>;

  UniformLine<E> line;
  E at_zero; // of the guess: see nearest_edge()
  E high;
  E end; // the smallest number above `high`
  unsigned bins;
  bool has_line;

  UniformBinsOfChannel() = default;
  __device__ __forceinline__ UniformBinsOfChannel(E the_low, E the_high, unsigned the_bins)
      : high(the_high), end(above(the_high)), bins(the_bins) {
    has_line = find_line<E, E>(the_low, the_high, the_bins, line);
    at_zero = fused(-the_low, line.scale, kRoundsInFloat ? E(0) : E(0.5));
    if constexpr (!Number<T>::kIsFloat && sizeof(T) == 8) { // other integers are doubles
      constexpr E kMostExact = 0x1p53;
      has_line = has_line && -kMostExact < the_low && the_high < kMostExact;
    }
  }

  /// Edge k, as `histogram` returns it.
  __device__ __forceinline__ E edge(unsigned k) const {
    if (!has_line) {
      return edge_without_line(line.low, high, bins, k);
    }
    return k == bins ? high : inner(static_cast<E>(k));
  }
  /// The slot of a value: how many edges it reaches. That of NaN is unspecified.
  template <bool kHasLine>
  __device__ __forceinline__ unsigned slot(Wide value) const {
    if constexpr (!kHasLine) {
      return search_uniform_slot<T>(value, line.low, high, bins);
    } else {
      const auto own = static_cast<E>(value);
      const Nearest near = nearest_edge(own);
      const E edge = near.k == bins ? end : inner(near.number);
      return near.k + (own >= edge ? 1 : 0);
    }
  }

 private:
  // Conversions between integers and floats have a quarter of the speed of other instructions.
  static constexpr bool kRoundsInFloat = sizeof(E) == 4;

  struct Nearest {
    unsigned k;
    E number; // k
  };
  /// The edge that is nearest to a value, or almost: see find_line(). NaN has any of them.
  __device__ __forceinline__ Nearest nearest_edge(E value) const {
    const E at = fused(value, line.scale, at_zero);
    if constexpr (kRoundsInFloat) {
      // The sum has no bits for a fraction, and is rounded to the nearest number.
      constexpr float kWholeNumbers = 0x1p23f;
      const float sum =
          rounded_sum(fminf(fmaxf(at, 0.0F), static_cast<float>(bins)), kWholeNumbers);
      return {
          bits_as<unsigned>(sum) - bits_as<unsigned>(kWholeNumbers),
          rounded_sum(sum, -kWholeNumbers)};
    } else {
      const unsigned k = min(converted(at), bins);
      return {k, static_cast<E>(k)};
    }
  }
  /// Edge k of those below `high`, on the line.
  __device__ __forceinline__ E inner(E k) const {
    return line.edge(k);
  }
  __device__ __forceinline__ static E above(E value) {
    if constexpr (sizeof(E) == 4) {
      return nextafterf(value, std::numeric_limits<E>::infinity());
    } else {
      return nextafter(value, std::numeric_limits<E>::infinity());
    }
  }
};

} // namespace histo::cuda
