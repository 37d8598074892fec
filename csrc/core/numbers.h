// Numbers of every type, compared as real numbers. Nothing here rounds.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/axis.h"
#include "core/problem.h"

namespace histo {

/// Floats that C++ has no type for, by their bits.
struct Float16 {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};
struct Float8E4M3 {
  uint8_t bits;
};
struct Float8E5M2 {
  uint8_t bits;
};

/// Calls f(TypeTag<T>{}) with the C++ type of the elements.
template <class F>
decltype(auto) visit_number_type(ElementType type, F&& f) {
  switch (type) {
    case ElementType::kFloat16:
      return f(TypeTag<Float16>{});
    case ElementType::kBFloat16:
      return f(TypeTag<BFloat16>{});
    case ElementType::kFloat32:
      return f(TypeTag<float>{});
    case ElementType::kFloat64:
      return f(TypeTag<double>{});
    case ElementType::kFloat8E4M3:
      return f(TypeTag<Float8E4M3>{});
    case ElementType::kFloat8E5M2:
      return f(TypeTag<Float8E5M2>{});
    default:
      return visit_element_type(type, f);
  }
}

template <class To, class From>
HISTO_HOST_DEVICE To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

/// A real number as the sum of two doubles. `high` is the double nearest to it, so pairs are
/// ordered as the numbers are, and every float and every integer of 64 bits is one exactly.
struct Real {
  double high;
  double low;
};

/// Both are false if a number is NaN.
HISTO_HOST_DEVICE bool is_below(Real a, Real b) {
  return a.high < b.high || (a.high == b.high && a.low < b.low);
}
HISTO_HOST_DEVICE bool is_at_most(Real a, Real b) {
  return a.high < b.high || (a.high == b.high && a.low <= b.low);
}

HISTO_HOST_DEVICE Real real_of(double value) {
  return {value, 0};
}
HISTO_HOST_DEVICE Real real_of(float value) {
  return {value, 0};
}
HISTO_HOST_DEVICE Real real_of(uint64_t value) {
  // The nearest double may be 2^64, which is 0 here: differences are right modulo 2^64.
  const auto high = static_cast<double>(value);
  const uint64_t whole = high < 0x1p64 ? static_cast<uint64_t>(high) : 0;
  return {high, static_cast<double>(static_cast<int64_t>(value - whole))};
}
HISTO_HOST_DEVICE Real real_of(int64_t value) {
  const auto high = static_cast<double>(value);
  const uint64_t whole =
      high < 0x1p63 ? static_cast<uint64_t>(static_cast<int64_t>(high)) : uint64_t{1} << 63;
  return {high, static_cast<double>(static_cast<int64_t>(static_cast<uint64_t>(value) - whole))};
}

/// The bits of a float: the sign, the exponent, the fraction.
template <class Unsigned, int kFractionBits, int kExponentBias, bool kWithInfinity = true>
struct FloatFormat {
  using Bits = Unsigned;
  static constexpr int kFraction = kFractionBits;
  static constexpr int kBias = kExponentBias;
  static constexpr bool kHasInfinity = kWithInfinity;
  static constexpr Bits kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
  /// The exponent of all ones. Without infinities it is the magnitude of NaN, which has all bits.
  static constexpr Bits kInfinity =
      static_cast<Bits>(kSign - (kHasInfinity ? Bits{1} << kFraction : Bits{1}));
};
template <class T>
struct FloatBits;
template <>
struct FloatBits<double> : FloatFormat<uint64_t, 52, 1023> {};
template <>
struct FloatBits<float> : FloatFormat<uint32_t, 23, 127> {};
template <>
struct FloatBits<BFloat16> : FloatFormat<uint16_t, 7, 127> {};
template <>
struct FloatBits<Float16> : FloatFormat<uint16_t, 10, 15> {};
template <>
struct FloatBits<Float8E5M2> : FloatFormat<uint8_t, 2, 15> {};
template <>
struct FloatBits<Float8E4M3> : FloatFormat<uint8_t, 3, 7, false> {};

/// 2^n for n of at least 0.
constexpr float power_of_two(int n) {
  return n == 0 ? 1 : 2 * power_of_two(n - 1);
}

/// The layout of a small float: its magnitude, moved by kShift bits and multiplied by kScale, is
/// that of the float32 of the same value.
template <class T>
struct SmallFloat : FloatBits<T> {
  static constexpr int kShift = FloatBits<float>::kFraction - FloatBits<T>::kFraction;
  static constexpr float kScale = power_of_two(FloatBits<float>::kBias - FloatBits<T>::kBias);
};

/// The type that kernels compare (`Wide`), and the order of a type's values: they are numbered from
/// kFirst to kLast, from the smallest to the largest. +0 and -0 are one value; NaN has no number.
template <class T, class = void>
struct Number {
  // The floats of 8 and 16 bits.
  using Wide = float;
  using Ordinal = int32_t; // the number of a value
  using Layout = SmallFloat<T>;
  static constexpr bool kIsFloat = true;
  static constexpr Ordinal kLast = Ordinal{Layout::kInfinity} - (Layout::kHasInfinity ? 0 : 1);
  static constexpr Ordinal kFirst = -kLast;

