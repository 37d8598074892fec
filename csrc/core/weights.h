// Weights: what a bin keeps of those that fall into it. Sums of floats are exact: the digits of a
// long accumulator (exact_sum.h), and behind them how many weights were NaN, infinity and -infinity.
// Sums of integers are one number of 64 bits, which wraps.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/exact_sum.h"
#include "core/numbers.h"
#include "core/problem.h"

namespace histo {

/// The counts of weights that are not finite, behind the digits.
enum NonFinite { kNaNs, kInfinities, kNegativeInfinities, kNumNonFinite };

/// The numbers that a bin keeps.
struct SumLayout {
  int digits;
  int lowest; // the exponent of the lowest bit
  int counts; // of weights that are not finite

  constexpr int size() const {
    return digits + counts;
  }
};

constexpr SumLayout sum_layout(ElementType weight) {
  if (is_integer(weight)) {
    return {1, 0, 0};
  }
  const DigitLayout sum = layout_of_sum(weight);
  return {sum.size, sum.lowest, kNumNonFinite};
}

/// Whether each channel has one weight, which its elements share. A channel without elements has
/// none.
inline bool has_one_weight_a_channel(const View& weights) {
  for (const Extent& loop : weights.rows) {
    if (loop.size != 1 && loop.stride != 0) {
      return false;
    }
  }
  return weights.num_rows() > 0;
}

/// The layout for weights of type T.
template <class T>
constexpr SumLayout kSumLayout = sum_layout(kSumType<T>);

/// The layout of a size, for host code. It has no digits if no type of weights has that size.
constexpr SumLayout sum_layout_of_size(int64_t size) {
  constexpr ElementType kTypes[] = {
      ElementType::kInt64, ElementType::kFloat16, ElementType::kFloat32, ElementType::kFloat64};
  for (const ElementType type : kTypes) {
    if (sum_layout(type).size() == size) {
      return sum_layout(type);
    }
  }
  return {0, 0, 0};
}

/// The scale of floats in sums. A number whose exponent is 1 is its significand *
/// 2^(kOrigin + lowest), by the lowest bit of the type's sums. Each step of the exponent doubles it.
/// The exponent 0 has the scale of 1, and a significand without the first bit.
template <class T>
constexpr int kOrigin = 1 - FloatBits<T>::kBias - FloatBits<T>::kFraction - kSumLayout<T>.lowest;

/// A weight taken apart. A finite one is +-significand * 2^(position + lowest).
struct WeightParts {
  uint64_t significand;
  int position;
  bool is_negative;
  bool is_finite;
  NonFinite kind; // of one that is not finite
};

template <class T>
HISTO_HOST_DEVICE WeightParts parts_of_weight(T weight) {
  using Format = FloatBits<T>;
  using Bits = typename Format::Bits;
  const auto bits = bits_as<Bits>(weight);
  const auto magnitude = static_cast<Bits>(bits & (Format::kSign - 1));
  const auto exponent = static_cast<int>(magnitude >> Format::kFraction);
  const uint64_t fraction = magnitude & ((uint64_t{1} << Format::kFraction) - 1);
  WeightParts parts{};
  parts.is_negative = (bits & Format::kSign) != 0;
  parts.is_finite = magnitude < Format::kInfinity;
  if (!parts.is_finite) {
    const bool is_infinite = Format::kHasInfinity && magnitude == Format::kInfinity;
    parts.kind = !is_infinite ? kNaNs : parts.is_negative ? kNegativeInfinities : kInfinities;
    return parts;
  }
  parts.significand = exponent == 0 ? fraction : fraction | uint64_t{1} << Format::kFraction;
  parts.position = kOrigin<T> + (exponent == 0 ? 0 : exponent - 1);
  return parts;
}

/// Calls add(i, number) so that the numbers of a bin become those with one weight more.
template <class T, class Add>
HISTO_HOST_DEVICE void add_weight(T weight, const Add& add) {
  if constexpr (!Number<T>::kIsFloat) {
    add(0, static_cast<int64_t>(Number<T>::wide(weight)));
  } else {
    const WeightParts parts = parts_of_weight(weight);
    if (parts.is_finite) {
      add_by_digits(parts.position, parts.significand, parts.is_negative, add);
    } else {
      add(kSumLayout<T>.digits + parts.kind, 1);
    }
  }
}

/// The same for `count` weights that are equal.
template <class T, class Add>
HISTO_HOST_DEVICE void add_equal_weights(T weight, int64_t count, const Add& add) {
  if constexpr (!Number<T>::kIsFloat) {
    const auto number = static_cast<uint64_t>(Number<T>::wide(weight));
    add(0, static_cast<int64_t>(number * static_cast<uint64_t>(count)));
  } else {
    constexpr int kLast = kSumLayout<T>.digits - 1;
    const WeightParts parts = parts_of_weight(weight);
    if (!parts.is_finite) {
      add(kLast + 1 + parts.kind, count);
      return;
    }
    const auto factor = static_cast<uint64_t>(count);
    for (int i = 0; i < 2; ++i) {
      for (int j = 0; j < 2; ++j) {
        const uint64_t of_weight = parts.significand >> (kDigitBits * i) & kDigitMask;
        const uint64_t of_count = factor >> (kDigitBits * j) & kDigitMask;
        if (of_weight * of_count == 0) {
          continue;
        }
        add_by_digits(
            parts.position + kDigitBits * (i + j), of_weight * of_count, parts.is_negative,
            [&](int digit, int64_t number) { // the last digit holds what is above it, too
              digit <= kLast ? add(digit, number) : add(kLast, number * (int64_t{1} << kDigitBits));
            });
      }
    }
  }
}

/// Adds numbers of 64 bits, which wrap.
HISTO_HOST_DEVICE int64_t wrapping_sum(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

/// Makes the digits of a bin canonical. An integer is.
HISTO_HOST_DEVICE void normalize_sum(int64_t* sum, const SumLayout& layout) {
  if (layout.digits > 1) {
    normalize(sum, layout.digits);
  }
}

/// Writes the numbers of a bin that has `count` equal weights. The digits are canonical.
template <class T>
HISTO_HOST_DEVICE void put_equal_weights(T weight, int64_t count, int64_t* sum) {
  constexpr SumLayout kLayout = kSumLayout<T>;
  for (int i = 0; i < kLayout.size(); ++i) {
    sum[i] = 0;
  }
  add_equal_weights(weight, count, [&](int i, int64_t number) { sum[i] += number; });
  normalize_sum(sum, kLayout);
}

/// The sum of floats of a bin whose digits are canonical, rounded once, as IEEE additions of NaN and
/// infinities would have it.
HISTO_HOST_DEVICE double round_sum(const int64_t* sum, const SumLayout& layout) {
  const int64_t* counts = sum + layout.digits;
  const bool has_infinity = counts[kInfinities] != 0;
  const bool has_negative = counts[kNegativeInfinities] != 0;
  if (counts[kNaNs] != 0 || (has_infinity && has_negative)) {
    return bits_as<double>(uint64_t{0x7ff8000000000000});
  }
  if (has_infinity || has_negative) {
    return bits_as<double>(
        has_infinity ? uint64_t{0x7ff0000000000000} : uint64_t{0xfff0000000000000});
  }
  return round_digits(sum, layout.digits, layout.lowest);
}

} // namespace histo
