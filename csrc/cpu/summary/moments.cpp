#include "cpu/summary/moments.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace histo::cpu {
namespace {

using UInt128 = unsigned __int128;

/// A natural number: `size` digits, the lowest first, times 2^exponent. Zeros at both ends are
/// left out, so that the usual sums have three or four digits.
struct Natural {
  // The squares of float64, times a number of elements.
  static constexpr int kMost = 2 * 67 + 4;

  uint32_t digits[kMost];
  int size = 0;
  int exponent = 0;

  void trim() {
    int zeros = 0;
    while (size > 0 && digits[size - 1] == 0) {
      --size;
    }
    while (zeros < size && digits[zeros] == 0) {
      ++zeros;
    }
    if (zeros > 0) {
      std::copy(digits + zeros, digits + size, digits);
      size -= zeros;
      exponent += zeros * kDigitBits;
    }
  }
};

Natural magnitude_of(const int64_t* digits, const DigitLayout& layout) {
  const MagnitudeDigits all(digits, layout.size);
  Natural magnitude;
  magnitude.exponent = layout.lowest + all.first() * kDigitBits;
  for (int i = all.first(); i < all.size(); ++i) {
    magnitude.digits[magnitude.size++] = all[i];
  }
  magnitude.trim();
  return magnitude;
}

Natural natural_of(uint64_t number) {
  Natural natural;
  natural.digits[0] = static_cast<uint32_t>(number);
  natural.digits[1] = static_cast<uint32_t>(number >> kDigitBits);
  natural.size = 2;
  natural.trim();
  return natural;
}

Natural product(const Natural& a, const Natural& b) {
  Natural result;
  result.size = a.size + b.size;
  result.exponent = a.exponent + b.exponent;
  std::fill(result.digits, result.digits + result.size, 0);
  for (int i = 0; i < a.size; ++i) {
    uint64_t carry = 0;
    for (int k = 0; k < b.size; ++k) {
      carry += uint64_t{a.digits[i]} * b.digits[k] + result.digits[i + k];
      result.digits[i + k] = static_cast<uint32_t>(carry);
      carry >>= kDigitBits;
    }
    result.digits[i + b.size] = static_cast<uint32_t>(carry);
  }
  result.trim();
  return result;
}

/// a - b, which is not negative. The exponents differ by whole digits.
Natural difference(const Natural& a, const Natural& b) {
  if (b.size == 0) {
    return a;
  }
  const int lowest = std::min(a.exponent, b.exponent);
  const int skip_a = (a.exponent - lowest) / kDigitBits;
  const int skip_b = (b.exponent - lowest) / kDigitBits;
  Natural result;
  result.exponent = lowest;
  result.size = a.size + skip_a; // b has no more
  int64_t borrow = 0;
  for (int i = 0; i < result.size; ++i) {
    const int of_a = i - skip_a, of_b = i - skip_b;
    int64_t digit = borrow;
    digit += of_a >= 0 ? int64_t{a.digits[of_a]} : 0;
    digit -= of_b >= 0 && of_b < b.size ? int64_t{b.digits[of_b]} : 0;
    result.digits[i] = static_cast<uint32_t>(digit);
    borrow = digit >> kDigitBits;
  }
  result.trim();
  return result;
}

/// (bits + a part) * 2^exponent. The highest bit is set. The part is 0, or above 0 and below 1 if
/// `has_more`.
struct Leading {
  UInt128 bits;
  int exponent;
  bool has_more;

