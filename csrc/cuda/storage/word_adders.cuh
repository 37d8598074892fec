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

  Words words;
  int origin;

  __device__ __forceinline__ FloatAdder(const Words& table, const Origin& from)
      : words(table), origin(from.first) {
  }
  /// The lowest bit of a weight, or -1 of one that tells nothing.
  __device__ __forceinline__ static int bit_of(float weight) {
    const auto field = static_cast<int>(bits_as<uint32_t>(weight) >> kFraction & 0xff);
    return field == 0xff || weight == 0 ? -1 : max(field, 1) - 1;
  }
  /// The mean weight is in the middle of a window.
  __device__ __forceinline__ static Origin choose(int mean, int words) {
    return {clamped_bit(mean - kDigitBits * (words - 1) / 2, 0, kBits - kDigitBits * words), 0};
  }
  template <int kSize>
  __device__ __forceinline__ void add(
      const unsigned (&slots)[kSize], const float (&weights)[kSize]) const {
    Addend addends[kSize];
    bool beside = false;
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      addends[j] = addend_of(slots[j], weights[j]);
      beside = beside || is_beside(addends[j]);
    }
    if (beside) {
      add_those_beside(slots, weights, addends);
    }
    add_to_words<false, false>(words, addends);
    __syncwarp();
  }

 protected:
  // No word has this address.
  static constexpr uint32_t kBeside = 0xffffffff;

  __device__ __forceinline__ static bool is_beside(const Addend& addend) {
    return addend.address == kBeside;
  }
  /// A weight in two words, or kBeside if it is not in the table.
  __device__ __forceinline__ Addend addend_of(unsigned slot, float weight) const {
    const auto bits = bits_as<uint32_t>(weight);
    const auto field = static_cast<int>(bits >> kFraction & 0xff);
    const uint32_t fraction = bits & 0x7fffff;
    const uint32_t significand = field == 0 ? fraction : fraction | 1u << kFraction;
    const int bit = max(field, 1) - 1 - origin, word = bit >> 5;
    const int64_t sign = static_cast<int32_t>(bits) >> 31;
    uint64_t number = uint64_t{significand} << (bit & (kDigitBits - 1));
    number = (number ^ static_cast<uint64_t>(sign)) - static_cast<uint64_t>(sign);
    const bool fits = static_cast<unsigned>(word) < words.table.words - 1 && field != 0xff;
    return {
        fits ? words.at(slot, word) : kBeside, static_cast<uint32_t>(number),
        static_cast<int32_t>(number >> kDigitBits)};
  }
  template <int kSize>
  __device__ __forceinline__ void add_those_beside(
      const unsigned (&slots)[kSize],
      const float (&weights)[kSize],
      Addend (&addends)[kSize]) const {
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      if (is_beside(addends[j])) {
        if (weights[j] != 0) {
          add_beside(&words.result, slots[j], weights[j]);
        }
        addends[j] = {words.own, 0, 0};
      }
    }
  }
};

/// bfloat16 and float16, as float32. Most of them lie in one word.
struct SmallAdder : FloatAdder {
  float scale;   // 1 becomes the unit of that word
  float unscale; // the other way
  uint32_t unit; // its address in slot 0

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
      const unsigned (&slots)[kSize], const float (&weights)[kSize]) const {
    Addend addends[kSize];
    bool fits = true;
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      const int number = __float2int_rn(weights[j] * scale);
      addends[j] = {
          unit + slots[j] * words.table.slot_bytes, static_cast<uint32_t>(number), number >> 31};
      fits = fits && is_exact(number, weights[j]);
    }
    if (!fits) {
      bool beside = false;
#pragma unroll
      for (int j = 0; j < kSize; ++j) {
        if (!is_exact(static_cast<int>(addends[j].low), weights[j])) {
          addends[j] = addend_of(slots[j], weights[j]);
          beside = beside || is_beside(addends[j]);
        }
      }
      if (beside) {
        add_those_beside(slots, weights, addends);
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

  __device__ __forceinline__ DoubleAdder(const Words& table, const Origin& from)
      : words(table), origin(from.first) {
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
      const unsigned (&slots)[kSize], const double (&weights)[kSize]) const {
    Addend addends[kSize];
    int32_t top[kSize];
    bool beside = false;
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      addends[j] = addend_of(slots[j], weights[j], top[j]);
      beside = beside || addends[j].address == kBeside;
    }
    if (beside) {
#pragma unroll
      for (int j = 0; j < kSize; ++j) {
        if (addends[j].address == kBeside) {
          if (weights[j] != 0) {
            add_beside(&words.result, slots[j], weights[j]);
          }
          addends[j] = {words.own, 0, 0};
          top[j] = 0;
        }
      }
    }
    add_to_three(addends, top);
    __syncwarp();
  }

 private:
  static constexpr uint32_t kBeside = 0xffffffff; // no word has this address

  /// A weight in three words, or kBeside if it is not in the table.
  __device__ __forceinline__ Addend addend_of(unsigned slot, double weight, int32_t& top) const {
    const auto bits = bits_as<uint64_t>(weight);
    const auto field = static_cast<int>(bits >> kFraction) & kInfinity;
    const uint64_t fraction = bits & ((uint64_t{1} << kFraction) - 1);
    const uint64_t significand = field == 0 ? fraction : fraction | uint64_t{1} << kFraction;
    const int bit = max(field, 1) - 1 - origin, shift = bit & (kDigitBits - 1), word = bit >> 5;
    const int64_t sign = static_cast<int64_t>(bits) >> 63;
    const auto low = static_cast<uint32_t>(significand << shift);
    const auto above = static_cast<int64_t>(significand >> (kDigitBits - shift)); // below 2^52
    const int64_t rest = (above ^ sign) - (low == 0 ? sign : 0);
    top = static_cast<int32_t>(rest >> kDigitBits);
    const bool fits = static_cast<unsigned>(word) < words.table.words - 2 && field != kInfinity;
    const auto signs = static_cast<uint32_t>(sign);
    return {
        fits ? words.at(slot, word) : kBeside, (low ^ signs) - signs, static_cast<int32_t>(rest)};
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
      const uint32_t carry = before[j] > ~addends[j].low ? 1 : 0;
      const uint32_t middle = static_cast<uint32_t>(addends[j].high) + carry;
      top[j] += middle < carry ? 1 : 0;
      addresses[j] = addends[j].address + words.table.word_bytes;
      before[j] = fetch_add_shared(addresses[j], middle);
      top[j] += before[j] > ~middle ? 1 : 0;
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
      const unsigned (&slots)[kSize], const int64_t (&weights)[kSize]) const {
    Addend addends[kSize];
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      addends[j] = {
          words.at(slots[j], 0), static_cast<uint32_t>(weights[j]),
          static_cast<int32_t>(weights[j] >> kDigitBits)};
    }
    add_to_words<true, true>(words, addends);
    __syncwarp();
  }
};

} // namespace histo::cuda
