// Adds a block of elements to a channel: counts, extremes and exact sums.
//
// A block is a copy of its own: another thread may write the input, and what is read twice must be
// the same.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/numbers.h"
#include "cpu/intrinsics.h"
#include "cpu/run_widest.h"
#include "cpu/summary/channel.h"

namespace histo::cpu {

/// The most elements of a block: their sum needs 10 bits more than they do.
constexpr int kBlock = 1024;
constexpr int kBlockBits = 10;
/// Elements that are added in turn. A block is filled up with zeros to a multiple.
constexpr int kTurn = 8;

/// What one look at a block finds.
template <class Key>
struct Look {
  Key low = std::numeric_limits<Key>::max();
  Key high = std::numeric_limits<Key>::lowest();
  int32_t zeros = 0;
  int32_t others = 0; // that are not finite

  template <class Channel>
  void add_to(Channel& channel) const {
    channel.low = std::min(channel.low, low);
    channel.high = std::max(channel.high, high);
    channel.zeros += zeros;
  }
};

/// Counts what is not finite: a block rarely has any.
template <class T>
void count_others(const T* values, int size, Channel<T>& channel) {
  for (int i = 0; i < size; ++i) {
    const auto value = Number<T>::wide(values[i]);
    channel.nan += is_nan(value);
    channel.infinities += std::abs(value) == std::numeric_limits<decltype(value)>::infinity();
  }
}

/// Looks at floats, and stores them as `Wide`, with 0 for what is not finite.
template <class T, class Wide, class Key>
[[gnu::always_inline]] inline void look(
    const T* values, int size, Wide* wide_values, Look<Key>& found) {
  constexpr auto kInfinity = static_cast<Key>(sizeof(Key) == 4 ? 0x7f800000 : 0x7ff0000000000000);
  constexpr Key kMost = std::numeric_limits<Key>::max();
  Key low = kMost, high = -kMost;
  Key zeros = 0, others = 0;
  for (int i = 0; i < size; ++i) {
    // Masks instead of conditions, which the compiler would make branches of.
    const auto bits = bits_as<Key>(Number<T>::wide(values[i]));
    const Key magnitude = bits & kMost;
    const Key finite = -static_cast<Key>(magnitude < kInfinity);
    const Key sign = bits >> (8 * sizeof(Key) - 1);
    const Key key = ((magnitude ^ sign) - sign) & finite;
    low = std::min<Key>(low, key | (~finite & kMost));
    high = std::max<Key>(high, key | (~finite & -kMost));
    zeros += static_cast<Key>(magnitude == 0);
    others += finite + 1;
    wide_values[i] = bits_as<Wide>(static_cast<Key>(bits & finite));
  }
  found.low = low;
  found.high = high;
  found.zeros = static_cast<int32_t>(zeros);
  found.others = static_cast<int32_t>(others);
}

// --- Floats of up to 32 bits

/// 2^exponent, for exponents of normal numbers.
inline double power_of_two(int exponent) {
  return bits_as<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}

using Doubles = double __attribute__((vector_size(32)));
using DoubleBits = int64_t __attribute__((vector_size(32)));
using Singles = float __attribute__((vector_size(16)));

/// Sums numbers below a power of two exactly, by their leading bits: (x + large) - large rounds x
/// to a multiple of the last bit of `large`, and a block of such multiples has a sum that float64
/// holds. The rest, which is exact too, is rounded in the same way to multiples of a smaller one.
/// What then is left is 0 but in rare blocks. (Rump, Ogita and Oishi; ReproBLAS.)
struct LeadingSums {
  static constexpr int kBits = 52 - kBlockBits; // of a number that are summed at a time

  double large, small;
  Doubles high{}, low{};

