// How weights of a type are added to words.
#pragma once

#include "cuda/storage/word_table.cuh"

namespace histo::cuda {

/// Where the table of a block begins, chosen from some of its weights.
struct Origin {
  int first; // bit of the table
  int unit;  // the bit of the word that most weights lie in, for adders that have one
};

__device__ __forceinline__ int clamped_bit(int bit, int least, int most) {
  return max(least, min(bit, most));
}

/// float32, and what becomes float32: the bits of a sum are counted from 2^-149 on. A weight is in
/// two words.
struct FloatAdder {
  using Weight = float;
  static constexpr int kBits = 320; // of a sum
  static constexpr int kFraction = 23;
  static constexpr int kInfinity = 0xff;

  Words words;
  int origin;
  unsigned end; // finite weights whose lowest bits are below it are in the table

  __device__ __forceinline__ FloatAdder(const Words& table, const Origin& from)
      : words(table),
        origin(from.first),
        end(min(kDigitBits * (static_cast<int>(table.table.words) - 1), kInfinity - 1 - origin)) {
  }
  /// The lowest bit of a weight, or -1 of one that tells nothing.
  __device__ __forceinline__ static int bit_of(float weight) {
    const auto field = static_cast<int>(bits_as<uint32_t>(weight) >> kFraction & kInfinity);
    return field == kInfinity || weight == 0 ? -1 : max(field, 1) - 1;
  }
  /// The mean weight is in the middle of a window.
  __device__ __forceinline__ static Origin choose(int mean, int words) {
    return {clamped_bit(mean - kDigitBits * (words - 1) / 2, 0, kBits - kDigitBits * words), 0};
  }
  template <int kSize>
  __device__ __forceinline__ void add(
      const uint32_t (&bases)[kSize], const float (&weights)[kSize]) const {
    Addend addends[kSize];
    bool fit = true;
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      const Parts parts(weights[j], origin);
      addends[j] = addend_of(bases[j], parts);
      fit = fit && fits(parts);
    }
    if (!fit) {
      add_those_beside(bases, weights, addends);
    }
    add_to_words<false, false>(words, addends);
    __syncwarp();
  }

 protected:
  /// A weight is number * 2^bit, from the origin on.
  struct Parts {
    int number;
    int bit;

    __device__ __forceinline__ Parts(float weight, int origin) {
      const auto bits = bits_as<uint32_t>(weight);
      const auto field = static_cast<int>(bits >> kFraction & kInfinity);
      const uint32_t fraction = bits & ((1u << kFraction) - 1);
      const uint32_t significand = field == 0 ? fraction : fraction | 1u << kFraction;
      const auto sign = static_cast<uint32_t>(static_cast<int32_t>(bits) >> 31);
      number = static_cast<int>((significand ^ sign) - sign);
      bit = max(field, 1) - 1 - origin;
    }
  };
  __device__ __forceinline__ bool fits(const Parts& parts) const {
    return static_cast<unsigned>(parts.bit) < end;
  }
  /// A weight in two words, if it fits.
  __device__ __forceinline__ Addend addend_of(uint32_t base, const Parts& parts) const {
    const auto number = static_cast<uint32_t>(parts.number);
    const auto sign = static_cast<uint32_t>(parts.number >> 31);
    const auto shift = static_cast<unsigned>(parts.bit); // modulo 32
    return {
        words.at(base, parts.bit >> 5), __funnelshift_l(0, number, shift),
        static_cast<int32_t>(__funnelshift_l(number, sign, shift))};
  }
  template <int kSize>
  __device__ __forceinline__ void add_those_beside(
      const uint32_t (&bases)[kSize],
      const float (&weights)[kSize],
      Addend (&addends)[kSize]) const {
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      if (!fits(Parts(weights[j], origin))) {
        if (weights[j] != 0) {
          add_beside(&words.result, bases[j], weights[j]);
        }
        addends[j] = {bases[j], 0, 0};
      }
    }
  }
};

