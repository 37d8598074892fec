// The elements of a sketch's input as the bits of floats.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/edges.h"
#include "core/numbers.h"
#include "core/sketch.h"

// Loops over elements become vectors on the CPU, if all that they call is inlined.
#ifdef __CUDACC__
#define HISTO_IN_LOOPS HISTO_HOST_DEVICE
#else
#define HISTO_IN_LOOPS [[gnu::always_inline]] inline
#endif

namespace histo {

/// float32 or float64, by the integer of its size.
template <class Bits>
using FloatOf = std::conditional_t<sizeof(Bits) == 4, float, double>;

/// One of two integers. GCC makes a branch of `condition ? a : b`, and vectors of this.
template <class T>
HISTO_IN_LOOPS T chosen(bool condition, T a, T b) {
#ifdef __CUDA_ARCH__
  return condition ? a : b;
#else
  const auto mask = static_cast<T>(-static_cast<T>(condition));
  return static_cast<T>((a & mask) | (b & ~mask));
#endif
}

/// float32 as float64. No float is subnormal on the way: a processor may flush those to zero.
HISTO_IN_LOOPS uint64_t widened(uint32_t bits) {
  const uint32_t magnitude = bits & 0x7fffffff;
  const uint64_t subnormal = bits_as<uint64_t>(static_cast<int32_t>(magnitude) * 0x1p-149);
  const uint64_t steps = uint64_t{magnitude >= 0x7f800000} + 1; // an infinity has the last exponent
  const uint64_t normal = (uint64_t{magnitude} << 29) + (steps * (1023 - 127) << 52);
  return chosen(magnitude < 0x00800000, subnormal, normal) | uint64_t{bits & 0x80000000} << 32;
}

/// Floats of 8 and 16 bits as float32. Their subnormals are the fraction of a number, less it.
template <class T>
HISTO_IN_LOOPS uint32_t float32_bits(T value) {
  using Layout = SmallFloat<T>;
#ifdef __CUDA_ARCH__
  if constexpr (std::is_same_v<T, Float16>) {
    return bits_as<uint32_t>(Number<T>::wide(value)); // one instruction
  }
#endif
  if constexpr (std::is_same_v<T, BFloat16>) {
    return uint32_t{value.bits} << 16;
  } else {
    constexpr uint32_t kSign = Layout::kSign, kOne = 1 << 23;
    const uint32_t added = bits_as<uint32_t>(Layout::kScale) - 127 * kOne; // to the exponent
    const uint32_t sign = (value.bits & kSign) << (32 - 8 * sizeof(T));
    const uint32_t magnitude = value.bits & (kSign - 1), moved = magnitude << Layout::kShift;
    const auto subnormal =
        bits_as<uint32_t>(bits_as<float>(moved + added + kOne) - bits_as<float>(added + kOne));
    const uint32_t finite = chosen(moved < kOne, subnormal, moved + added);
    const uint32_t others = Layout::kHasInfinity ? moved | 0x7f800000 : 0x7fc00000;
    return chosen(magnitude >= Layout::kInfinity, others, finite) | sign;
  }
}
HISTO_IN_LOOPS uint32_t float32_bits(float value) {
  return bits_as<uint32_t>(value);
}

/// Elements of type T as floats of these bits, and the extremes of those that are finite.
template <class T, class Bits>
struct SketchFloats {
  using Order = std::make_signed_t<Bits>; // in the order of the values; -0 is -1
  static constexpr Order kLeast = std::numeric_limits<Order>::min();
  static constexpr Order kMost = std::numeric_limits<Order>::max();

  HISTO_IN_LOOPS static Bits bits(T value) {
    if constexpr (sizeof(T) == 8) {
      return bits_as<uint64_t>(value);
    } else if constexpr (sizeof(Bits) == 4) {
      return float32_bits(value);
    } else {
      return widened(float32_bits(value));
    }
  }
  HISTO_IN_LOOPS static Order order(T, Bits bits) {
    const auto number = static_cast<Order>(bits);
    return number ^ ((number >> (8 * sizeof(Bits) - 1)) & kMost);
  }
  HISTO_IN_LOOPS static bool is_finite(Bits bits) {
    using Float = FloatBits<FloatOf<Bits>>;
    return (bits & ~Float::kSign) < Float::kInfinity;
  }
  HISTO_HOST_DEVICE static int64_t low_key(Order order) {
    const auto bits = static_cast<Bits>(order < 0 ? order ^ kMost : order);
    if constexpr (sizeof(Bits) == 4) {
      return FloatKey::of_bits(widened(bits));
    } else {
      return FloatKey::of_bits(bits);
    }
  }
  HISTO_HOST_DEVICE static int64_t high_key(Order order) {
    return low_key(order);
  }
};

/// Integers as the largest float that is not above. Then edges decide as they do for the integer:
/// every edge is a float, too. Extremes are rounded outwards.
template <class T, class Bits>
struct SketchIntegers {
  using Order = std::conditional_t<std::is_same_v<T, Boolean>, uint8_t, T>;
  static constexpr Order kLeast = std::numeric_limits<Order>::min();
  static constexpr Order kMost = std::numeric_limits<Order>::max();

