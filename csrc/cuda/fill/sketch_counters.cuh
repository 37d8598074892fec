// What kernels add to a sketch.
#pragma once

#include "core/sketch_elements.h"
#include "cuda/fill/sketch.h"
#include "cuda/warp.cuh"

namespace histo::cuda {

/// The extremes of some elements, as integers in the order of float64.
struct ExtremeKeys {
  long long low = FloatKey::kInfinity;
  long long high = FloatKey::kMinusInfinity;

  /// Those of all lanes that are a multiple of `apart` lanes from this one.
  __device__ __forceinline__ void reduce(int apart) {
    for (int step = kWarp / 2; step >= apart; step /= 2) {
      low = min(low, __shfl_xor_sync(kAllLanes, low, step));
      high = max(high, __shfl_xor_sync(kAllLanes, high, step));
    }
  }
  /// Most blocks of a channel change nothing, so they look before they add.
  __device__ __forceinline__ void put(const SketchCounters& to, int64_t channel) const {
    if (low > high) {
      return;
    }
    if (low < *static_cast<volatile long long*>(&to.min_keys[channel])) {
      atomicMin(&to.min_keys[channel], low);
    }
    if (high > *static_cast<volatile long long*>(&to.max_keys[channel])) {
      atomicMax(&to.max_keys[channel], high);
    }
  }
};

/// The finite extremes of what a thread has seen.
template <class T, class Bits>
struct ThreadExtremes {
  using Elements = SketchElements<T, Bits>;
  typename Elements::Order low = Elements::kMost, high = Elements::kLeast;

  __device__ __forceinline__ void add(T element, Bits bits) {
    if (Elements::is_finite(bits)) {
      const auto order = Elements::order(element, bits);
      low = order < low ? order : low;
      high = order > high ? order : high;
    }
  }
  __device__ __forceinline__ ExtremeKeys keys() const {
    return low <= high ? ExtremeKeys{Elements::low_key(low), Elements::high_key(high)}
                       : ExtremeKeys{};
  }
};

} // namespace histo::cuda
