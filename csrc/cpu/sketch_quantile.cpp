// Quantiles of a sketch.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/numbers.h"
#include "cpu/float_mode.h"
#include "cpu/kernels.h"
#include "cpu/threads.h"
#include "cpu/tuning.h"

namespace histo::cpu {
namespace {

struct WholeAndPart {
  int64_t whole;
  double part; // from 0 up to 1
};

/// q * last. Up to 2^53 it is the product in double. That has not all integers beyond: integers are
/// multiplied there, by the first 31 bits of q and by the rest. The result is right within 2^-20.
WholeAndPart product(double q, int64_t last) {
  if (last <= int64_t{1} << 53) {
    const double rank = static_cast<double>(last) * q, whole = std::floor(rank);
    return {static_cast<int64_t>(whole), rank - whole};
  }
  constexpr int64_t kLow = (int64_t{1} << 31) - 1;
  const int64_t high = last >> 31, low = last & kLow;
  const double scaled = q * 0x1p31;
  const auto steps = static_cast<int64_t>(scaled);
  const double rest = scaled - static_cast<double>(steps);
  const int64_t low_steps = low * steps;
  const double of_low =
      (static_cast<double>(low) * rest + static_cast<double>(low_steps & kLow)) * 0x1p-31;
  const double fraction = static_cast<double>(high) * rest + of_low;
  const double carry = std::floor(fraction);
  return {high * steps + (low_steps >> 31) + static_cast<int64_t>(carry), fraction - carry};
}

/// The integer nearest to q * last; half goes to the even one.
int64_t nearest_rank(double q, int64_t last) {
  const auto [whole, part] = product(q, last);
  return whole + (part > 0.5 || (part == 0.5 && whole % 2 == 1));
}

/// The value of a count: of those from the one of -inf to the one of +inf. Huge ones are the largest
/// float64.
double value_of(const SketchBins& bins, double place, int64_t index) {
  const int64_t from_zero = index - bins.zero(), steps = std::abs(from_zero) - 2;
  const int shift = static_cast<int>(52 - bins.bits);
  const auto edge = [&](int64_t step) {
    const int64_t bits = ((bins.first + 1023) * (int64_t{1} << bins.bits) + step) << shift;
    return bits_as<double>(bits);
  };
  double value;
  if (steps < 0) {
    value = steps == -2 ? 0 : edge(0) / 2;
  } else if (steps < bins.in_span()) {
    value = edge(steps) + (edge(steps + 1) - edge(steps)) * place;
  } else {
    value = steps == bins.in_span() ? std::numeric_limits<double>::max()
                                    : std::numeric_limits<double>::infinity();
  }
  return from_zero < 0 ? -value : value;
}

/// `below`: the counts up to each one and with it, but that of NaN.
double quantile(
    const SketchQuantiles& call, int64_t channel, const std::vector<int64_t>& below, double q) {
  const int64_t total = below.back();
  if (!(q >= 0 && q <= 1) || total <= 0) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const int64_t rank = nearest_rank(q, total - 1);
  const auto at = std::upper_bound(below.begin(), below.end() - 1, rank) - below.begin();
  const double found = value_of(call.bins, call.place, at);
  if (std::isinf(found)) {
    return found;
  }
  const int64_t low = call.state.min_key[channel], high = call.state.max_key[channel];
  if (rank >= below[below.size() - 2] - 1) {
    return bits_as<double>(FloatKey::bits(high)); // the last finite one
  }
  if (rank <= below.front()) {
    return bits_as<double>(FloatKey::bits(low));
  }
  const int64_t key = FloatKey::of_bits(bits_as<uint64_t>(found));
  return bits_as<double>(FloatKey::bits(std::min(std::max(key, low), high)));
}

} // namespace

void sketch_quantiles(const SketchQuantiles& call) {
  const int64_t counts = call.bins.num_counts();
  const int64_t grain = std::max<int64_t>(1, tuning::kMinCountersPerTask / counts);
  parallel_for(call.channels, grain, [&](int64_t begin, int64_t end) {
    const ExactFloats exact;
    std::vector<int64_t> below(static_cast<size_t>(counts - 1));
    for (int64_t channel = begin; channel < end; ++channel) {
      const int64_t* first = call.state.counts + channel * counts;
      int64_t sum = 0;
      std::transform(
          first, first + counts - 1, below.begin(), [&](int64_t count) { return sum += count; });
      for (int64_t i = 0; i < call.num_q; ++i) {
        call.found[i * call.channels + channel] = quantile(call, channel, below, call.q[i]);
      }
    }
  });
}

} // namespace histo::cpu
