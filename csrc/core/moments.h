// Mean and variance from exact sums, for host and device: each is rounded once.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "core/exact_sum.h"

namespace histo {

/// Each is the float64 nearest to the exact number.
struct Moments {
  double mean; // NaN for no value
  double var;  // of torch.var: NaN for fewer than two values
  double std;  // right also where float64 cannot hold the variance
  double sum;
  double sum_of_squares;
};

constexpr int64_t kMoments = 5;

/// The results of a summary. A count or number of all channels comes before the next one.
struct Summary {
  int64_t* counts; // [kSummaryCounts, channels]
  double* numbers; // [kSummaryNumbers, channels]
  int64_t* digits; // [channels, digits of the sum, of the sum of squares], canonical; or null
};
/// Elements, NaN, infinities and zeros.
constexpr int64_t kSummaryCounts = 4;
/// The extremes of the finite values, rounded outwards, and then their moments. NaN stands for the
/// extremes of no value.
constexpr int64_t kSummaryNumbers = 2 + kMoments;

// CUDA has no name for this type, but the compiler of every host has it.
using UInt128 = unsigned __int128;
using Int128 = __int128;

/// The leading digits of a natural number whose digits come one by one, the lowest first. So many
/// are kept that a quotient has 128 bits.
class LeadingDigits {
 public:
  static constexpr int kSize = 9;

  HISTO_HOST_DEVICE void push(uint32_t digit) {
    if (digit == 0) { // there may be no higher one
      ++zeros_;
      return;
    }
    for (; zeros_ > 0; --zeros_) {
      shift(0);
    }
    shift(digit);
  }
  HISTO_HOST_DEVICE bool is_zero() const {
    return size_ == 0;
  }
  /// The highest first; 0s follow if there are fewer.
  HISTO_HOST_DEVICE uint32_t operator[](int i) const {
    return digits_[i];
  }
  /// How many digits there are, with those that are not kept.
  HISTO_HOST_DEVICE int size() const {
    return size_;
  }
  /// Whether a digit that is not kept is not 0.
  HISTO_HOST_DEVICE bool has_more() const {
    return has_more_;
  }

 private:
  HISTO_HOST_DEVICE void shift(uint32_t digit) {
    has_more_ = has_more_ || digits_[kSize - 1] != 0;
    for (int i = kSize - 1; i > 0; --i) {
      digits_[i] = digits_[i - 1];
    }
    digits_[0] = digit;
    ++size_;
  }

  uint32_t digits_[kSize] = {};
  int size_ = 0;
  int zeros_ = 0; // that came last
  bool has_more_ = false;
};

/// (bits + a part) * 2^exponent. The highest bit is set. The part is 0, or above 0 and below 1 if
/// `has_more`.
struct LeadingBits {
  UInt128 bits;
  int64_t exponent;
  bool has_more;

  HISTO_HOST_DEVICE double rounded(bool is_negative) const {
    const auto low = static_cast<uint64_t>(bits);
    return round_once(
        is_negative, static_cast<uint64_t>(bits >> 64), has_more || low != 0, exponent + 64);
  }
};

/// Digits that are divided, the highest first.
class Quotient {
 public:
  static constexpr int kSize = LeadingDigits::kSize;