  explicit LeadingSums(int exponent)
      : large(1.5 * power_of_two(exponent + kBlockBits)),
        small(1.5 * power_of_two(exponent + kBlockBits - kBits - 1)) {
  }
  /// Leaves what is left in `x`. (GCC warns of functions that return vectors.)
  [[gnu::always_inline]] void add(Doubles& x) {
    const Doubles first = (x + large) - large;
    high += first;
    x -= first;
    const Doubles second = (x + small) - small;
    low += second;
    x -= second;
  }
  double left_of(double x) const {
    x -= (x + large) - large;
    return x - ((x + small) - small);
  }
  void add_to(int64_t* digits, int lowest) const {
    add_double(digits, lowest, (high[0] + high[1]) + (high[2] + high[3]));
    add_double(digits, lowest, (low[0] + low[1]) + (low[2] + low[3]));
  }
};

/// Returns whether anything is left.
[[gnu::always_inline]] inline bool add_leading(
    const float* values, int size, LeadingSums& sum, LeadingSums& squares) {
  LeadingSums s = sum, q = squares;
  DoubleBits left{};
  for (int i = 0; i < size; i += 4) {
    Singles singles;
    std::memcpy(&singles, values + i, sizeof singles);
    Doubles x = __builtin_convertvector(singles, Doubles);
    Doubles square = x * x; // 48 bits, exact
    s.add(x);
    q.add(square);
    left |= reinterpret_cast<DoubleBits>(x) | reinterpret_cast<DoubleBits>(square);
  }
  sum = s;
  squares = q;
  return ((left[0] | left[1]) | (left[2] | left[3])) != 0;
}

template <class T, class Wide>
struct Adder;

template <class T>
struct Adder<T, float> {
  static void add(const T* values, int size, Channel<T>& channel) {
    alignas(64) float wide[kBlock + kTurn];
    Look<int32_t> found;
    run_widest([&]() __attribute__((always_inline)) { look(values, size, wide, found); });
    found.add_to(channel);
    if (found.others > 0) {
      count_others(values, size, channel);
    }
    const int32_t largest = std::max(-found.low, found.high);
    if (found.low > found.high || largest == 0) {
      return;
    }
    const int padded = (size + kTurn - 1) / kTurn * kTurn;
    std::fill(wide + size, wide + padded, 0.0f);
    // All values are below 2^exponent.
    const int exponent = std::max(largest >> 23, 1) - 126;
    LeadingSums sum(exponent), squares(2 * exponent);
    bool any_left = false;
    run_widest([&]() __attribute__((always_inline)) {
      any_left = add_leading(wide, padded, sum, squares);
    });
    channel.expect_additions(size + 2);
    sum.add_to(channel.digits, channel.kSum.lowest);
    squares.add_to(channel.squares(), channel.kSquares.lowest);
    for (int i = 0; any_left && i < size; ++i) {
      const double x = wide[i];
      add_double(channel.digits, channel.kSum.lowest, sum.left_of(x));
      add_double(channel.squares(), channel.kSquares.lowest, squares.left_of(x * x));
    }
  }
};

// --- float64

/// Values of one exponent have a common lowest bit, so their integers are summed: 53 bits and those
/// of a block fit into 64, and squares into 128.
struct SumsByExponent {
  static constexpr int kExponents = 64; // below the largest; there are few others

  int64_t sums[kExponents] = {};
  UInt128 squares[kExponents] = {};
};

/// A float64 as an integer times 2^(position - 1074).
struct Scaled {
  uint64_t magnitude;
  int position;
  bool is_negative;

  explicit Scaled(double value) {
    const auto bits = bits_as<uint64_t>(value);
    const auto field = static_cast<int>((bits >> 52) & 0x7ff);
    const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
    magnitude = fraction | static_cast<uint64_t>(field != 0) << 52;
    position = field - (field != 0 ? 1 : 0);
    is_negative = bits >> 63 != 0;
  }
};

template <class T>
struct Adder<T, double> {
  static void add(const double* values, int size, Channel<double>& channel) {
    alignas(64) double finite[kBlock];
    Look<int64_t> found;
    run_widest([&]() __attribute__((always_inline)) { look(values, size, finite, found); });
    found.add_to(channel);
    if (found.others > 0) {
      count_others(values, size, channel);
    }
    if (found.low > found.high) {
      return;
    }
    channel.expect_additions(2 * size + 2 * SumsByExponent::kExponents);
    const int64_t largest = std::max(-found.low, found.high);
    add_by_exponents(finite, size, Scaled(bits_as<double>(largest)).position, channel);
  }