  double rounded(bool is_negative) const {
    const auto low = static_cast<uint64_t>(bits);
    return round_once(
        is_negative, static_cast<uint64_t>(bits >> 64), has_more || low != 0, exponent + 64);
  }
};

/// The leading bits of the digits behind 0s, of which at least 128 bits follow. Highest first.
Leading leading_of(const uint32_t* digits, int size, int exponent, bool has_more) {
  int first = 0;
  while (digits[first] == 0) {
    ++first;
  }
  int zeros = 0;
  while ((digits[first] << zeros) >> (kDigitBits - 1) == 0) {
    ++zeros;
  }
  const auto digit = [&](int i) { return UInt128{i < size ? digits[i] : 0}; };
  UInt128 bits = digit(first) << 96 | digit(first + 1) << 64;
  bits |= digit(first + 2) << 32 | digit(first + 3);
  const uint64_t next = static_cast<uint64_t>(digit(first + 4)) << zeros;
  bits = bits << zeros | next >> kDigitBits;
  has_more = has_more || static_cast<uint32_t>(next) != 0;
  for (int i = first + 5; i < size; ++i) {
    has_more = has_more || digits[i] != 0;
  }
  return {bits, exponent + (size - first - 4) * kDigitBits - zeros, has_more};
}

/// Divides digits, highest first, and returns whether there is a rest.
bool divide(uint32_t* digits, int size, uint64_t divisor) {
  if (divisor >> kDigitBits == 0) {
    uint64_t rest = 0;
    for (int i = 0; i < size; ++i) {
      const uint64_t part = rest << kDigitBits | digits[i];
      digits[i] = static_cast<uint32_t>(part / divisor);
      rest = part % divisor;
    }
    return rest != 0;
  }
  UInt128 rest = 0;
  for (int i = 0; i < size; ++i) {
    const UInt128 part = rest << kDigitBits | digits[i];
    digits[i] = static_cast<uint32_t>(part / divisor);
    rest = part % divisor;
  }
  return rest != 0;
}

/// a / (b * c) for a > 0. Two divisions that round down are as one by the product.
Leading quotient(const Natural& a, uint64_t b, uint64_t c) {
  // So many leading digits that the quotient has 128 bits.
  const int size = b >> kDigitBits == 0 ? 7 : 9;
  uint32_t digits[9];
  for (int i = 0; i < size; ++i) {
    digits[i] = i < a.size ? a.digits[a.size - 1 - i] : 0;
  }
  bool has_more = a.size > size; // digits below are left out, and the lowest is not 0
  has_more = divide(digits, size, b) || has_more;
  has_more = (c != 1 && divide(digits, size, c)) || has_more;
  return leading_of(digits, size, a.exponent + (a.size - size) * kDigitBits, has_more);
}

/// The largest integer whose square is at most x, for x of at least 2^126.
uint64_t square_root(UInt128 x) {
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  const double near = std::sqrt(static_cast<double>(x));
  uint64_t root = near < 0x1p64 ? static_cast<uint64_t>(near) : kMost;
  const UInt128 better = (UInt128{root} + x / root) / 2; // Newton
  root = better < kMost ? static_cast<uint64_t>(better) : kMost;
  while (UInt128{root} * root > x) {
    --root;
  }
  while (root < kMost && UInt128{root + 1} * (root + 1) <= x) {
    ++root;
  }
  return root;
}

double rounded_root(Leading square) {
  if (square.exponent % 2 != 0) {
    square.has_more = square.has_more || (square.bits & 1) != 0;
    square.bits >>= 1;
    ++square.exponent;
  }
  const uint64_t root = square_root(square.bits);
  const bool has_more = square.has_more || UInt128{root} * root != square.bits;
  return round_once(false, root, has_more, square.exponent / 2);
}

} // namespace

Moments moments_of(const int64_t* digits, ElementType type, int64_t number) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  const DigitLayout layout = layout_of_sum(type), layout_of_square = layout_of_squares(type);
  const int64_t* of_squares = digits + layout.size;
  Moments moments{kNaN, kNaN, kNaN, 0, 0};
  if (number < 1) {
    return moments;
  }
  const auto count = static_cast<uint64_t>(number);
  const bool is_negative = digits[layout.size - 1] < 0;
  const Natural sum = magnitude_of(digits, layout);
  moments.sum = round_digits(digits, layout.size, layout.lowest);
  moments.sum_of_squares = round_digits(of_squares, layout_of_square.size, layout_of_square.lowest);
  moments.mean = sum.size == 0 ? 0 : quotient(sum, count, 1).rounded(is_negative);
  if (number < 2) {
    return moments;
  }
  const Natural squares = product(magnitude_of(of_squares, layout_of_square), natural_of(count));
  const Natural spread = difference(squares, product(sum, sum));
  if (spread.size == 0) {
    moments.var = moments.std = 0;
    return moments;
  }
  const Leading var = quotient(spread, count, count - 1);
  moments.var = var.rounded(false);
  moments.std = rounded_root(var);
  return moments;
}

} // namespace histo::cpu
