// The bins between edges. An edge becomes a threshold of each channel: the smallest value of the
// input's own type that reaches the edge. So the bin of a value is found by comparisons in that
// type, and nothing is rounded. A guess may come first; it is used only where it was checked.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "numbers.h"

namespace histo {

constexpr bool is_type_of_edges(ElementType type) {
  return type == ElementType::kFloat32 || type == ElementType::kFloat64 ||
         (is_integer(type) && type != ElementType::kBool);
}

/// The edges of a call: [channels, bins + 1], or [bins + 1] that all channels share. Or a part of
/// the bins of each channel.
struct Edges {
  const void* data;
  ElementType type; // float32, float64 or an integer
  int64_t bins;
  bool shared;
  int64_t of_channel; // edges of a channel
  int64_t first;      // the first of the part
  bool closed;        // the last bin holds its upper edge: it is the channel's last one

  static Edges all(const void* data, ElementType type, int64_t bins, bool shared) {
    if (!is_type_of_edges(type)) {
      throw InternalError("Edges: not a type of edges");
    }
    return {data, type, bins, shared, bins + 1, 0, true};
  }
  HISTO_HOST_DEVICE Edges part(int64_t first_bin, int64_t size) const {
    return {data, type, size, shared, of_channel, first_bin, first_bin + size == bins};
  }

  HISTO_HOST_DEVICE Real at(int64_t channel, int64_t k) const {
    const int64_t i = (shared ? 0 : channel * of_channel) + first + k;
    switch (type) {
      case ElementType::kUInt8:
        return real_of(int64_t{static_cast<const uint8_t*>(data)[i]});
      case ElementType::kInt8:
        return real_of(int64_t{static_cast<const int8_t*>(data)[i]});
      case ElementType::kUInt16:
        return real_of(int64_t{static_cast<const uint16_t*>(data)[i]});
      case ElementType::kInt16:
        return real_of(int64_t{static_cast<const int16_t*>(data)[i]});
      case ElementType::kUInt32:
        return real_of(int64_t{static_cast<const uint32_t*>(data)[i]});
      case ElementType::kInt32:
        return real_of(int64_t{static_cast<const int32_t*>(data)[i]});
      case ElementType::kUInt64:
        return real_of(static_cast<const uint64_t*>(data)[i]);
      case ElementType::kInt64:
        return real_of(static_cast<const int64_t*>(data)[i]);
      case ElementType::kFloat32:
        return real_of(static_cast<const float*>(data)[i]);
      case ElementType::kFloat64:
        return real_of(static_cast<const double*>(data)[i]);
      default: // Edges::all has refused it; a trap here would cost the kernels registers
        return real_of(std::numeric_limits<double>::quiet_NaN());
    }
  }
};

/// Whether counts of values outside the bins are returned, too.
struct Flow {
  bool shown;

  /// Counts of a channel: the bins, or underflow, the bins, overflow and NaN.
  HISTO_HOST_DEVICE int64_t num_counts(int64_t bins) const {
    return bins + (shown ? 3 : 0);
  }
};

// A value is known by how many of the bins + 1 thresholds it reaches. 0 is underflow, 1 the first
// bin, bins the last one, bins + 1 overflow. That is its place among the counts with flow; NaN has
// the place bins + 2. Without flow places are one less, and what is outside is not counted.

template <class Key>
struct Threshold {
  Key key;
  bool exists; // some value of the type reaches the edge
};

/// The smallest value of type T that reaches an edge; the last edge of a channel is reached by
/// what is beyond it, so that its own value is in the last bin. An edge that no value reaches has
/// a key that comparisons never find reached: NaN. Integers have none: they need `exists`.
template <class T>
struct Thresholds {
  using Order = Number<T>;
  using Key = typename Order::Key;
  using Place = typename Order::Place;

