#include "cpu/summary/moments.h"

namespace histo::cpu {
namespace {

int leading_zeros_of(uint64_t number) { // which is not 0
  return __builtin_clzll(number);
}
int bits_of(UInt128 number) {
  const auto high = static_cast<uint64_t>(number >> 64), low = static_cast<uint64_t>(number);
  if (high != 0) {
    return 128 - leading_zeros_of(high);
  }
  return low != 0 ? 64 - leading_zeros_of(low) : 0;
}

/// A number of 128 bits: +-magnitude * 2^exponent.
struct FewBits {
  UInt128 magnitude = 0;
  int64_t exponent = 0;
  bool is_negative = false;

  /// Takes canonical digits; returns false if they need more bits.
  bool set(const int64_t* digits, DigitLayout layout) {
    const int last = layout.size - 1;
    int first = 0;
    while (first < last && digits[first] == 0) {
      ++first;
    }
    const auto digit = [&](int i) { // the last one has up to 63 bits
      return static_cast<uint32_t>(
          i <= last ? digits[i] : digits[last] >> (i == last + 1 ? 32 : 63));
    };
    UInt128 bits = 0; // in two's complement
    for (int i = 3; i >= 0; --i) {
      bits = bits << kDigitBits | digit(first + i);
    }
    is_negative = bits >> 127 != 0;
    for (int i = first + 4; i <= last + 1; ++i) {
      if (digit(i) != (is_negative ? kDigitMask : 0)) {
        return false;
      }
    }
    magnitude = is_negative ? -bits : bits;
    exponent = layout.lowest + int64_t{first} * kDigitBits;
    drop_zeros();
    return true;
  }
  /// The highest bit is set, if any is.
  LeadingBits leading() const {
    const int zeros = 128 - bits_of(magnitude);
    return {zeros < 128 ? magnitude << zeros : 0, exponent - zeros, false};
  }
  double rounded() const {
    return magnitude == 0 ? 0 : leading().rounded(is_negative);
  }

 private:
  void drop_zeros() {
    const auto low = static_cast<uint64_t>(magnitude),
               high = static_cast<uint64_t>(magnitude >> 64);
    if (magnitude != 0) {
      const int zeros = low != 0 ? __builtin_ctzll(low) : 64 + __builtin_ctzll(high);
      magnitude >>= zeros;
      exponent += zeros;
    }
  }
};

/// The magnitude of a number that is not 0, divided.
LeadingBits quotient(const FewBits& number, uint64_t divisor) {
  const LeadingBits a = number.leading();
  uint64_t rest = 0, digits[3]; // of 64 bits; the last one is behind the point
  const uint64_t dividends[3] = {
      static_cast<uint64_t>(a.bits >> 64), static_cast<uint64_t>(a.bits), 0};
  for (int i = 0; i < 3; ++i) {
    const UInt128 part = UInt128{rest} << 64 | dividends[i];
    digits[i] = static_cast<uint64_t>(part / divisor);
    rest = static_cast<uint64_t>(part - UInt128{digits[i]} * divisor);
  }
  if (digits[0] == 0) { // then the next one has its highest bit
    return {UInt128{digits[1]} << 64 | digits[2], a.exponent - 64, rest != 0};
  }
  const int zeros = leading_zeros_of(digits[0]);
  const UInt128 behind = UInt128{digits[2]} << zeros;
  const UInt128 bits = (UInt128{digits[0]} << 64 | digits[1]) << zeros | behind >> 64;
  return {bits, a.exponent - zeros, rest != 0 || static_cast<uint64_t>(behind) != 0};
}

/// count * squares - sum^2, which is not negative. Returns false if it needs too many bits.
bool set_spread(const FewBits& sum, const FewBits& squares, uint64_t count, FewBits& spread) {
  const int bits = bits_of(squares.magnitude) + 64 - leading_zeros_of(count);
  if (bits > 128 || bits_of(sum.magnitude) > 64) {
    return false;
  }
  spread = {squares.magnitude * count, squares.exponent, false};
  if (sum.magnitude == 0) {
    return true;
  }
  const UInt128 square = sum.magnitude * sum.magnitude;
  const int64_t above = 2 * sum.exponent - squares.exponent;
  if (above > 127 || bits - above > 128) {
    return false;
  }
  if (above >= 0) { // the square is not above the other product, so it fits, too
    spread.magnitude -= square << above;
    return true;
  }
  spread = {(spread.magnitude << -above) - square, 2 * sum.exponent, false};
  return true;
}

/// Moments of short channels, and of values of a few exponents. Returns false for others.
bool set_moments(const FewBits& sum, const FewBits& squares, uint64_t count, Moments& moments) {
  FewBits spread;
  if (count < 2 || count >> 32 != 0 || !set_spread(sum, squares, count, spread)) {
    return false;
  }
  moments = {0, 0, 0, sum.rounded(), squares.rounded()};
  if (sum.magnitude != 0) {
    moments.mean = quotient(sum, count).rounded(sum.is_negative);
  }
  if (spread.magnitude != 0) {
    const LeadingBits var = quotient(spread, count * (count - 1));
    moments.var = var.rounded(false);
    moments.std = rounded_root(var);
  }
  return true;
}

} // namespace

Moments moments_of(const int64_t* digits, ElementType type, int64_t number) {
  const DigitLayout of_sum = layout_of_sum(type), of_squares = layout_of_squares(type);
  FewBits sum, squares;
  Moments found;
  if (sum.set(digits, of_sum) && squares.set(digits + of_sum.size, of_squares) &&
      set_moments(sum, squares, static_cast<uint64_t>(number), found)) {
    return found;
  }
  return histo::moments_of(SumDigits(digits, of_sum, of_squares), number);
}

} // namespace histo::cpu