  HISTO_HOST_DEVICE explicit Quotient(const LeadingDigits& number) : has_more_(number.has_more()) {
    for (int i = 0; i < kSize; ++i) {
      digits_[i] = number[i];
    }
  }
  HISTO_HOST_DEVICE void divide(uint64_t divisor) {
    if (divisor >> kDigitBits == 0) {
      divide_by_digit(static_cast<uint32_t>(divisor));
    } else {
      divide_by_two(divisor);
    }
  }
  /// `exponent` is that of the lowest bit of all digits that were not kept, and of those here. Up to
  /// four of the first digits are 0.
  HISTO_HOST_DEVICE LeadingBits leading(int64_t exponent) const {
    uint32_t digits[kSize];
    int left_out = 0;
    for (int i = 0; i < kSize; ++i) {
      digits[i] = digits_[i];
    }
    while (digits[0] == 0 && left_out < kSize) {
      for (int i = 0; i < kSize - 1; ++i) {
        digits[i] = digits[i + 1];
      }
      digits[kSize - 1] = 0;
      ++left_out;
    }
    const int zeros = digits[0] == 0 ? 0 : leading_zeros(digits[0]);
    UInt128 bits = UInt128{digits[0]} << 96 | UInt128{digits[1]} << 64;
    bits |= UInt128{digits[2]} << 32 | digits[3];
    const uint64_t next = uint64_t{digits[4]} << zeros;
    bits = bits << zeros | next >> kDigitBits;
    bool has_more = has_more_ || static_cast<uint32_t>(next) != 0;
    for (int i = 5; i < kSize; ++i) {
      has_more = has_more || digits[i] != 0;
    }
    return {bits, exponent + int64_t{kSize - 4 - left_out} * kDigitBits - zeros, has_more};
  }

 private:
  HISTO_HOST_DEVICE void divide_by_digit(uint32_t divisor) {
    // A GPU has no instruction for it. This guess is wrong by 1 at most.
    const double part_of_one = 1.0 / divisor;
    uint64_t rest = 0;
    for (int i = 0; i < kSize; ++i) {
      const uint64_t part = rest << kDigitBits | digits_[i];
      auto guess = static_cast<uint64_t>(static_cast<double>(part) * part_of_one);
      if (guess * divisor > part) {
        --guess;
      } else if (part - guess * divisor >= divisor) {
        ++guess;
      }
      digits_[i] = static_cast<uint32_t>(guess);
      rest = part - guess * divisor;
    }
    has_more_ = has_more_ || rest != 0;
  }
  HISTO_HOST_DEVICE void divide_by_two(uint64_t divisor) {
    uint64_t rest = 0;
    for (int i = 0; i < kSize; ++i) {
      const UInt128 part = UInt128{rest} << kDigitBits | digits_[i];
      const auto digit = static_cast<uint32_t>(part / divisor);
      digits_[i] = digit;
      rest = static_cast<uint64_t>(part - UInt128{digit} * divisor);
    }
    has_more_ = has_more_ || rest != 0;
  }

  uint32_t digits_[kSize];
  bool has_more_;
};

/// a / (b * c) for a > 0. `exponent` is that of the lowest bit of `a`. Two divisions that round down
/// are as one by the product.
HISTO_HOST_DEVICE LeadingBits
quotient(const LeadingDigits& a, int64_t exponent, uint64_t b, uint64_t c) {
  Quotient quotient(a);
  quotient.divide(b);
  if (c != 1) {
    quotient.divide(c);
  }
  return quotient.leading(exponent + int64_t{a.size() - Quotient::kSize} * kDigitBits);
}

/// The largest integer whose square is at most x, for x of at least 2^126.
HISTO_HOST_DEVICE uint64_t square_root(UInt128 x) {
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  const double near = sqrt(
      static_cast<double>(static_cast<uint64_t>(x >> 64)) * 0x1p64 +
      static_cast<double>(static_cast<uint64_t>(x)));
  uint64_t root = near < 0x1p64 ? static_cast<uint64_t>(near) : kMost;
  // Newton. What is missing has fewer than 80 bits, of which the upper ones suffice.
  const auto missing = static_cast<Int128>(x - UInt128{root} * root);
  const double more = static_cast<double>(static_cast<int64_t>(missing >> 32)) * 0x1p31 / near;
  const auto better = static_cast<Int128>(root) + static_cast<int64_t>(more);
  root = better < static_cast<Int128>(kMost) ? static_cast<uint64_t>(better) : kMost;
  while (UInt128{root} * root > x) {
    --root;
  }
  while (root < kMost && UInt128{root + 1} * (root + 1) <= x) {
    ++root;
  }
  return root;
}

HISTO_HOST_DEVICE double rounded_root(LeadingBits square) {
  if (square.exponent % 2 != 0) {
    square.has_more = square.has_more || (square.bits & 1) != 0;
    square.bits >>= 1;
    ++square.exponent;
  }
  const uint64_t root = square_root(square.bits);
  const bool has_more = square.has_more || UInt128{root} * root != square.bits;
  return round_once(false, root, has_more, square.exponent / 2);
}

/// The canonical digits of a sum of values, and those of the sum of their squares behind them.
class SumDigits {
 public:
  HISTO_HOST_DEVICE SumDigits(const int64_t* digits, DigitLayout of_sum, DigitLayout of_squares)
      : digits_(digits), of_sum_(of_sum), of_squares_(of_squares) {
  }
  HISTO_HOST_DEVICE double sum() const {
    return round_digits(digits_, of_sum_.size, of_sum_.lowest);
  }
  HISTO_HOST_DEVICE double sum_of_squares() const {
    return round_digits(digits_ + of_sum_.size, of_squares_.size, of_squares_.lowest);
  }
  HISTO_HOST_DEVICE double mean(int64_t number) const {
    const MagnitudeDigits sum(digits_, of_sum_.size);
    LeadingDigits leading;
    for (int i = sum.first(); i < sum.size(); ++i) {
      leading.push(sum[i]);
    }
    if (leading.is_zero()) {
      return 0;
    }
    const int64_t exponent = of_sum_.lowest + int64_t{sum.first()} * kDigitBits;
    return quotient(leading, exponent, static_cast<uint64_t>(number), 1).rounded(sum.is_negative());
  }
  /// There must be two values or more.
  HISTO_HOST_DEVICE void var_and_std(int64_t number, double& var, double& std) const {
    const auto count = static_cast<uint64_t>(number);
    int lowest = 0;
    const LeadingDigits spread = spread_of(count, lowest);
    if (spread.is_zero()) {
      var = std = 0;
      return;
    }
    const int64_t exponent = of_squares_.lowest + int64_t{lowest} * kDigitBits;
    const LeadingBits exact = quotient(spread, exponent, count, count - 1);
    var = exact.rounded(false);
    std = rounded_root(exact);
  }