/// bfloat16 and float16, as float32. Most of them lie in one word.
struct SmallAdder : FloatAdder {
  float scale;   // 1 becomes the unit of that word
  float unscale; // the other way
  uint32_t unit; // from a slot's first word to it

  __device__ __forceinline__ SmallAdder(const Words& table, const Origin& from)
      : FloatAdder(table, from),
        scale(power_of_two(149 - from.unit)),
        unscale(power_of_two(from.unit - 149)),
        unit(table.at(0, (from.unit - from.first) / kDigitBits)) {
  }
  __device__ __forceinline__ static float power_of_two(int exponent) {
    return exponent >= -126 ? bits_as<float>(static_cast<uint32_t>(exponent + 127) << kFraction)
                            : bits_as<float>(1u << (exponent + 149));
  }
  /// The mean weight is above the unit by some bits: smaller ones have room, and words seldom
  /// overflow.
  __device__ __forceinline__ static Origin choose(int mean, int words) {
    constexpr int kRoomBelow = 11, kLeast = 22, kMost = 240; // with powers of two that are floats
    const int unit = clamped_bit(mean + 16 - kRoomBelow, kLeast, kMost);
    const bool is_window = words * kDigitBits < kBits;
    const int below = is_window ? words / 2 : (unit + kDigitBits - 1) / kDigitBits;
    return {unit - kDigitBits * below, unit};
  }
  template <int kSize>
  __device__ __forceinline__ void add(
      const uint32_t (&bases)[kSize], const float (&weights)[kSize]) const {
    Addend addends[kSize];
    bool exact = true;
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      const int number = __float2int_rn(weights[j] * scale);
      addends[j] = {bases[j] + unit, static_cast<uint32_t>(number), number >> 31};
      exact = exact && is_exact(number, weights[j]);
    }
    if (!exact) {
      bool beside = false;
#pragma unroll
      for (int j = 0; j < kSize; ++j) {
        if (!is_exact(static_cast<int>(addends[j].low), weights[j])) {
          const Parts parts(weights[j], origin);
          addends[j] = addend_of(bases[j], parts);
          beside = beside || !FloatAdder::fits(parts);
        }
      }
      if (beside) {
        add_those_beside(bases, weights, addends);
      }
    }
    add_to_words<true, false>(words, addends);
    __syncwarp();
  }

 private:
  /// Whether a weight is so many units. NaN is not.
  __device__ __forceinline__ bool is_exact(int number, float weight) const {
    return __int2float_rz(number) * unscale == weight;
  }
};

/// float64: the bits of a sum are counted from 2^-1074 on. A weight is in three words.
struct DoubleAdder {
  using Weight = double;
  static constexpr int kBits = 67 * kDigitBits;
  static constexpr int kFraction = 52;
  static constexpr int kInfinity = 0x7ff;

  Words words;
  int origin;
  unsigned end; // finite weights whose lowest bits are below it are in the table