  /// The number of the smallest value that reaches the edge, or kLast with `exists` false.
  HISTO_HOST_DEVICE static Place place(Real edge, bool is_closed, bool& exists) {
    exists = false;
    if (is_nan(edge.high)) {
      return Order::kLast;
    }
    const Place near = Order::place_near(edge);
    if constexpr (Order::kIsFloat) {
      const auto key = static_cast<Key>(edge.high);
      if (edge.low == 0 && static_cast<double>(key) == edge.high) { // which takes less time
        return search(near, key, is_closed, exists);
      }
    }
    return search(near, edge, is_closed, exists);
  }
  HISTO_HOST_DEVICE static Key key(Place place, bool exists) {
    if constexpr (Order::kIsFloat) {
      return exists ? Order::key_at(place) : std::numeric_limits<Key>::quiet_NaN();
    } else {
      return Order::key_at(place);
    }
  }

 private:
  /// `edge` is a Key or a Real.
  template <class E>
  HISTO_HOST_DEVICE static Place search(Place place, E edge, bool is_closed, bool& exists) {
    exists = reaches(place, edge, is_closed);
    while (!exists && place < Order::kLast) {
      exists = reaches(++place, edge, is_closed);
    }
    while (exists && place > Order::kFirst && reaches(place - 1, edge, is_closed)) {
      --place;
    }
    return place;
  }
  template <class E>
  HISTO_HOST_DEVICE static bool reaches(Place place, E edge, bool is_closed) {
    if constexpr (std::is_same_v<E, Real>) {
      const Real value = real_of(Order::key_at(place));
      return is_closed ? is_below(edge, value) : is_at_most(edge, value);
    } else {
      const Key value = Order::key_at(place);
      return is_closed ? edge < value : edge <= value;
    }
  }
};

/// An integer or float as the nearest float that is not above, or not below it.
template <class To, class Key>
HISTO_HOST_DEVICE To rounded_down(Key key) {
  const To to = static_cast<To>(key);
  return is_at_most(real_of(to), real_of(key)) ? to
                                               : Number<To>::key_at(Number<To>::place_of(to) - 1);
}
template <class To, class Key>
HISTO_HOST_DEVICE To rounded_up(Key key) {
  const To to = static_cast<To>(key);
  return is_at_most(real_of(key), real_of(to)) ? to
                                               : Number<To>::key_at(Number<To>::place_of(to) + 1);
}

/// The type that bins are guessed in.
template <class Key>
using GuessOf = std::conditional_t<std::is_same_v<Key, float>, float, double>;

/// Host and device compute a line in different ways, and each checks its own. The host can do what
/// a device does, too, bit for bit: so it tells what a device will find.
enum class Arithmetic { kHost, kDevice };
#ifdef __CUDACC__
constexpr Arithmetic kOwnArithmetic = Arithmetic::kDevice;
#else
constexpr Arithmetic kOwnArithmetic = Arithmetic::kHost;
#endif

/// a * b + c, rounded once.
template <class G>
HISTO_HOST_DEVICE G fused(G a, G b, G c) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(G) == 4) {
    return __fmaf_rn(a, b, c);
  } else {
    return __fma_rn(a, b, c);
  }
#else
  return std::fma(a, b, c);
#endif
}

/// a * b + c, rounded down once.
HISTO_HOST_DEVICE float fused_down(float a, float b, float c) {
#ifdef __CUDA_ARCH__
  return __fmaf_rd(a, b, c);
#else
  const double product = double{a} * b; // is exact
  const double sum = product + c, added = sum - product;
  const double lost = (product - (sum - added)) + (c - added);
  const auto nearest = static_cast<float>(sum);
  const bool is_above = nearest > sum || (nearest == sum && lost < 0);
  return is_above ? std::nextafter(nearest, -std::numeric_limits<float>::infinity()) : nearest;
#endif
}

/// As a device converts: a negative number becomes 0, and one that is too large the largest integer.
template <class G>
HISTO_HOST_DEVICE unsigned converted(G value) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(G) == 4) {
    return __float2uint_rz(value);
  } else {
    return __double2uint_rz(value);
  }
#else
  constexpr double kBeyond = 0x1p32;
  if (value != value) {
    return sizeof(G) == 4 ? 0 : 0x80000000u;
  }
  return value < kBeyond ? static_cast<unsigned>(value > 0 ? value : 0) : 0xffffffffu;
#endif
}

/// A line that never falls, so that a guess is right everywhere if it is right on both sides of
/// each threshold.
template <class G, Arithmetic kBy = kOwnArithmetic>
struct Line {
  G origin;
  G scale;
  G lift;
  G at_zero; // the line's value at 0, which a device begins with

