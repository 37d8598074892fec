// The bins of a quantile sketch: floats that begin with the same bits.
#pragma once

#include <cstdint>

#include "core/axis.h"

namespace histo {

/// A bin has one sign, one exponent and one beginning of the fraction. The counts of a channel are
/// those of -inf, of the bins from huge negatives to huge positives, of +inf, and of NaN.
struct SketchBins {
  static constexpr int64_t kMostBits = 16;
  static constexpr int64_t kLeastExponent = -1022, kMostExponent = 1023;

  int64_t bits;  // of the fraction
  int64_t first; // exponents: magnitudes from 2^first up to 2^last, which is not in the span
  int64_t last;

  /// Bins in the span, of one sign.
  HISTO_HOST_DEVICE int64_t in_span() const {
    return (last - first) << bits;
  }
  HISTO_HOST_DEVICE int64_t num_counts() const {
    return 2 * in_span() + 8;
  }
  /// Which of the counts is that of zero.
  HISTO_HOST_DEVICE int64_t zero() const {
    return in_span() + 3;
  }
};

/// int64 in the order of float64, from its bits. Both zeros have the key 0.
struct FloatKey {
  static constexpr int64_t kInfinity = 0x7ff0000000000000;

  HISTO_HOST_DEVICE static int64_t of_bits(uint64_t bits) {
    return bits == kSign ? 0 : ordered(static_cast<int64_t>(bits));
  }
  HISTO_HOST_DEVICE static uint64_t bits(int64_t key) {
    return static_cast<uint64_t>(ordered(key));
  }
  static constexpr int64_t kMinusInfinity =
      static_cast<int64_t>(0xfff0000000000000 ^ 0x7fffffffffffffff);

 private:
  static constexpr uint64_t kSign = uint64_t{1} << 63;

  /// From bits to keys, and back: negatives have their order turned round.
  HISTO_HOST_DEVICE static int64_t ordered(int64_t bits) {
    return bits < 0 ? bits ^ static_cast<int64_t>(kSign - 1) : bits;
  }
};

/// The state of a sketch.
struct SketchState {
  int64_t* counts;  // [channels, num_counts]
  int64_t* min_key; // [channels]; +inf and -inf before the first finite value
  int64_t* max_key;
};

/// Quantiles of a sketch.
struct SketchQuantiles {
  SketchState state; // which is read
  int64_t channels;
  SketchBins bins;
  double place;    // in a bin, of its values: 0 is the end towards zero
  const double* q; // [num_q]
  int64_t num_q;
  double* found; // [num_q, channels]; NaN if a q is not from 0 to 1, or a channel is empty
};

} // namespace histo