 private:
  static void add_by_exponents(const double* values, int size, int last, Channel<double>& channel) {
    SumsByExponent all;
    for (int i = 0; i < size; ++i) {
      const Scaled value(values[i]);
      const int below = last - value.position;
      if (below >= SumsByExponent::kExponents) {
        add_value(value, channel);
        continue;
      }
      const auto magnitude = static_cast<int64_t>(value.magnitude);
      all.sums[below] += value.is_negative ? -magnitude : magnitude;
      all.squares[below] += UInt128{value.magnitude} * value.magnitude;
    }
    for (int below = 0; below < SumsByExponent::kExponents; ++below) {
      if (all.squares[below] != 0) {
        const int64_t sum = all.sums[below];
        const auto magnitude = static_cast<uint64_t>(sum < 0 ? -sum : sum);
        add_at(channel.digits, last - below, magnitude, sum < 0);
        add_square(all.squares[below], last - below, channel);
      }
    }
  }
  static void add_value(const Scaled& value, Channel<double>& channel) {
    add_at(channel.digits, value.position, value.magnitude, value.is_negative);
    add_square(UInt128{value.magnitude} * value.magnitude, value.position, channel);
  }
  static void add_square(UInt128 square, int position, Channel<double>& channel) {
    add_at(channel.squares(), 2 * position, static_cast<uint64_t>(square), false);
    add_at(channel.squares(), 2 * position + 64, static_cast<uint64_t>(square >> 64), false);
  }
};

// --- Integers

/// Sums of a block, in parts of 32 bits where 64 do not hold them.
template <class T>
struct IntegerSums {
  static constexpr bool kIsShort = sizeof(T) <= 2;
  int64_t sum = 0, sum_high = 0;
  uint64_t squares[4] = {};

  [[gnu::always_inline]] void add(typename Number<T>::Wide value) {
    if constexpr (sizeof(T) == 8) {
      sum += static_cast<int64_t>(static_cast<uint64_t>(value) & kDigitMask);
      sum_high += static_cast<int64_t>(value >> 32);
      const uint64_t magnitude =
          value < 0 ? -static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
      const auto square = UInt128{magnitude} * magnitude;
      const auto low = static_cast<uint64_t>(square), high = static_cast<uint64_t>(square >> 64);
      squares[0] += low & kDigitMask;
      squares[1] += low >> 32;
      squares[2] += high & kDigitMask;
      squares[3] += high >> 32;
    } else {
      sum += value;
      const auto square = static_cast<uint64_t>(value * value);
      squares[0] += kIsShort ? square : square & kDigitMask;
      squares[1] += kIsShort ? 0 : square >> 32;
    }
  }
  void add_to(Channel<T>& channel) const {
    add_signed(channel.digits, 0, sum);
    add_signed(channel.digits, 1, sum_high);
    for (int i = 0; i < 4; ++i) {
      add_at(channel.squares(), i * kDigitBits, squares[i], false);
    }
  }

 private:
  static void add_signed(int64_t* digits, int digit, int64_t value) {
    const auto bits = static_cast<uint64_t>(value);
    add_at(digits, digit * kDigitBits, value < 0 ? -bits : bits, value < 0);
  }
};

template <class T>
[[gnu::always_inline]] inline void add_integers(
    const T* values, int size, Look<typename Number<T>::Wide>& found, IntegerSums<T>& sums) {
  auto low = found.low, high = found.high;
  IntegerSums<T> own;
  int32_t zeros = 0;
  for (int i = 0; i < size; ++i) {
    const auto value = Number<T>::wide(values[i]);
    low = std::min(low, value);
    high = std::max(high, value);
    zeros += value == 0 ? 1 : 0;
    own.add(value);
  }
  found.low = low;
  found.high = high;
  found.zeros = zeros;
  sums = own;
}

template <class T, class Wide>
struct Adder {
  static void add(const T* values, int size, Channel<T>& channel) {
    Look<Wide> found;
    IntegerSums<T> sums;
    run_widest([&]() __attribute__((always_inline)) { add_integers(values, size, found, sums); });
    found.add_to(channel);
    channel.expect_additions(8);
    sums.add_to(channel);
  }
};

/// Adds at most kBlock elements that lie side by side.
template <class T>
void add_block(const T* values, int size, Channel<T>& channel) {
  Adder<T, typename Number<T>::Wide>::add(values, size, channel);
}

} // namespace histo::cpu