  /// The line that has the value `lift` at `origin` and rises by `scale`.
  HISTO_HOST_DEVICE static Line through(double origin, double scale, double lift) {
    return {
        static_cast<G>(origin), static_cast<G>(scale), static_cast<G>(lift),
        static_cast<G>(kBy == Arithmetic::kDevice ? fused(-origin, scale, lift) : 0)};
  }
  /// Whether it rises, for infinite values, too.
  HISTO_HOST_DEVICE bool rises() const {
    return scale > 0 && scale <= std::numeric_limits<G>::max();
  }
  HISTO_HOST_DEVICE G at(G x) const {
    if constexpr (kBy == Arithmetic::kDevice) {
      return fused(x, scale, at_zero);
    } else {
      return (x - origin) * scale + lift;
    }
  }
  /// The line's value in [0, most]; NaN becomes 0.
  HISTO_HOST_DEVICE G clamped(G x, G most) const {
    const G g = at(x);
    const G above = g > 0 ? g : 0;
    return above < most ? above : most;
  }
};

/// The whole part of a line at x, in [0, most], most < 2^31. It is unspecified for NaN.
template <class G, Arithmetic kBy>
HISTO_HOST_DEVICE int32_t whole_part(const Line<G, kBy>& line, G x, int64_t most) {
  if constexpr (kBy == Arithmetic::kDevice) {
    const unsigned whole = converted(line.at(x)), limit = static_cast<unsigned>(most);
    return static_cast<int32_t>(whole < limit ? whole : limit);
  } else {
    return static_cast<int32_t>(line.clamped(x, rounded_down<G>(most)));
  }
}

/// How the place of a value is found.
enum class Guess : uint8_t {
  kFormula,     // by a line alone
  kOpenFormula, // by a line for all values but the last edge's own
  kComparison,  // by a line and one comparison with the nearest threshold
  kCells,       // by a search among the thresholds of a cell
};

/// The fastest guess, if a formula and a comparison are right everywhere, or not.
HISTO_HOST_DEVICE constexpr Guess best_guess(bool formula_is_right, bool comparison_is_right) {
  return formula_is_right      ? Guess::kFormula
         : comparison_is_right ? Guess::kComparison
                               : Guess::kCells;
}

/// The place of a value by `Lines::open_formula`. It is rounded down, so that a value a little below
/// an edge stays below it.
HISTO_HOST_DEVICE unsigned open_place(
    const Line<float, Arithmetic::kDevice>& line, float end, float value, unsigned bins) {
  const unsigned whole = converted(fused_down(value, line.scale, line.at_zero));
  const unsigned place = whole < bins + 1 ? whole : bins + 1;
  return value == end ? bins : place;
}

constexpr int kCells = 4096;

/// The lines of a channel's guesses. The whole part of a line is the guess.
template <class G, Arithmetic kBy = kOwnArithmetic>
struct Lines {
  using Line = histo::Line<G, kBy>;

  /// The place. A value on an edge is in the bin above it, but for the last edge. So the line is a
  /// little flatter, and lifted so much that it passes above all edges but the last.
  Line formula;
  /// The place of all values below the last edge: a line through all edges.
  Line open_formula;
  G end; // the last edge
  /// The nearest threshold: the line is lifted by a half.
  Line comparison;

  HISTO_HOST_DEVICE static Lines between(Real low, Real high, int64_t bins) {
    constexpr double kFlatter = 0x1p-20;
    const auto n = static_cast<double>(bins);
    const double scale = n / (high.high - low.high);
    return {
        Line::through(low.high, scale * (1 - kFlatter), 1 + (n - 0.5) * kFlatter),
        Line::through(low.high, scale, 1), static_cast<G>(high.high),
        Line::through(low.high, scale, 0.5)};
  }
};

/// The line of kCells over the values: its whole part is the cell.
template <class G, Arithmetic kBy = kOwnArithmetic>
HISTO_HOST_DEVICE Line<G, kBy> cell_line(Real low, Real high) {
  return Line<G, kBy>::through(low.high, kCells / (high.high - low.high), 0);
}

/// Cells over the numbers of values of type G, in their order.
template <class G>
struct BitCells {
  using Place = typename Number<G>::Place;
  using Distance = std::make_unsigned_t<Place>;