  HISTO_IN_LOOPS static Bits bits(T value) {
    if constexpr (sizeof(T) == 8) {
      return bits_as<uint64_t>(rounded_down<double>(value));
    } else {
      return bits_as<Bits>(static_cast<FloatOf<Bits>>(order(value, 0)));
    }
  }
  HISTO_IN_LOOPS static Order order(T value, Bits) {
    if constexpr (std::is_same_v<T, Boolean>) {
      return chosen<uint8_t>(value.byte != 0, 1, 0);
    } else {
      return value;
    }
  }
  HISTO_IN_LOOPS static bool is_finite(Bits) {
    return true;
  }
  HISTO_HOST_DEVICE static int64_t low_key(Order order) {
    return key(rounded_down<double>(wide(order)));
  }
  HISTO_HOST_DEVICE static int64_t high_key(Order order) {
    return key(rounded_up<double>(wide(order)));
  }

 private:
  HISTO_HOST_DEVICE static auto wide(Order order) {
    return static_cast<std::conditional_t<std::is_same_v<T, uint64_t>, uint64_t, int64_t>>(order);
  }
  HISTO_HOST_DEVICE static int64_t key(double value) {
    return FloatKey::of_bits(bits_as<uint64_t>(value));
  }
};

template <class T, class Bits>
using SketchElements =
    std::conditional_t<Number<T>::kIsFloat, SketchFloats<T, Bits>, SketchIntegers<T, Bits>>;

/// The count of a float, by its bits.
template <class Bits>
class SketchIndex {
 public:
  explicit SketchIndex(const SketchBins& bins)
      : shift_(Float::kFraction - static_cast<int>(bins.bits)),
        first_(static_cast<int32_t>((bins.first + Float::kBias) * (int64_t{1} << bins.bits))),
        span_(static_cast<int32_t>(bins.in_span())),
        zero_(static_cast<int32_t>(bins.zero())) {
  }
  HISTO_IN_LOOPS int32_t operator()(Bits bits) const {
    const Bits magnitude = bits & ~Float::kSign;
    const int32_t steps = static_cast<int32_t>(magnitude >> shift_) - first_;
    const bool is_nan = magnitude > Float::kInfinity;
    // Bins from zero on: zero, tiny, those of the span, huge, infinity, NaN.
    int32_t place = std::min(std::max(steps, -1), span_) + 2;
    place = chosen(magnitude == 0, 0, place);
    place = chosen(magnitude >= Float::kInfinity, span_ + 3 + is_nan, place);
    return zero_ + chosen((bits >= Float::kSign) & !is_nan, -place, place);
  }
  /// The same in fewer instructions of a GPU. It keeps nothing in memory, as std::min would.
  HISTO_HOST_DEVICE int32_t of_lane(Bits bits) const {
    const Bits magnitude = bits & ~Float::kSign;
    int32_t steps = static_cast<int32_t>(magnitude >> shift_) - first_;
    steps = steps < -1 ? -1 : steps;
    int32_t place = (steps > span_ ? span_ : steps) + 2;
    if constexpr (sizeof(Bits) == 4) {
      // Zero is place 0. No other place is above its magnitude: a subnormal number is at place 1,
      // below the span, and the magnitude of a normal one is many times its steps.
      place = magnitude < static_cast<uint32_t>(place) ? static_cast<int32_t>(magnitude) : place;
    } else {
      place = magnitude == 0 ? 0 : place;
    }
    place = magnitude >= Float::kInfinity ? span_ + 3 : place;
    const int32_t sign = static_cast<int32_t>(bits >> (8 * sizeof(Bits) - 32)) >> 31;
    const int32_t index = (place ^ sign) + (zero_ - sign);
    return magnitude > Float::kInfinity ? zero_ + span_ + 4 : index;
  }

 private:
  using Float = FloatBits<FloatOf<Bits>>;

  int shift_;
  int32_t first_, span_, zero_;
};

/// Calls f(TypeTag<T>{}, TypeTag<Bits>{}) with the type of the elements and that of their floats.
template <class F>
void visit_sketch_type(ElementType type, const SketchBins& bins, const F& f) {
  visit_number_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int64_t kLeast = 1 - FloatBits<float>::kBias; // the exponent of a normal float32
    if constexpr (sizeof(T) == 8 || (sizeof(T) == 4 && !Number<T>::kIsFloat)) {
      f(tag, TypeTag<uint64_t>{});
    } else if constexpr (std::is_same_v<T, float> || std::is_same_v<T, BFloat16>) {
      // Subnormal numbers have bins of their own if the span begins below the normal ones.
      bins.first < kLeast ? f(tag, TypeTag<uint64_t>{}) : f(tag, TypeTag<uint32_t>{});
    } else {
      f(tag, TypeTag<uint32_t>{});
    }
  });
}

} // namespace histo