  HISTO_HOST_DEVICE static float wide(T value) {
#ifdef __CUDA_ARCH__
    if constexpr (std::is_same_v<T, BFloat16>) {
      return bits_as<float>(uint32_t{value.bits} << 16);
    } else if constexpr (std::is_same_v<T, Float16>) {
      float wide;
      asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(value.bits));
      return wide;
    }
#endif
    return wide_of_bits(value);
  }
  HISTO_HOST_DEVICE static T value_at(Ordinal ordinal) {
    const uint32_t sign = ordinal < 0 ? Layout::kSign : 0;
    const auto magnitude = static_cast<uint32_t>(ordinal < 0 ? -ordinal : ordinal);
    return {static_cast<decltype(T::bits)>(magnitude | sign)};
  }
  HISTO_HOST_DEVICE static float wide_at(Ordinal ordinal) {
    return wide(value_at(ordinal));
  }
  /// The number of a value near this one, which may be off by a step.
  HISTO_HOST_DEVICE static Ordinal ordinal_near(Real real) {
    const auto scaled = static_cast<float>(real.high) / Layout::kScale;
    const uint32_t bits = bits_as<uint32_t>(scaled);
    const auto ordinal = static_cast<Ordinal>((bits & 0x7fffffffu) >> Layout::kShift);
    const Ordinal most = ordinal < kLast ? ordinal : kLast;
    return bits >> 31 ? -most : most;
  }

 private:
  HISTO_HOST_DEVICE static float wide_of_bits(T value) {
    constexpr uint32_t kSign = Layout::kSign;
    const uint32_t magnitude = value.bits & (kSign - 1);
    uint32_t bits = bits_as<uint32_t>(bits_as<float>(magnitude << Layout::kShift) * Layout::kScale);
    if (magnitude >= Layout::kInfinity) {
      bits = magnitude == Layout::kInfinity && Layout::kHasInfinity ? 0x7f800000u : 0x7fc00000u;
    }
    return bits_as<float>(bits | (value.bits & kSign ? 0x80000000u : 0));
  }
};

template <class T>
struct Number<T, std::enable_if_t<std::is_floating_point_v<T>>> {
  using Wide = T;
  using Ordinal = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  static constexpr bool kIsFloat = true;
  static constexpr Ordinal kMagnitude = std::numeric_limits<Ordinal>::max();
  static constexpr Ordinal kLast = static_cast<Ordinal>(FloatBits<T>::kInfinity);
  static constexpr Ordinal kFirst = -kLast;

  HISTO_HOST_DEVICE static T wide(T value) {
    return value;
  }
  HISTO_HOST_DEVICE static T wide_at(Ordinal ordinal) {
    const T value = bits_as<T>(ordinal < 0 ? -ordinal : ordinal);
    return ordinal < 0 ? -value : value;
  }
  HISTO_HOST_DEVICE static Ordinal ordinal_of(T value) {
    const auto bits = bits_as<Ordinal>(value);
    const Ordinal magnitude = bits & kMagnitude;
    return bits < 0 ? -magnitude : magnitude;
  }
  HISTO_HOST_DEVICE static Ordinal ordinal_near(Real real) {
    return ordinal_of(static_cast<T>(real.high));
  }
};

/// Integers: all but uint64 are compared as int64.
template <class T>
struct Integer {
  using Wide = std::conditional_t<std::is_same_v<T, uint64_t>, uint64_t, int64_t>;
  using Ordinal = int64_t;
  static constexpr bool kIsFloat = false;
  // uint64: its numbers begin at -2^63.
  static constexpr bool kIsUInt64 = std::is_same_v<T, uint64_t>;
  static constexpr int64_t kFirst = kIsUInt64 ? std::numeric_limits<int64_t>::min()
                                              : static_cast<int64_t>(std::numeric_limits<T>::min());
  static constexpr int64_t kLast = kIsUInt64 ? std::numeric_limits<int64_t>::max()
                                             : static_cast<int64_t>(std::numeric_limits<T>::max());

  HISTO_HOST_DEVICE static Wide wide(T value) {
    return static_cast<Wide>(value);
  }
  HISTO_HOST_DEVICE static Wide wide_at(int64_t ordinal) {
    return static_cast<Wide>(ordinal) + (kIsUInt64 ? static_cast<Wide>(uint64_t{1} << 63) : 0);
  }
  HISTO_HOST_DEVICE static int64_t ordinal_near(Real real) {
    const auto first = static_cast<double>(wide_at(kFirst));
    const auto last = static_cast<double>(wide_at(kLast));
    if (!(real.high > first)) {
      return kFirst;
    }
    if (!(real.high < last)) {
      return kLast; // or a few steps less, which 64-bit integers alone have
    }
    const auto wide =
        static_cast<Wide>(real.high) + static_cast<Wide>(static_cast<int64_t>(real.low));
    return static_cast<int64_t>(static_cast<uint64_t>(wide) - static_cast<uint64_t>(wide_at(0)));
  }
};
template <class T>
struct Number<T, std::enable_if_t<std::is_integral_v<T>>> : Integer<T> {};

template <>
struct Number<Boolean> {
  using Wide = int64_t;
  using Ordinal = int64_t;
  static constexpr bool kIsFloat = false;
  static constexpr int64_t kFirst = 0;
  static constexpr int64_t kLast = 1;

  HISTO_HOST_DEVICE static int64_t wide(Boolean value) {
    return value.byte != 0;
  }
  HISTO_HOST_DEVICE static int64_t wide_at(int64_t ordinal) {
    return ordinal;
  }
  HISTO_HOST_DEVICE static int64_t ordinal_near(Real real) {
    return real.high > 0 ? 1 : 0;
  }
};

template <class Wide>
HISTO_HOST_DEVICE bool is_nan(Wide value) {
  return value != value;
}

} // namespace histo