  Place first;
  int shift;

  HISTO_HOST_DEVICE static Distance distance(Place first, Place place) {
    return static_cast<Distance>(place) - static_cast<Distance>(first);
  }
  HISTO_HOST_DEVICE static BitCells between(Real low, Real high) {
    const Place first = Number<G>::place_of(static_cast<G>(low.high));
    const Distance span = distance(first, Number<G>::place_of(static_cast<G>(high.high)));
    int shift = 0;
    while (span >> shift >= kCells) {
      ++shift;
    }
    return {first, shift};
  }
  HISTO_HOST_DEVICE int32_t at(G value) const {
    const Place place = Number<G>::place_of(value);
    if (is_nan(value) || place <= first) {
      return 0;
    }
    const Distance cell = distance(first, place) >> shift;
    return cell < kCells ? static_cast<int32_t>(cell) : kCells - 1;
  }
};

/// One edge as a threshold, and whether guesses are right on both sides of it.
template <class T>
struct CheckedEdge {
  typename Number<T>::Place place; // the number of the threshold's value, or kLast
  bool exists;
  bool valid; // the next edge is not below it, and neither is NaN
  bool formula_is_right;
  bool open_formula_is_right; // if kernels know it
  bool comparison_is_right;
};

/// Whether streams are counted by `open_formula`. Short floats are read so fast that a comparison
/// in shared memory takes longer. Others wait for memory either way.
template <class T, Arithmetic kBy = kOwnArithmetic>
constexpr bool kKnowsOpenFormula =
    sizeof(T) == 2 && Number<T>::kIsFloat && kBy == Arithmetic::kDevice;

template <class T, class G, Arithmetic kBy>
HISTO_HOST_DEVICE CheckedEdge<T> check_edge(
    const Edges& edges, int64_t channel, int64_t k, const Lines<G, kBy>& lines) {
  const int64_t bins = edges.bins;
  const Real edge = edges.at(channel, k);
  CheckedEdge<T> checked;
  checked.valid = is_at_most(edge, edges.at(channel, k < bins ? k + 1 : k));
  checked.place = Thresholds<T>::place(edge, edges.closed && k == bins, checked.exists);
  checked.formula_is_right = lines.formula.rises();
  checked.comparison_is_right = lines.comparison.rises();
  checked.open_formula_is_right =
      kKnowsOpenFormula<T, kBy> && edges.closed && lines.open_formula.rises();
  const auto look = [&](typename Number<T>::Place place, bool reaches) {
    const auto value = static_cast<G>(Number<T>::key_at(place));
    const int64_t by_formula = whole_part(lines.formula, value, bins + 1);
    if constexpr (kKnowsOpenFormula<T, kBy>) {
      const int64_t place =
          open_place(lines.open_formula, lines.end, value, static_cast<unsigned>(bins));
      checked.open_formula_is_right = checked.open_formula_is_right && (place > k) == reaches;
    }
    const int64_t nearest = whole_part(lines.comparison, value, bins);
    checked.formula_is_right = checked.formula_is_right && (by_formula > k) == reaches;
    checked.comparison_is_right =
        checked.comparison_is_right && (reaches ? nearest >= k : nearest <= k);
  };
  if (checked.exists) {
    look(checked.place, true);
  }
  if (!checked.exists || checked.place > Number<T>::kFirst) {
    const auto below = checked.exists ? checked.place - 1 : checked.place;
    look(below, false);
    if (kKnowsOpenFormula<T, kBy> && k == bins && below > Number<T>::kFirst) {
      look(below - 1, false); // the largest that is not the last edge
    }
  }
  return checked;
}

// Each of these rounds once. On a GPU the compiler would make one operation of two.
template <class T>
HISTO_HOST_DEVICE T rounded_sum(T a, T b) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) == 4) {
    return __fadd_rn(a, b);
  } else {
    return __dadd_rn(a, b);
  }
#else
  return a + b;
#endif
}
template <class T>
HISTO_HOST_DEVICE T rounded_product(T a, T b) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) == 4) {
    return __fmul_rn(a, b);
  } else {
    return __dmul_rn(a, b);
  }
#else
  return a * b;
#endif
}

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

} // namespace histo
