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
    add_value(static_cast<Value>(Number<T>::wide(element)));
  }
  __device__ __forceinline__ void add_value(Value value) {
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
    return any() ? rounded<false>(low) : std::numeric_limits<E>::infinity();
  }
  __device__ __forceinline__ E rounded_high() const {
    return any() ? rounded<true>(high) : -std::numeric_limits<E>::infinity();
  }

 private:
  /// 0 for -0.
  template <bool kUp>
  __device__ __forceinline__ static E rounded(Value value) {
    if constexpr (kIsFloat || sizeof(T) < 8) { // exact
      return value == 0 ? E{0} : static_cast<E>(value);
    } else {
      return kUp ? rounded_up<E>(value) : rounded_down<E>(value);
    }
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

#ifdef __CUDA_ARCH__
constexpr int kArch = __CUDA_ARCH__;
#else
constexpr int kArch = 0;
#endif

/// Whether elements are compared two at a time, in halves of a word.
template <class T>
constexpr bool kComparesPairs =
    sizeof(T) <= 2 &&
    (!Number<T>::kIsFloat || kArch >= (std::is_same_v<T, Float8E4M3> ? 890 : 800));

/// Two numbers of 16 bits at a time. Infinite ones become NaN, which is left out.
template <class T>
struct ExtremePairs {
  uint32_t low = twice(kLargest);
  uint32_t high = twice(Number<T>::kIsFloat ? kLargest | 0x8000 : ~kLargest);

  __device__ __forceinline__ void add(uint32_t pair) {
    if constexpr (std::is_same_v<T, Float16>) {
      asm("fma.rn.f16x2 %0, %0, %1, %0;" : "+r"(pair) : "r"(0));
      asm("min.f16x2 %0, %0, %1;" : "+r"(low) : "r"(pair));
      asm("max.f16x2 %0, %0, %1;" : "+r"(high) : "r"(pair));
    } else if constexpr (std::is_same_v<T, BFloat16>) {
      asm("fma.rn.bf16x2 %0, %0, %1, %0;" : "+r"(pair) : "r"(0));
      asm("min.bf16x2 %0, %0, %1;" : "+r"(low) : "r"(pair));
      asm("max.bf16x2 %0, %0, %1;" : "+r"(high) : "r"(pair));
    } else if constexpr (std::is_same_v<T, int16_t>) {
      low = __vmins2(low, pair);
      high = __vmaxs2(high, pair);
    } else {
      static_assert(std::is_same_v<T, uint16_t>, "not a number of 16 bits");
      low = __vminu2(low, pair);
      high = __vmaxu2(high, pair);
    }
  }

 private:
  static constexpr uint32_t twice(uint32_t half) {
    return (half & 0xffff) * 0x10001;
  }
  static constexpr uint32_t kLargest = [] {
    if constexpr (Number<T>::kIsFloat) {
      return Number<T>::Layout::kInfinity;
    } else {
      return uint32_t{std::numeric_limits<T>::max()};
    }
  }();
};

/// The type of 16 bits that elements are compared in. A byte becomes the upper half of an integer.
template <class T>
using HalfOf = std::conditional_t<
    sizeof(T) == 2,
    T,
    std::conditional_t<
        Number<T>::kIsFloat,
        Float16,
        std::conditional_t<std::is_signed_v<T>, int16_t, uint16_t>>>;

/// The extremes at each place of words that threads read.
template <class T, bool kPairs = kComparesPairs<T>>
class WordExtremes {
 public:
  using Word = typename UnsignedOf<bytes_of_word(sizeof(T))>::type;
  static constexpr int kOf = sizeof(Word) / sizeof(T);

  __device__ __forceinline__ void add(Word word) {
    const auto pack = bits_as<Pack<T, kOf>>(word);
#pragma unroll
    for (int j = 0; j < kOf; ++j) {
      places_[j].add(pack.elements[j]);
    }
  }
  __device__ __forceinline__ Extremes<T> at(int j) const {
    return places_[j];
  }

 private:
  Extremes<T> places_[kOf];
};
template <class T>
class WordExtremes<T, true> {
 public:
  using Word = uint32_t;
  static constexpr int kOf = sizeof(Word) / sizeof(T);

  __device__ __forceinline__ void add(uint32_t word) {
#pragma unroll
    for (int i = 0; i < kNumPairs; ++i) {
      pairs_[i].add(pair_of(word, i));
    }
  }
  __device__ __forceinline__ Extremes<T> at(int j) const {
    const ExtremePairs<Half>& pair = pairs_[j / 2];
    Extremes<T> found;
    if constexpr (Number<T>::kIsFloat) {
      found.add_value(Number<Half>::wide(half_of<Half>(pair.low, j % 2)));
      found.add_value(Number<Half>::wide(half_of<Half>(pair.high, j % 2)));
    } else {
      found.low = value_of(half_of<uint16_t>(pair.low, j % 2));
      found.high = value_of(half_of<uint16_t>(pair.high, j % 2));
    }
    return found;
  }

 private:
  using Half = HalfOf<T>;
  using Value = typename Extremes<T>::Value;
  static constexpr int kNumPairs = kOf / 2;

  __device__ __forceinline__ static uint32_t pair_of(uint32_t word, int i) {
    if constexpr (sizeof(T) == 2) {
      return word;
    } else if constexpr (std::is_same_v<T, Float8E4M3>) {
      uint32_t pair;
      asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"(static_cast<uint16_t>(word >> 16 * i)));
      return pair;
    } else { // the upper byte of a Float16 is a Float8E5M2
      return __byte_perm(word, 0, i == 0 ? 0x1404 : 0x3424);
    }
  }
  template <class To>
  __device__ __forceinline__ static To half_of(uint32_t pair, int which) {
    return bits_as<To>(static_cast<uint16_t>(pair >> 16 * which));
  }
  /// Halves that no element changed keep the low one above the high one.
  __device__ __forceinline__ static Value value_of(uint16_t half) {
    using Bits = typename UnsignedOf<sizeof(T)>::type;
    const auto bits = static_cast<Bits>(half >> 8 * (sizeof(uint16_t) - sizeof(T)));
    return static_cast<Value>(Number<T>::wide(bits_as<T>(bits)));
  }

  ExtremePairs<Half> pairs_[kNumPairs];
};

/// The extremes of the vec16s that a thread reads.
template <class T>
class RunningExtremes {
 public:
  __device__ __forceinline__ void add(const uint4& vec16) {
    const auto pack = bits_as<Pack<Word, 16 / sizeof(Word)>>(vec16);
#pragma unroll
    for (unsigned j = 0; j < 16 / sizeof(Word); ++j) {
      words_.add(pack.elements[j]);
    }
  }
  __device__ __forceinline__ Extremes<T> all() const {
    Extremes<T> all;
#pragma unroll
    for (int j = 0; j < WordExtremes<T>::kOf; ++j) {
      all.merge(words_.at(j));
    }
    return all;
  }

 private:
  using Word = typename WordExtremes<T>::Word;
  WordExtremes<T> words_;
};

/// The extremes of so many neighbouring lanes, a power of two.
template <class T>
__device__ __forceinline__ Extremes<T> extremes_of_lanes(Extremes<T> own, unsigned lanes) {
#pragma unroll
  for (unsigned step = kWarp / 2; step > 0; step /= 2) {
    const Extremes<T> other{
        __shfl_xor_sync(kAllLanes, own.low, step), __shfl_xor_sync(kAllLanes, own.high, step)};
    if (step < lanes) {
      own.merge(other);
    }
  }
  return own;
}

/// The extremes of all lanes that lie a multiple of `step`, a power of two, apart.
template <class T>
__device__ __forceinline__ Extremes<T> extremes_of_strided_lanes(Extremes<T> own, unsigned step) {
  for (; step < kWarp; step *= 2) {
    own.merge(
        {__shfl_xor_sync(kAllLanes, own.low, step), __shfl_xor_sync(kAllLanes, own.high, step)});
  }
  return own;
}

/// The extremes of a team, a block or some lanes, which all its threads get. A block waits once; it must
/// wait again before the next call.
template <bool kIsWarp, class T>
__device__ __forceinline__ Extremes<T> extremes_of(const Team<kIsWarp>& team, Extremes<T> own) {
  own = extremes_of_lanes(own, kIsWarp ? team.threads : kWarp);
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
    own = extremes_of_lanes(own, kWarp);
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
