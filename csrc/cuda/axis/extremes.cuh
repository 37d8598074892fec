// The smallest and the largest finite value.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/edges.h"
#include "core/locate.h"
#include "core/uniform_edges.h"
#include "cuda/axis/uniform_bins.cuh"
#include "cuda/fill/extremes.h"
#include "cuda/walk/team.cuh"
#include "cuda/walk/vec16s.cuh"
#include "cuda/warp.cuh"

namespace histo::cuda {

/// The type that extremes are compared in: integers of 64 bits would take longer.
template <class T>
struct ExtremeOf {
  using Wide = typename Number<T>::Wide;
  using Short = std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>;
  using Type = std::conditional_t<Number<T>::kIsFloat || sizeof(T) == 8, Wide, Short>;
};

/// Without a finite value low is above high.
template <class T>
struct Extremes {
  using Value = typename ExtremeOf<T>::Type;
  using E = UniformEdgeOf<T>;
  static constexpr bool kIsFloat = Number<T>::kIsFloat;

  Value low = kIsFloat ? std::numeric_limits<Value>::infinity() : std::numeric_limits<Value>::max();
  Value high =
      kIsFloat ? -std::numeric_limits<Value>::infinity() : std::numeric_limits<Value>::lowest();

  __device__ __forceinline__ void add(T element) {
    auto value = static_cast<Value>(Number<T>::wide(element));
    if constexpr (kIsFloat) {
      value = fused(value, Value{0}, value); // NaN, which is left out below, if it is infinite
    }
    merge({value, value});
  }
  __device__ __forceinline__ void merge(const Extremes& other) {
    low = smaller(low, other.low);
    high = larger(high, other.high);
  }
  __device__ __forceinline__ bool any() const {
    return low <= high;
  }
  /// Rounded outwards; infinity and -infinity where there is no value.
  __device__ __forceinline__ E rounded_low() const {
    return any() ? rounded_down<E>(without_sign(low)) : std::numeric_limits<E>::infinity();
  }
  __device__ __forceinline__ E rounded_high() const {
    return any() ? rounded_up<E>(without_sign(high)) : -std::numeric_limits<E>::infinity();
  }

 private:
  using Wide = typename Number<T>::Wide;

  /// 0 for -0.
  __device__ __forceinline__ static Wide without_sign(Value value) {
    return value == 0 ? Wide{0} : static_cast<Wide>(value);
  }
  __device__ __forceinline__ static Value smaller(Value a, Value b) {
    if constexpr (!kIsFloat) {
      return min(a, b);
    } else if constexpr (sizeof(Value) == 4) {
      return fminf(a, b);
    } else {
      return fmin(a, b);
    }
  }
  __device__ __forceinline__ static Value larger(Value a, Value b) {
    if constexpr (!kIsFloat) {
      return max(a, b);
    } else if constexpr (sizeof(Value) == 4) {
      return fmaxf(a, b);
    } else {
      return fmax(a, b);
    }
  }
};

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
constexpr bool kComparesPairs = true;
#else
constexpr bool kComparesPairs = false;
#endif

/// Two elements of 16 bits at a time. Infinite ones become NaN, which is left out.
template <class T>
struct ExtremePairs {
  uint32_t low = Number<T>::Layout::kInfinity * 0x10001;
  uint32_t high = low | 0x80008000;

  __device__ __forceinline__ void add(uint32_t pair) {
    if constexpr (std::is_same_v<T, Float16>) {
      asm("fma.rn.f16x2 %0, %0, %1, %0;" : "+r"(pair) : "r"(0));
      asm("min.f16x2 %0, %0, %1;" : "+r"(low) : "r"(pair));
      asm("max.f16x2 %0, %0, %1;" : "+r"(high) : "r"(pair));
    } else {
      static_assert(std::is_same_v<T, BFloat16>, "not a float of 16 bits");
      asm("fma.rn.bf16x2 %0, %0, %1, %0;" : "+r"(pair) : "r"(0));
      asm("min.bf16x2 %0, %0, %1;" : "+r"(low) : "r"(pair));
      asm("max.bf16x2 %0, %0, %1;" : "+r"(high) : "r"(pair));
    }
  }
  __device__ __forceinline__ static T half(uint32_t pair, int which) {
    return {static_cast<uint16_t>(pair >> 16 * which)};
  }
};

/// The extremes of the vec16s that a thread reads.
template <class T>
class RunningExtremes {
 public:
  __device__ __forceinline__ void add(const uint4& words) {
    if constexpr (kPairs) {
      pairs_.add(words.x);
      pairs_.add(words.y);
      pairs_.add(words.z);
      pairs_.add(words.w);
    } else {
      const auto vec16 = bits_as<Vec16<T>>(words);
#pragma unroll
      for (unsigned j = 0; j < 16 / sizeof(T); ++j) {
        all_.add(vec16.elements[j]);
      }
    }
  }
  __device__ __forceinline__ Extremes<T> all() const {
    Extremes<T> all = all_;
    if constexpr (kPairs) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        all.add(pairs_.half(pairs_.low, half));
        all.add(pairs_.half(pairs_.high, half));
      }
    }
    return all;
  }

 private:
  static constexpr bool kPairs =
      kComparesPairs && (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>);
  struct None {};
  Extremes<T> all_;
  std::conditional_t<kPairs, ExtremePairs<T>, None> pairs_;
};

/// The extremes of all lanes.
template <class T>
__device__ __forceinline__ Extremes<T> extremes_of_warp(Extremes<T> own) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) {
    own.merge(
        {__shfl_xor_sync(kAllLanes, own.low, step), __shfl_xor_sync(kAllLanes, own.high, step)});
  }
  return own;
}

/// The extremes of a team, which all its threads get. A block waits once; it must wait again before
/// the next call.
template <bool kIsWarp, class T>
__device__ __forceinline__ Extremes<T> extremes_of(const Team<kIsWarp>& team, Extremes<T> own) {
  own = extremes_of_warp(own);
  if constexpr (!kIsWarp) {
    using Value = typename Extremes<T>::Value;
    __shared__ Value lows[kWarp], highs[kWarp]; // of warps
    const unsigned lane = threadIdx.x % kWarp;
    if (lane == 0) {
      lows[threadIdx.x / kWarp] = own.low;
      highs[threadIdx.x / kWarp] = own.high;
    }
    __syncthreads();
    if (lane < team.threads / kWarp) {
      own = {lows[lane], highs[lane]};
    }
    own = extremes_of_warp(own);
  }
  return own;
}

/// One thread of a team writes what all its threads have.
template <bool kIsWarp, class T>
__device__ __forceinline__ void put_extremes(
    const Team<kIsWarp>& team,
    const Extremes<T>& extremes,
    Widened widened,
    UniformEdgeOf<T>* low,
    UniformEdgeOf<T>* high) {
  if (team.thread == 0) {
    *low = extremes.rounded_low();
    *high = extremes.rounded_high();
    if (widened.yes) {
      range_of_extremes(*low, *high);
    }
  }
}

} // namespace histo::cuda
