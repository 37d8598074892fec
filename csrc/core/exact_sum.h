// Exact sums. A long accumulator is a fixed-point number that every value of a type fits into,
// and 2^63 of them added. So nothing rounds, and the order of the values does not matter.
//
// It is an array of digits. Digit i counts multiples of 2^(32 i + lowest). Each digit is kept in 64
// bits, so additions need no carries: they are made by `normalize`. Then digits are canonical: the
// last one has the sign, and all others are from 0 to 2^32 - 1.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/axis.h"
#include "core/numbers.h"
#include "core/problem.h"

namespace histo {

constexpr int kDigitBits = 32;
constexpr int64_t kDigitMask = 0xffffffff;

/// After so many additions to a digit it must be normalized, or it may overflow.
constexpr int64_t kMostAdditions = int64_t{1} << 30;

struct DigitLayout {
  int size;   // number of digits
  int lowest; // the exponent of the lowest bit
};

/// The accumulator for sums of values of a type.
constexpr DigitLayout layout_of_sum(ElementType type) {
  switch (type) {
    case ElementType::kFloat64:
      return {67, -1074};
    case ElementType::kFloat32:
    case ElementType::kBFloat16:
      return {10, -149};
    case ElementType::kFloat16:
    case ElementType::kFloat8E4M3:
    case ElementType::kFloat8E5M2:
      return {3, -24};
    default:
      return {4, 0};
  }
}

/// The one for sums of their squares.
constexpr DigitLayout layout_of_squares(ElementType type) {
  const DigitLayout values = layout_of_sum(type);
  return {2 * values.size, 2 * values.lowest};
}

/// A type whose accumulator those of T use.
template <class T>
constexpr ElementType kSumType = [] {
  if constexpr (std::is_same_v<T, double>) {
    return ElementType::kFloat64;
  } else if constexpr (std::is_same_v<T, float> || std::is_same_v<T, BFloat16>) {
    return ElementType::kFloat32;
  } else if constexpr (Number<T>::kIsFloat) {
    return ElementType::kFloat16;
  } else {
    return ElementType::kInt64;
  }
}();

/// The digits of the sum of values and of the sum of squares, together.
constexpr int num_digits(ElementType type) {
  return layout_of_sum(type).size + layout_of_squares(type).size;
}

/// Calls add(digit, number) so that digits sum up to magnitude * 2^(position + lowest), or to the
/// negative of it. The position is at least 0.
template <class Add>
HISTO_HOST_DEVICE void add_by_digits(
    int position, uint64_t magnitude, bool is_negative, const Add& add) {
  const int shift = position % kDigitBits;
  const uint64_t low = magnitude << shift;
  const uint64_t high = shift == 0 ? 0 : magnitude >> (64 - shift);
  const int64_t sign = is_negative ? -1 : 1;
  const int digit = position / kDigitBits;
  add(digit, sign * static_cast<int64_t>(low & kDigitMask));
  add(digit + 1, sign * static_cast<int64_t>(low >> kDigitBits));
  if (high != 0) { // otherwise there may be no third digit
    add(digit + 2, sign * static_cast<int64_t>(high));
  }
}

/// Adds magnitude * 2^(position + lowest), or subtracts it. The position is at least 0.
HISTO_HOST_DEVICE void add_at(int64_t* digits, int position, uint64_t magnitude, bool is_negative) {
  add_by_digits(position, magnitude, is_negative, [&](int digit, int64_t number) {
    digits[digit] += number;
  });
}

/// Adds a finite number. Its lowest bit that is set is at least 2^lowest.
HISTO_HOST_DEVICE void add_double(int64_t* digits, int lowest, double value) {
  constexpr int kFractionBits = 52;
  const auto bits = bits_as<uint64_t>(value);
  const auto field = static_cast<int>((bits >> kFractionBits) & 0x7ff);
  const uint64_t fraction = bits & ((uint64_t{1} << kFractionBits) - 1);
  const uint64_t magnitude = field == 0 ? fraction : fraction | (uint64_t{1} << kFractionBits);
  if (magnitude == 0) {
    return;
  }
  const int position = (field == 0 ? 1 : field) - 1075 - lowest;
  const bool is_negative = bits >> 63 != 0;
  if (position >= 0) {
    add_at(digits, position, magnitude, is_negative);
  } else { // the bits below `lowest` are not set
    add_at(digits, 0, magnitude >> -position, is_negative);
  }
}

/// Makes digits canonical.
HISTO_HOST_DEVICE void normalize(int64_t* digits, int size) {
  int64_t carry = 0;
  for (int i = 0; i < size - 1; ++i) {
    const int64_t digit = digits[i] + carry;
    digits[i] = digit & kDigitMask;
    carry = digit >> kDigitBits;
  }
  digits[size - 1] += carry;
}

/// Adds canonical digits to others. At most kMostAdditions can be added before `normalize`.
HISTO_HOST_DEVICE void add_digits(int64_t* digits, const int64_t* others, int size) {
  for (int i = 0; i < size; ++i) {
    digits[i] += others[i];
  }
}

/// The magnitude of canonical digits, digit by digit. It has one digit more than they are, because
/// the last one has up to 63 bits.
class MagnitudeDigits {
 public:
  HISTO_HOST_DEVICE MagnitudeDigits(const int64_t* digits, int size)
      : digits_(digits), size_(size), first_(0), is_negative_(digits[size - 1] < 0) {
    while (first_ < size - 1 && digits[first_] == 0) {
      ++first_;
    }
  }
  HISTO_HOST_DEVICE bool is_negative() const {
    return is_negative_;
  }
  /// The first digit that is not 0, if any is not.
  HISTO_HOST_DEVICE int first() const {
    return first_;
  }
  HISTO_HOST_DEVICE int size() const {
    return size_ + 1;
  }
  HISTO_HOST_DEVICE uint32_t operator[](int i) const {
    if (i < first_) {
      return 0;
    }
    const int last = size_ - 1;
    uint64_t digit = static_cast<uint64_t>(digits_[i < last ? i : last]);
    if (is_negative_) { // the complement, and 1 more for the first digit
      digit = ~digit + ((i < last ? i : last) == first_ ? 1 : 0);
    }
    return static_cast<uint32_t>(i > last ? digit >> kDigitBits : digit);
  }