  __device__ __forceinline__ DoubleAdder(const Words& table, const Origin& from)
      : words(table),
        origin(from.first),
        end(min(kDigitBits * (static_cast<int>(table.table.words) - 2), kInfinity - 1 - origin)) {
  }
  __device__ __forceinline__ static int bit_of(double weight) {
    const auto field = static_cast<int>(bits_as<uint64_t>(weight) >> kFraction) & kInfinity;
    return field == kInfinity || weight == 0 ? -1 : max(field, 1) - 1;
  }
  __device__ __forceinline__ static Origin choose(int mean, int words) {
    return {clamped_bit(mean - kDigitBits * (words - 2) / 2, 0, kBits - kDigitBits * words), 0};
  }
  template <int kSize>
  __device__ __forceinline__ void add(
      const uint32_t (&bases)[kSize], const double (&weights)[kSize]) const {
    Addend addends[kSize];
    int32_t top[kSize];
    bool fit = true;
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      const Parts parts(weights[j], origin);
      addends[j] = addend_of(bases[j], parts, top[j]);
      fit = fit && fits(parts);
    }
    if (!fit) {
#pragma unroll
      for (int j = 0; j < kSize; ++j) {
        if (!fits(Parts(weights[j], origin))) {
          if (weights[j] != 0) {
            add_beside(&words.result, bases[j], weights[j]);
          }
          addends[j] = {bases[j], 0, 0};
          top[j] = 0;
        }
      }
    }
    add_to_three(addends, top);
    __syncwarp();
  }

 private:
  /// A weight is number * 2^bit, from the origin on.
  struct Parts {
    int64_t number;
    int bit;

    __device__ __forceinline__ Parts(double weight, int origin) {
      const auto bits = bits_as<uint64_t>(weight);
      const auto field = static_cast<int>(bits >> kFraction) & kInfinity;
      const uint64_t fraction = bits & ((uint64_t{1} << kFraction) - 1);
      const uint64_t significand = field == 0 ? fraction : fraction | uint64_t{1} << kFraction;
      const auto sign = static_cast<uint64_t>(static_cast<int64_t>(bits) >> 63);
      number = static_cast<int64_t>((significand ^ sign) - sign);
      bit = max(field, 1) - 1 - origin;
    }
  };
  __device__ __forceinline__ bool fits(const Parts& parts) const {
    return static_cast<unsigned>(parts.bit) < end;
  }
  /// A weight in three words, if it fits.
  __device__ __forceinline__ Addend
  addend_of(uint32_t base, const Parts& parts, int32_t& top) const {
    const auto low = static_cast<uint32_t>(parts.number);
    const auto high = static_cast<uint32_t>(parts.number >> kDigitBits);
    const auto sign = static_cast<uint32_t>(parts.number >> 63);
    const auto shift = static_cast<unsigned>(parts.bit); // modulo 32
    top = static_cast<int32_t>(__funnelshift_l(high, sign, shift));
    return {
        words.at(base, parts.bit >> 5), __funnelshift_l(0, low, shift),
        static_cast<int32_t>(__funnelshift_l(low, high, shift))};
  }
  template <int kSize>
  __device__ __forceinline__ void add_to_three(
      const Addend (&addends)[kSize], int32_t (&top)[kSize]) const {
    uint32_t before[kSize], addresses[kSize];
    int32_t beyond[kSize];
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      before[j] = fetch_add_shared(addends[j].address, addends[j].low);
    }
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      const auto middle = static_cast<uint32_t>(addends[j].high);
      const uint64_t carry = (uint64_t{addends[j].low} + before[j]) >> kDigitBits;
      const uint64_t upper =
          (uint64_t{static_cast<uint32_t>(top[j])} << kDigitBits | middle) + carry;
      addresses[j] = addends[j].address + words.table.word_bytes;
      before[j] = fetch_add_shared(addresses[j], static_cast<uint32_t>(upper));
      top[j] = static_cast<int32_t>((upper + before[j]) >> kDigitBits);
      addresses[j] += words.table.word_bytes;
    }
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      before[j] = fetch_add_shared(addresses[j], static_cast<uint32_t>(top[j]));
      beyond[j] = beyond_word(before[j], top[j]);
    }
    add_carries(words, addresses, top, beyond);
  }
};

/// Integers: two words, which wrap. Most numbers lie in one.
struct IntegerAdder {
  using Weight = int64_t;

  Words words;

  __device__ __forceinline__ IntegerAdder(const Words& table, const Origin&) : words(table) {
  }
  __device__ __forceinline__ static int bit_of(int64_t) {
    return -1;
  }
  __device__ __forceinline__ static Origin choose(int, int) {
    return {0, 0};
  }
  template <int kSize>
  __device__ __forceinline__ void add(
      const uint32_t (&bases)[kSize], const int64_t (&weights)[kSize]) const {
    Addend addends[kSize];
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      addends[j] = {
          bases[j], static_cast<uint32_t>(weights[j]),
          static_cast<int32_t>(weights[j] >> kDigitBits)};
    }
    add_to_words<true, true>(words, addends);
    __syncwarp();
  }
};

} // namespace histo::cuda
