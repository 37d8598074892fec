// Sums of weights in the result: the numbers of a bin are those of core/weights.h, of 64 bits each.
#pragma once

#include <cstdint>

#include "core/weights.h"

namespace histo::cuda {

/// Adds to one number of a bin. `carries`: so many elements may be added that the number does not
/// hold them. It then hands a part to the next one when it gets large.
__device__ __forceinline__ void add_to_sum(
    unsigned long long* number, int64_t addend, bool carries) {
  if (!carries) {
    atomicAdd(number, static_cast<unsigned long long>(addend));
    return;
  }
  constexpr int64_t kLarge = int64_t{1} << 61;
  const auto before =
      static_cast<int64_t>(atomicAdd(number, static_cast<unsigned long long>(addend)));
  const int64_t after = before + addend;
  // One thread alone sees that the number passes the limit.
  const int sign = before < kLarge && after >= kLarge     ? 1
                   : before > -kLarge && after <= -kLarge ? -1
                                                          : 0;
  if (sign != 0) {
    atomicAdd(number, static_cast<unsigned long long>(-sign * kLarge));
    atomicAdd(number + 1, static_cast<unsigned long long>(sign * (kLarge >> kDigitBits)));
  }
}

/// The sums of one channel in the result.
struct ChannelSums {
  unsigned long long* sums;
  SumLayout layout;
  bool carries;

  __device__ __forceinline__ unsigned long long* of(int64_t bin) const {
    return sums + bin * layout.size();
  }
  /// Adds to number i of a bin.
  __device__ __forceinline__ void add(int64_t bin, int i, int64_t addend) const {
    if (addend != 0) {
      add_to_sum(of(bin) + i, addend, carries && i + 1 < layout.digits);
    }
  }
  template <class W>
  __device__ __forceinline__ void add(int64_t bin, W weight) const {
    add_weight(weight, [&](int i, int64_t addend) { add(bin, i, addend); });
  }
  /// Adds number * 2^(position + lowest), |number| < 2^40. The last digit takes all that is above
  /// it. Bits below the first digit are not set.
  __device__ __forceinline__ void add_shifted(int64_t bin, int position, int64_t number) const {
    const int digit = position >> 5, shift = position & (kDigitBits - 1);
    const auto bits = static_cast<uint64_t>(number);
    if (digit + 1 >= layout.digits) { // integers are one number, which wraps
      const int above = digit - (layout.digits - 1);
      const int by = shift + kDigitBits * above;
      add(bin, layout.digits - 1, by < 64 ? static_cast<int64_t>(bits << by) : 0);
      return;
    }
    if (digit >= 0) {
      add(bin, digit, static_cast<int64_t>(bits << shift & kDigitMask));
    }
    add(bin, digit + 1, number >> (kDigitBits - shift));
  }
};

/// So many additions of 32 bits do not fit a number.
constexpr int64_t kMostUncarried = int64_t{1} << 29;

} // namespace histo::cuda