 private:
  const int64_t* digits_;
  int size_;
  int first_;
  bool is_negative_;
};

/// The float64 that is nearest to a number, the even one of two: +-(top + a part) * 2^exponent. The
/// highest bit of `top` is set. The part is 0, or above 0 and below 1 if `has_more`. It is made of
/// its bits, so that no mode of the processor matters.
HISTO_HOST_DEVICE double round_once(
    bool is_negative, uint64_t top, bool has_more, int64_t exponent) {
  constexpr int kLowestNormal = -1022;
  const uint64_t sign = is_negative ? uint64_t{1} << 63 : 0;
  const int64_t scale = exponent + 63; // of the highest bit
  if (scale > 1023) {
    return bits_as<double>(sign | 0x7ff0000000000000);
  }
  // A subnormal number has fewer bits.
  const int64_t kept = scale >= kLowestNormal ? 53 : 53 - (kLowestNormal - scale);
  if (kept < 0) {
    return bits_as<double>(sign);
  }
  const auto dropped = static_cast<int>(64 - kept); // 11 to 64
  uint64_t fraction = dropped == 64 ? 0 : top >> dropped;
  const uint64_t rest = dropped == 64 ? top : top & ((uint64_t{1} << dropped) - 1);
  const uint64_t half = uint64_t{1} << (dropped - 1);
  const bool is_odd = (fraction & 1) != 0;
  fraction += rest > half || (rest == half && (has_more || is_odd)) ? 1 : 0;
  // The first bit of a normal number's fraction adds 1 to the exponent, and a carry another.
  const uint64_t field =
      scale >= kLowestNormal ? static_cast<uint64_t>(scale - kLowestNormal) << 52 : 0;
  return bits_as<double>(sign | (field + fraction));
}

/// The zeros before the first bit of a number, which is not 0.
HISTO_HOST_DEVICE int leading_zeros(uint32_t number) {
#ifdef __CUDA_ARCH__
  return __clz(static_cast<int>(number));
#else
  return __builtin_clz(number);
#endif
}

/// Canonical digits as float64: rounded once, to nearest even. Zero is +0.
HISTO_HOST_DEVICE double round_digits(const int64_t* digits, int size, int lowest) {
  const MagnitudeDigits magnitude(digits, size);
  int last = magnitude.size() - 1;
  while (last > 0 && magnitude[last] == 0) {
    --last;
  }
  if (magnitude[last] == 0) {
    return 0;
  }
  // The highest bit moves to the top of 64, in at most three digits.
  const uint32_t first = magnitude[last];
  const uint32_t second = last > 0 ? magnitude[last - 1] : 0;
  const uint32_t third = last > 1 ? magnitude[last - 2] : 0;
  const int shift = leading_zeros(first);
  const uint64_t two = (uint64_t{first} << kDigitBits | second) << shift;
  const uint64_t top = two | (uint64_t{third} << shift) >> kDigitBits;
  bool has_more = static_cast<uint32_t>(third << shift) != 0;
  has_more = has_more || magnitude.first() < last - 2;
  const int64_t exponent = int64_t{last - 1} * kDigitBits - shift + lowest;
  return round_once(magnitude.is_negative(), top, has_more, exponent);
}

} // namespace histo
