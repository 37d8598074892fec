// Floats as sums of integer multiples of powers of two.
//
// (x + step) - step rounds x to a multiple of the last bit of `step`, and the bits of x + step are
// that multiple, as an integer. The rest, which is exact too, is rounded to multiples of a smaller
// number, and so on. (Rump, Ogita and Oishi; ReproBLAS.)
#pragma once

#include <limits>

#include "core/numbers.h"
#include "core/rounded.h"

namespace histo::cuda {

template <class F>
__device__ __forceinline__ bool is_finite(F value) {
  return value >= std::numeric_limits<F>::lowest() && value <= std::numeric_limits<F>::max();
}

template <class F>
__device__ __forceinline__ F power_of_two(int exponent) {
  using Format = FloatBits<F>;
  return bits_as<F>(
      static_cast<typename Format::Bits>(exponent + Format::kBias) << Format::kFraction);
}

/// Adding a step to a number below 2^top rounds it to a multiple of a power of two. That of each
/// level is about as many bits below the one before as the type has.
template <class F, int kLevels>
struct Steps {
  using Format = FloatBits<F>;
  F steps[kLevels];

  __device__ __forceinline__ void place(int top) {
#pragma unroll
    for (int i = 0; i < kLevels; ++i) {
      steps[i] = power_of_two<F>(top + 1 - i * Format::kFraction) * F{1.5};
    }
  }
  /// The exponent of a level's multiples.
  __device__ __forceinline__ static int exponent(int top, int level) {
    return top + 1 - Format::kFraction * (level + 1);
  }
};

/// Sums of floats that are multiples of two levels, as almost all are that lie below the same 2^top.
/// Squares are sums of products of these multiples, which integers have.
class FloatMultiples {
  using Of = Steps<float, 2>;

 public:
  /// The elements after which sums of all lanes may overflow: products have 44 bits.
  static constexpr int kMostAdditions = 1 << 13;
  /// Larger values have no steps.
  static constexpr int kHighestTop = FloatBits<float>::kBias - 3;

  __device__ __forceinline__ void place(int top) {
    steps_.place(top);
  }
  /// Adds values below 2^top, which `scale` is to bring there, if all are multiples of the first
  /// kLevels; or none.
  template <int kLevels, int kSize>
  __device__ __forceinline__ bool add(const float (&values)[kSize], float scale) {
    uint32_t left = 0;
    int sums[kLevels] = {};
    int64_t products[2 * kLevels - 1] = {};
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      int multiples[kLevels];
      // The rest of a multiple is +0, which has no bit set.
      float moved = fma(values[i], scale, steps_.steps[0]);
      float rest = fma(values[i], scale, rounded_sum(steps_.steps[0], -moved));
      multiples[0] = distance(moved, steps_.steps[0]);
      if constexpr (kLevels > 1) {
        moved = rounded_sum(rest, steps_.steps[1]);
        rest = rounded_sum(rest, rounded_sum(steps_.steps[1], -moved));
        multiples[1] = distance(moved, steps_.steps[1]);
      }
      left |= bits_as<uint32_t>(rest);
#pragma unroll
      for (int level = 0; level < kLevels; ++level) {
        sums[level] += multiples[level];
#pragma unroll
        for (int other = level; other < kLevels; ++other) {
          products[level + other] += int64_t{multiples[level]} * multiples[other];
        }
      }
    }
    if (left != 0) {
      return false;
    }
#pragma unroll
    for (int level = 0; level < kLevels; ++level) {
      sums_[level] += sums[level];
    }
#pragma unroll
    for (int levels = 0; levels < 2 * kLevels - 1; ++levels) {
      products_[levels] += products[levels];
    }
    return true;
  }
  /// Calls f(whether it is one of squares, exponent, sum) with all sums.
  template <class F>
  __device__ __forceinline__ void for_each_sum(int top, const F& f) {
    const int high = Of::exponent(top, 0), low = Of::exponent(top, 1);
    f(false, high, sums_[0]);
    f(false, low, sums_[1]);
    f(true, 2 * high, products_[0]);
    f(true, high + low + 1, products_[1]); // of both levels, twice
    f(true, 2 * low, products_[2]);
  }

 private:
  __device__ __forceinline__ static int distance(float moved, float step) {
    return static_cast<int>(bits_as<uint32_t>(moved) - bits_as<uint32_t>(step));
  }

  Of steps_;
  int64_t sums_[2] = {};
  int64_t products_[3] = {};
};

/// Sums of doubles that are multiples of some levels.
template <int kLevels>
struct Window : Steps<double, kLevels> {
  int64_t sums[kLevels] = {};

  /// Takes a multiple from a number: what is left is returned.
  __device__ __forceinline__ double take(
      double number, int level, uint64_t (&group)[kLevels]) const {
    const double step = this->steps[level], moved = rounded_sum(number, step);
    group[level] += bits_as<uint64_t>(moved);
    return rounded_sum(number, rounded_sum(step, -moved)); // +0 if nothing is left
  }
  /// Adds the sums of a group, to which each level has added as often as additions(level) says.
  template <class Additions>
  __device__ __forceinline__ void commit(
      const uint64_t (&group)[kLevels], const Additions& additions) {
#pragma unroll
    for (int i = 0; i < kLevels; ++i) {
      sums[i] += static_cast<int64_t>(
          group[i] - static_cast<uint64_t>(additions(i)) * bits_as<uint64_t>(this->steps[i]));
    }
  }
};

/// The same as FloatMultiples of doubles. A square is the sum of two numbers.
class DoubleMultiples {
  static constexpr int kOfSquares = 4;

 public:
  static constexpr int kMostAdditions = 1 << 9;
  static constexpr int kHighestTop = FloatBits<double>::kBias / 2 - 1; // of numbers with squares

  __device__ __forceinline__ void place(int top) {
    sum_.place(top);
    squares_.place(2 * top);
  }
  template <int kLevels, int kSize>
  __device__ __forceinline__ bool add(const double (&values)[kSize], double scale) {
    uint64_t of_sum[2] = {}, of_squares[kOfSquares] = {}, left = 0;
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      const double value = rounded_product(values[i], scale);
      const double rest = sum_.take(sum_.take(value, 0, of_sum), 1, of_sum);
      double square = rounded_product(value, value);
      double more = fma(value, value, -square);
#pragma unroll
      for (int level = 0; level < kOfSquares; ++level) {
        if (level < kOfSquares - 1) {
          square = squares_.take(square, level, of_squares);
        }
        if (level > 0) {
          more = squares_.take(more, level, of_squares);
        }
      }
      left |= bits_as<uint64_t>(rest) | bits_as<uint64_t>(square) | bits_as<uint64_t>(more);
    }
    if (left != 0) {
      return false;
    }
    sum_.commit(of_sum, [](int) { return kSize; });
    squares_.commit(of_squares, [](int level) {
      return level > 0 && level < kOfSquares - 1 ? 2 * kSize : kSize;
    });
    return true;
  }
  template <class F>
  __device__ __forceinline__ void for_each_sum(int top, const F& f) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      f(false, sum_.exponent(top, i), sum_.sums[i]);
    }
#pragma unroll
    for (int i = 0; i < kOfSquares; ++i) {
      f(true, squares_.exponent(2 * top, i), squares_.sums[i]);
    }
  }

 private:
  Window<2> sum_;
  Window<kOfSquares> squares_;
};

} // namespace histo::cuda
