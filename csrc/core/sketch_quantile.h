// The quantile of a sketch, from where its rank lies among the counts. CPU and CUDA have the same
// bits: each operation rounds once.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "core/numbers.h"
#include "core/rounded.h"
#include "core/sketch.h"

namespace histo {

struct WholeAndPart {
  int64_t whole;
  double part; // from 0 up to 1
};

/// q * last. Up to 2^53 it is the product in double. That has not all integers beyond: integers are
/// multiplied there, by the first 31 bits of q and by the rest. The result is right within 2^-20.
HISTO_HOST_DEVICE WholeAndPart product_of_rank(double q, int64_t last) {
  if (last <= int64_t{1} << 53) {
    const double rank = rounded_product(static_cast<double>(last), q), whole = std::floor(rank);
    return {static_cast<int64_t>(whole), rank - whole};
  }
  constexpr int64_t kLow = (int64_t{1} << 31) - 1;
  const int64_t high = last >> 31, low = last & kLow;
  const double scaled = rounded_product(q, 0x1p31);
  const auto steps = static_cast<int64_t>(scaled);
  const double rest = scaled - static_cast<double>(steps);
  const int64_t low_steps = low * steps;
  const double of_steps = static_cast<double>(low_steps & kLow);
  const double of_low = rounded_product(
      rounded_sum(rounded_product(static_cast<double>(low), rest), of_steps), 0x1p-31);
  const double fraction = rounded_sum(rounded_product(static_cast<double>(high), rest), of_low);
  const double carry = std::floor(fraction);
  return {high * steps + (low_steps >> 31) + static_cast<int64_t>(carry), fraction - carry};
}

/// The integer nearest to q * last; half goes to the even one.
HISTO_HOST_DEVICE int64_t nearest_rank(double q, int64_t last) {
  const WholeAndPart product = product_of_rank(q, last);
  const bool is_odd = product.whole % 2 == 1;
  return product.whole + (product.part > 0.5 || (product.part == 0.5 && is_odd) ? 1 : 0);
}

/// The value of a count: of those from the one of -inf to the one of +inf. Huge ones are the largest
/// float64.
HISTO_HOST_DEVICE double sketch_value(const SketchBins& bins, double place, int64_t index) {
  const int64_t from_zero = index - bins.zero();
  const int64_t steps = (from_zero < 0 ? -from_zero : from_zero) - 2;
  const int shift = static_cast<int>(52 - bins.bits);
  const auto edge = [&](int64_t step) {
    const int64_t bits = ((bins.first + 1023) * (int64_t{1} << bins.bits) + step) << shift;
    return bits_as<double>(bits);
  };
  double value;
  if (steps < 0) {
    value = steps == -2 ? 0 : edge(0) / 2;
  } else if (steps < bins.in_span()) {
    const double width = edge(steps + 1) - edge(steps);
    value = rounded_sum(edge(steps), rounded_product(width, place));
  } else {
    value = steps == bins.in_span() ? std::numeric_limits<double>::max()
                                    : std::numeric_limits<double>::infinity();
  }
  return from_zero < 0 ? -value : value;
}

/// Sums of the counts of a channel, without NaN.
struct SketchTotals {
  int64_t all;
  int64_t below_finite; // -inf
  int64_t upto_finite;  // all but +inf
};

/// Whether there is a quantile: if not, it is NaN.
HISTO_HOST_DEVICE bool has_quantile(double q, int64_t all) {
  return q >= 0 && q <= 1 && all > 0;
}

/// The quantile of a rank in a bin: the bin's value, but none beyond the extremes, and the extremes
/// themselves for the first and the last finite rank.
HISTO_HOST_DEVICE double quantile_at(
    const SketchQuantiles& call,
    int64_t channel,
    const SketchTotals& totals,
    int64_t rank,
    int64_t index) {
  const double found = sketch_value(call.bins, call.place, index);
  if (bits_as<uint64_t>(found) << 1 == uint64_t{FloatKey::kInfinity} << 1) {
    return found;
  }
  const int64_t low = call.state.min_key[channel], high = call.state.max_key[channel];
  int64_t key = FloatKey::of_bits(bits_as<uint64_t>(found));
  key = key < low ? low : key;
  key = key > high ? high : key;
  key = rank <= totals.below_finite ? low : key;
  key = rank >= totals.upto_finite - 1 ? high : key;
  return bits_as<double>(FloatKey::bits(key));
}

} // namespace histo
