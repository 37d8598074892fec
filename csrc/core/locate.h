// The slot of a value, guessed by a line or by buckets. A guess is used only where it is right on
// both sides of every edge, which is checked here.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/edges.h"

namespace histo {

/// The type that bins are guessed in.
template <class Wide>
using GuessOf = std::conditional_t<std::is_same_v<Wide, float>, float, double>;

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

/// As a device converts: a negative number becomes 0, and one that is too large the largest
/// integer.
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

/// A number in [least, most]; NaN becomes the least.
template <class G>
HISTO_HOST_DEVICE G clamped(G number, G least, G most) {
  const G above = number > least ? number : least;
  return above < most ? above : most;
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
    return histo::clamped(at(x), G{0}, most);
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

/// How the slot of a value is found.
enum class Guess : uint8_t {
  kAffine,            // by a line alone
  kAffineExceptTop,   // by a line for all values but the last edge's own
  kAffineThenCompare, // by a line and at most one comparison
  kBucketed,          // by a search among the thresholds of a bucket
  kBucketedBits,      // the same, with buckets over the bits of values
};

/// The fastest guess, if each of the others is right everywhere, or not.
HISTO_HOST_DEVICE constexpr Guess best_guess(
    bool affine_is_right, bool affine_except_top_is_right, bool nearest_is_right) {
  return affine_is_right              ? Guess::kAffine
         : affine_except_top_is_right ? Guess::kAffineExceptTop
         : nearest_is_right           ? Guess::kAffineThenCompare
                                      : Guess::kBucketed;
}

/// The slot of a value by `Lines::affine_except_top`. It is rounded down, so that a value a little
/// below an edge stays below it.
HISTO_HOST_DEVICE unsigned slot_except_top(
    const Line<float, Arithmetic::kDevice>& line, float end, float value, unsigned bins) {
  const unsigned whole = converted(fused_down(value, line.scale, line.at_zero));
  const unsigned slot = whole < bins + 1 ? whole : bins + 1;
  return value == end ? bins : slot;
}

/// A slot by `Lines::then_compare`. If the value is close to the edge below that slot, a
/// comparison with this edge decides between the slot and the one before.
struct CloseSlot {
  unsigned slot;
  bool is_close;
};

/// A value is close if it is less than this part of a bin from an edge. The line is lifted by as
/// much, so its fraction is then below twice that. The host skips the comparison of a vector
/// without close values; a device compares without a branch. Shown by: float16 [2^29], 2048 bins in
/// (-3.7, 4.1), and on the CPU float32 [2^24], 255 bins in (-3.7, 4.1).
template <Arithmetic kBy>
constexpr double kClose = kBy == Arithmetic::kDevice ? 0x1p-6 : 0x1p-10;
/// The host clamps the line to [0.5, bins + 1.5]: values far outside are half a bin from the start
/// of their slot, so they are not close. Floats have halves up to 2^23; the limit leaves a margin.
constexpr double kEndOfSlots = 0.5;
constexpr int64_t kMostBinsOfClose = int64_t{1} << 20;

template <class G, Arithmetic kBy>
HISTO_HOST_DEVICE CloseSlot close_slot(const Line<G, kBy>& line, G value, unsigned bins) {
  constexpr auto kLimit = static_cast<G>(2 * kClose<kBy>);
  if constexpr (kBy == Arithmetic::kDevice) {
    const G at = line.at(value);
    const unsigned whole = converted(at), slot = whole < bins + 1 ? whole : bins + 1;
    return {slot, std::abs(at - static_cast<G>(slot)) < kLimit};
  } else {
    const G least = static_cast<G>(kEndOfSlots), most = static_cast<G>(bins + 1 + kEndOfSlots);
    const G at = clamped(line.at(value), least, most);
    const auto slot = static_cast<unsigned>(static_cast<int64_t>(at));
    return {slot, at - static_cast<G>(slot) < kLimit};
  }
}

/// The lines of a channel's guesses. The whole part of a line is the guess.
template <class G, Arithmetic kBy = kOwnArithmetic>
struct Lines {
  using Line = histo::Line<G, kBy>;

  /// The slot. A value on an edge is in the bin above it, but for the last edge. So the line is a
  /// little flatter, and lifted so much that it passes above all edges but the last.
  Line affine;
  /// The slot of all values below the last edge: a line through all edges.
  Line affine_except_top;
  G end; // the last edge
  /// The nearest threshold: the line is lifted by a half.
  Line nearest;
  /// The slot, or one more for values just below an edge: the line is lifted by kClose.
  Line then_compare;

  /// The value that `affine_except_top` does not find; NaN if there is none.
  HISTO_HOST_DEVICE G end_of(const Edges& edges) const {
    return edges.closed ? end : std::numeric_limits<G>::quiet_NaN();
  }

  HISTO_HOST_DEVICE static Lines between(Real low, Real high, int64_t bins) {
    constexpr double kFlatter = 0x1p-20;
    const auto n = static_cast<double>(bins);
    const double scale = n / (high.high - low.high);
    return {
        Line::through(low.high, scale * (1 - kFlatter), 1 + (n - 0.5) * kFlatter),
        Line::through(low.high, scale, 1), static_cast<G>(high.high),
        Line::through(low.high, scale, 0.5), Line::through(low.high, scale, 1 + kClose<kBy>)};
  }
};

/// The line of buckets over the values: its whole part is the bucket. The range has all buckets but
/// the first and the last, so these rarely have an edge, and values outside need no comparison.
template <class G, Arithmetic kBy = kOwnArithmetic>
HISTO_HOST_DEVICE Line<G, kBy> bucket_line(Real low, Real high, int32_t buckets) {
  return Line<G, kBy>::through(low.high, (buckets - 3) / (high.high - low.high), 1);
}

/// Buckets over the numbers of values of type G, in their order. NaN has any of them.
template <class G>
struct BitBuckets {
  using Ordinal = typename Number<G>::Ordinal;
  using Distance = std::make_unsigned_t<Ordinal>;

  Ordinal first;
  int shift;
  int32_t last; // bucket

  HISTO_HOST_DEVICE static Distance distance(Ordinal first, Ordinal ordinal) {
    return static_cast<Distance>(ordinal) - static_cast<Distance>(first);
  }
  HISTO_HOST_DEVICE static BitBuckets between(Real low, Real high, int32_t buckets) {
    const Ordinal first = Number<G>::ordinal_of(static_cast<G>(low.high));
    const Distance span = distance(first, Number<G>::ordinal_of(static_cast<G>(high.high)));
    int shift = 0;
    while ((span >> shift) + 3 > static_cast<Distance>(buckets)) {
      ++shift;
    }
    // The first bucket is empty, unless there are no numbers before `first`.
    const Ordinal least = std::numeric_limits<Ordinal>::min(), room = Ordinal{1} << shift;
    return {first < least + room ? least : first - room, shift, buckets - 1};
  }
  HISTO_HOST_DEVICE int32_t at(G value) const {
    const Ordinal ordinal = Number<G>::ordinal_of(value);
    const Distance bucket = distance(first, ordinal > first ? ordinal : first) >> shift;
    return bucket < static_cast<Distance>(last) ? static_cast<int32_t>(bucket) : last;
  }
};

/// One edge as a threshold, and whether guesses are right on both sides of it.
template <class T>
struct CheckedEdge {
  typename Number<T>::Ordinal ordinal; // the number of the threshold's value, or kLast
  bool exists;
  bool valid; // the next edge is not below it, and neither is NaN
  bool affine_is_right;
  bool affine_except_top_is_right; // if kernels know it
  bool nearest_is_right;
  bool then_compare_is_right;
};

/// Whether streams are counted by `affine_except_top`: what is guessed in float32.
template <class T, Arithmetic kBy = kOwnArithmetic>
constexpr bool kKnowsAffineExceptTop =
    kBy == Arithmetic::kDevice && std::is_same_v<GuessOf<typename Number<T>::Wide>, float>;

template <class T, class G, Arithmetic kBy>
HISTO_HOST_DEVICE CheckedEdge<T> check_edge(
    const Edges& edges, int64_t channel, int64_t k, const Lines<G, kBy>& lines) {
  const int64_t bins = edges.bins;
  const Real edge = edges.at(channel, k);
  CheckedEdge<T> checked;
  checked.valid = is_at_most(edge, edges.at(channel, k < bins ? k + 1 : k));
  checked.ordinal = Thresholds<T>::ordinal(edge, edges.closed && k == bins, checked.exists);
  checked.affine_is_right = lines.affine.rises();
  checked.nearest_is_right = lines.nearest.rises();
  checked.affine_except_top_is_right =
      kKnowsAffineExceptTop<T, kBy> && lines.affine_except_top.rises();
  checked.then_compare_is_right = lines.then_compare.rises();
  const auto look = [&](typename Number<T>::Ordinal ordinal, bool reaches) {
    const auto value = static_cast<G>(Number<T>::wide_at(ordinal));
    const int64_t by_affine = whole_part(lines.affine, value, bins + 1);
    if constexpr (kKnowsAffineExceptTop<T, kBy>) {
      const int64_t by_affine_except_top = slot_except_top(
          lines.affine_except_top, lines.end_of(edges), value, static_cast<unsigned>(bins));
      checked.affine_except_top_is_right =
          checked.affine_except_top_is_right && (by_affine_except_top > k) == reaches;
    }
    const int64_t nearest = whole_part(lines.nearest, value, bins);
    checked.affine_is_right = checked.affine_is_right && (by_affine > k) == reaches;
    checked.nearest_is_right = checked.nearest_is_right && (reaches ? nearest >= k : nearest <= k);
    const CloseSlot close = close_slot(lines.then_compare, value, static_cast<unsigned>(bins));
    const int64_t below = int64_t{close.slot} - 1; // the edge below the slot
    const bool is_right =
        close.is_close ? (reaches ? below >= k : below <= k) : (below >= k) == reaches;
    checked.then_compare_is_right = checked.then_compare_is_right && is_right;
  };
  if (checked.exists) {
    look(checked.ordinal, true);
  }
  if (!checked.exists || checked.ordinal > Number<T>::kFirst) {
    const auto below = checked.exists ? checked.ordinal - 1 : checked.ordinal;
    look(below, false);
    if (kKnowsAffineExceptTop<T, kBy> && k == bins && below > Number<T>::kFirst) {
      look(below - 1, false); // the largest that is not the last edge
    }
  }
  return checked;
}

} // namespace histo