 private:
  /// count * sum of squares - sum^2. Digit k of both has the same place.
  HISTO_HOST_DEVICE LeadingDigits spread_of(uint64_t count, int& lowest) const {
    const MagnitudeDigits sum(digits_, of_sum_.size);
    const MagnitudeDigits squares(digits_ + of_sum_.size, of_squares_.size);
    const auto count_low = static_cast<uint32_t>(count);
    const auto count_high = static_cast<uint32_t>(count >> kDigitBits);
    int last = sum.size() - 1;
    while (last > sum.first() && sum[last] == 0) {
      --last;
    }
    lowest = 2 * sum.first() < squares.first() ? 2 * sum.first() : squares.first();
    int end = squares.size();
    while (end > 0 && squares[end - 1] == 0) {
      --end;
    }
    end += 2; // digits of the count
    end = end > 2 * last + 2 ? end : 2 * last + 2;
    LeadingDigits leading;
    Int128 digit = 0;
    for (int k = lowest; k < end; ++k) {
      digit += k < squares.size() ? uint64_t{count_low} * squares[k] : 0;
      digit += k > 0 && k <= squares.size() ? uint64_t{count_high} * squares[k - 1] : 0;
      const int from = k - last > sum.first() ? k - last : sum.first();
      for (int i = from; i <= last && i <= k - sum.first(); ++i) {
        digit -= uint64_t{sum[i]} * sum[k - i];
      }
      leading.push(static_cast<uint32_t>(digit));
      digit >>= kDigitBits;
    }
    return leading;
  }

  const int64_t* digits_;
  DigitLayout of_sum_;
  DigitLayout of_squares_;
};

/// `digits` are canonical: those of the sum of `number` values, and those of the sum of squares.
HISTO_HOST_DEVICE Moments moments_of(const SumDigits& digits, int64_t number) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  Moments moments{kNaN, kNaN, kNaN, 0, 0};
  if (number > 0) {
    moments.sum = digits.sum();
    moments.sum_of_squares = digits.sum_of_squares();
    moments.mean = digits.mean(number);
  }
  if (number > 1) {
    digits.var_and_std(number, moments.var, moments.std);
  }
  return moments;
}

} // namespace histo
