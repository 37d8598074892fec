// Exact quantiles: what a backend selects, and the definition of ranks and of the values' order.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/numbers.h"
#include "core/problem.h"
#include "core/rounded.h"

namespace histo {

enum class Interpolation : uint8_t { kLinear, kLower, kHigher, kMidpoint, kNearest };

/// For each q and channel, the two values between which the quantile lies, and the weight of the
/// second. All memory is on the device of the data.
struct Selection {
  Problem problem;    // with at least one channel and one row; without counts
  const double* q;    // [num_q]
  int64_t num_q;      // at least 1
  bool float64_ranks; // ranks are computed in double, or else in float
  Interpolation interpolation;
  bool ignore_nan;
  void* below;   // [num_q, channels], in the type of the data
  void* above;   // the same
  void* weights; // [num_q, channels], double or float, as ranks are

  HISTO_HOST_DEVICE void put_weight(int64_t at, double weight) const {
    if (float64_ranks) {
      static_cast<double*>(weights)[at] = weight;
    } else {
      static_cast<float*>(weights)[at] = static_cast<float>(weight);
    }
  }
};

/// How many values of a q may differ: two if it may lie between them.
HISTO_HOST_DEVICE unsigned values_of_q(Interpolation rule) {
  return rule == Interpolation::kLinear || rule == Interpolation::kMidpoint ? 2 : 1;
}

/// The ranks of one q of one channel. They count from 0, among the values that are not NaN.
struct Ranks {
  bool is_nan; // there is no quantile: both values are NaN (integers: any), and so is the weight
  int64_t below;
  int64_t above;
  double weight; // exact in float, too, where ranks are
};

template <class R>
HISTO_HOST_DEVICE double rank_of(double q, int64_t values) {
  return rounded_product(static_cast<R>(q), static_cast<R>(values - 1));
}

/// The rule of torch.quantile (quantile_impl in aten/src/ATen/native/Sorting.cpp). `rows`: all
/// values of the channel; `nans`: how many of them are NaN.
HISTO_HOST_DEVICE Ranks ranks_of(const Selection& selection, double q, int64_t rows, int64_t nans) {
  const int64_t values = rows - nans;
  if (!(q >= 0 && q <= 1) || (selection.ignore_nan ? values == 0 : nans > 0)) {
    return {true, 0, 0, std::numeric_limits<double>::quiet_NaN()};
  }
  const double rank =
      selection.float64_ranks ? rank_of<double>(q, values) : rank_of<float>(q, values);
  const double floor = std::floor(rank), ceil = std::ceil(rank);
  const auto both = [](double whole) {
    return Ranks{false, static_cast<int64_t>(whole), static_cast<int64_t>(whole), 0};
  };
  switch (selection.interpolation) {
    case Interpolation::kLower:
      return both(floor);
    case Interpolation::kHigher:
      return both(ceil);
    case Interpolation::kNearest:
      return both(std::rint(rank));
    case Interpolation::kMidpoint:
      return {false, static_cast<int64_t>(floor), static_cast<int64_t>(ceil), 0.5};
    case Interpolation::kLinear:
      break;
  }
  return {false, static_cast<int64_t>(floor), static_cast<int64_t>(ceil), rank - floor};
}

/// The order of a type's values as unsigned integers of its size. -0 has the key of +0, and every
/// NaN the largest key.
template <class T, class = void>
struct SortKey {
  // Floats.
  using Key = typename FloatBits<T>::Bits;
  static constexpr bool kHasNan = true;
  static constexpr Key kNan = std::numeric_limits<Key>::max();
  static constexpr Key kSign = FloatBits<T>::kSign;
  /// The magnitude of the largest number.
  static constexpr Key kLargest = static_cast<Key>(Number<T>::kLast);

  HISTO_HOST_DEVICE static Key of(T value) {
    return of_bits(bits_as<Key>(value));
  }
  HISTO_HOST_DEVICE static Key of_bits(Key bits) {
    const auto magnitude = static_cast<Key>(bits & ~kSign);
    const Key key =
        bits & kSign ? static_cast<Key>(kSign - magnitude) : static_cast<Key>(kSign + magnitude);
    return magnitude > kLargest ? kNan : key;
  }
  HISTO_HOST_DEVICE static T value(Key key) {
    // All bits but the sign are a NaN of every float.
    return bits_as<T>(
        key == kNan    ? static_cast<Key>(kSign - 1)
        : key >= kSign ? static_cast<Key>(key - kSign)
                       : static_cast<Key>((kSign - key) | kSign));
  }
};

template <class T>
struct SortKey<T, std::enable_if_t<std::is_integral_v<T>>> {
  using Key = std::make_unsigned_t<T>;
  static constexpr bool kHasNan = false;
  static constexpr Key kSign =
      std::is_signed_v<T> ? static_cast<Key>(Key{1} << (8 * sizeof(T) - 1)) : Key{0};

  HISTO_HOST_DEVICE static Key of(T value) {
    return static_cast<Key>(static_cast<Key>(value) ^ kSign);
  }
  HISTO_HOST_DEVICE static T value(Key key) {
    return static_cast<T>(static_cast<Key>(key ^ kSign));
  }
};

template <>
struct SortKey<Boolean> {
  using Key = uint8_t;
  static constexpr bool kHasNan = false;

  HISTO_HOST_DEVICE static uint8_t of(Boolean value) {
    return value.byte != 0;
  }
  HISTO_HOST_DEVICE static Boolean value(uint8_t key) {
    return {key};
  }
};

} // namespace histo
