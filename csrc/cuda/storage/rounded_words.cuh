// Rounds the sum of weights of float32 or narrower types, which lies in words.
#pragma once

#include "core/exact_sum.h"
#include "core/weights.h"
#include "cuda/storage/word_table.cuh"

namespace histo::cuda {

// A slot has the words of its sum, and one of flags.
constexpr unsigned kFlags = sum_layout(ElementType::kFloat32).digits;
constexpr unsigned kWordsOfSlot = kFlags + 1; // odd: slots begin in different banks
constexpr unsigned kBytesOfSlot = kWordsOfSlot * sizeof(uint32_t);

constexpr uint32_t kNoFlags = kMiddleOfWord; // so that a table is cleared by one number
constexpr unsigned kHasWeights = 1;
constexpr unsigned kHasNonFinite = 2; // << NonFinite

/// The flag of a weight that is not finite.
__device__ __forceinline__ unsigned flag_of(float weight) {
  return kHasNonFinite
         << (weight != weight ? kNaNs
             : weight > 0     ? kInfinities
                              : kNegativeInfinities);
}

/// The sum that the digits of a magnitude are, rounded once.
template <unsigned kSize>
__device__ __forceinline__ double round_magnitude(
    const uint32_t (&digits)[kSize], bool is_negative, int lowest) {
  uint32_t first = 0, second = 0, third = 0; // the highest digits
  bool has_more = false, is_any = false;     // below the third one
  int last = 0;                              // the number of the first one
#pragma unroll
  for (unsigned i = 0; i < kSize; ++i) {
    is_any = is_any || (i > 2 && digits[i > 2 ? i - 3 : 0] != 0);
    if (digits[i] != 0) {
      last = static_cast<int>(i);
      first = digits[i];
      second = i > 0 ? digits[i > 0 ? i - 1 : 0] : 0;
      third = i > 1 ? digits[i > 1 ? i - 2 : 0] : 0;
      has_more = is_any;
    }
  }
  if (first == 0) {
    return 0;
  }
  const int shift = leading_zeros(first);
  const uint64_t two = (uint64_t{first} << kDigitBits | second) << shift;
  const uint64_t top = two | (uint64_t{third} << shift) >> kDigitBits;
  has_more = has_more || static_cast<uint32_t>(third << shift) != 0;
  return round_once(is_negative, top, has_more, int64_t{last - 1} * kDigitBits - shift + lowest);
}

/// The sum of a slot, which is cleared.
__device__ __forceinline__ double take_rounded(uint32_t* slot) {
  constexpr SumLayout kLayout = sum_layout(ElementType::kFloat32);
  const unsigned flags = slot[kFlags] - kNoFlags;
  uint32_t digits[kFlags];
  int64_t carry = 0;
#pragma unroll
  for (unsigned i = 0; i < kFlags; ++i) {
    carry += int64_t{slot[i]} - int64_t{kMiddleOfWord};
    digits[i] = static_cast<uint32_t>(carry);
    carry >>= kDigitBits;
    slot[i] = kMiddleOfWord;
  }
  slot[kFlags] = kNoFlags;
  const bool is_negative = carry < 0;
  uint64_t more = is_negative ? 1 : 0; // the complement, and 1
#pragma unroll
  for (unsigned i = 0; i < kFlags; ++i) {
    more += is_negative ? ~digits[i] : digits[i];
    digits[i] = static_cast<uint32_t>(more);
    more >>= kDigitBits;
  }
  if (flags > kHasWeights) {
    int64_t counts[kNumNonFinite + 1] = {}; // behind a digit
    for (int kind = 0; kind < kNumNonFinite; ++kind) {
      counts[kind + 1] = flags >> kind & kHasNonFinite;
    }
    return round_sum(counts, {1, 0, kNumNonFinite});
  }
  return round_magnitude(digits, is_negative, kLayout.lowest);
}

} // namespace histo::cuda
