// The order of all types of a size, known only when a kernel runs: so few kernels have all types.
#pragma once

#include <cstdint>
#include <limits>

#include "cuda/launch.h"
#include "cuda/select/select.h"

namespace histo::cuda {

/// Keys of the bits of numbers, in their order. NaN has the largest key; -0 comes before +0.
template <class Bits>
struct KeyOrder {
  static constexpr int kBits = 8 * sizeof(Bits);
  static constexpr Bits kSign = static_cast<Bits>(Bits{1} << (kBits - 1));

  Bits reversed; // bits of negative numbers that are in the opposite order
  Bits sign;     // the sign bit, of types that have one
  Bits largest;  // magnitudes beyond this are NaN
  Bits mask;     // of the bits of a magnitude

  static KeyOrder of(ElementType type) {
    return visit_number_type(type, [](auto tag) -> KeyOrder {
      using T = typename decltype(tag)::type;
      if constexpr (sizeof(T) != sizeof(Bits)) {
        throw InternalError("KeyOrder: the type has another size");
      } else if constexpr (Number<T>::kIsFloat) {
        constexpr auto kMagnitude = static_cast<Bits>(~kSign);
        return {kMagnitude, kSign, SortKey<T>::kLargest, kMagnitude};
      } else {
        const Bits sign = std::is_signed_v<T> ? kSign : Bits{0};
        return {0, sign, std::numeric_limits<Bits>::max(), 0};
      }
    });
  }
  __device__ __forceinline__ bool has_nan() const {
    return mask != 0;
  }
  __device__ __forceinline__ bool is_nan(Bits bits) const {
    return (bits & mask) > largest;
  }
  /// A number for each pattern of bits, in the order of the numbers. NaN is at both ends.
  __device__ __forceinline__ Bits ordered(Bits bits) const {
    return static_cast<Bits>(reverse(bits) ^ sign);
  }
  __device__ __forceinline__ Bits bits_of(Bits key) const {
    return reverse(static_cast<Bits>(key ^ sign));
  }
  /// The keys of the smallest and of the largest number.
  __device__ __forceinline__ Bits smallest() const {
    return has_nan() ? ordered(static_cast<Bits>(largest | kSign)) : Bits{0};
  }
  __device__ __forceinline__ Bits greatest() const {
    return has_nan() ? ordered(largest) : std::numeric_limits<Bits>::max();
  }
  __device__ __forceinline__ Bits key(Bits bits) const {
    return is_nan(bits) ? std::numeric_limits<Bits>::max() : ordered(bits);
  }

 private:
  __device__ __forceinline__ Bits reverse(Bits bits) const {
    return static_cast<Bits>(bits ^ (bits & kSign ? reversed : Bits{0}));
  }
};

/// Calls f(TypeTag<Bits>{}) with the unsigned type as wide as the elements, if these are wider than a
/// byte.
template <class F>
void visit_wide_bits(ElementType type, const F& f) {
  visit_unsigned_type(type, [&](auto tag) {
    if constexpr (sizeof(typename decltype(tag)::type) > 1) {
      f(tag);
    } else {
      throw InternalError("visit_wide_bits: bytes have kernels of their own");
    }
  });
}

/// The ranks of target `target`'s q.
__device__ __forceinline__ Ranks
ranks_of_target(const SelectionPart& part, unsigned target, int64_t rows, int64_t nans) {
  const double q = part.selection.q[part.first_q + target / kTargetsOfQ];
  Ranks ranks = ranks_of(part.selection, q, rows, nans);
  // A product may be rounded up to more than the last rank.
  ranks.below = min(ranks.below, rows - 1);
  ranks.above = min(ranks.above, rows - 1);
  return ranks;
}

__device__ __forceinline__ int64_t rank_of_target(const Ranks& ranks, unsigned target) {
  return target % kTargetsOfQ == 0 ? ranks.below : ranks.above;
}

/// Writes the value of a target, and the weight with the first of two targets.
template <class Bits>
__device__ __forceinline__ void put_value(
    const SelectionPart& part,
    const KeyOrder<Bits>& order,
    unsigned target,
    int64_t channel,
    const Ranks& ranks,
    Bits key) {
  const int64_t q = part.first_q + target / kTargetsOfQ;
  const int64_t at = q * part.all_channels + part.first_channel + channel;
  void* values = target % kTargetsOfQ == 0 ? part.selection.below : part.selection.above;
  const bool is_nan = order.has_nan() && (ranks.is_nan || key > order.greatest());
  static_cast<Bits*>(values)[at] = order.bits_of(is_nan ? std::numeric_limits<Bits>::max() : key);
  if (target % kTargetsOfQ == 0) {
    part.selection.put_weight(at, ranks.weight);
  }
}

} // namespace histo::cuda
