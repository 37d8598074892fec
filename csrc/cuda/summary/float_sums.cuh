// What a thread finds of the floats of a channel.
//
// A sum is exact by its leading bits: (x + step) - step rounds x to a multiple of the last bit of
// `step`, and the bits of x + step are that multiple, as an integer. The rest, which is exact too,
// is rounded to multiples of a smaller number, and so on. (Rump, Ogita and Oishi; ReproBLAS.) Where
// these begin is chosen from the values: a window, which most values lie in. Others are added one
// by one to digits in shared memory.
#pragma once

#include <limits>

#include "core/rounded.h"
#include "cuda/summary/digit_table.cuh"
#include "cuda/warp.cuh"

namespace histo::cuda {

template <class F>
__device__ __forceinline__ bool is_finite(F value) {
  return value >= std::numeric_limits<F>::lowest() && value <= std::numeric_limits<F>::max();
}

template <class F>
struct FloatBits;
template <>
struct FloatBits<float> {
  using Unsigned = uint32_t;
  using Signed = int32_t;
  static constexpr int kFraction = 23;
  static constexpr int kBias = 127;
};
template <>
struct FloatBits<double> {
  using Unsigned = uint64_t;
  using Signed = int64_t;
  static constexpr int kFraction = 52;
  static constexpr int kBias = 1023;
};

template <class F>
__device__ __forceinline__ F power_of_two(int exponent) {
  using Bits = FloatBits<F>;
  return bits_as<F>(
      static_cast<typename Bits::Unsigned>(exponent + Bits::kBias) << Bits::kFraction);
}

/// Adding a step to a number below 2^top rounds it to a multiple of a power of two. That of each
/// level is about as many bits below the one before as the type has.
template <class F, int kLevels>
struct Steps {
  using Bits = FloatBits<F>;
  F steps[kLevels];

  __device__ __forceinline__ void place(int top) {
#pragma unroll
    for (int i = 0; i < kLevels; ++i) {
      steps[i] = power_of_two<F>(top + 1 - i * Bits::kFraction) * F{1.5};
    }
  }
  /// The exponent of a level's multiples.
  __device__ __forceinline__ static int exponent(int top, int level) {
    return top + 1 - Bits::kFraction * (level + 1);
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

/// Adds a number to the digits. It is called seldom, as add_scaled is.
template <class T, class F>
__device__ __noinline__ void add_to_digits(DigitTable table, F value) {
  using Bits = FloatBits<F>;
  using Unsigned = typename Bits::Unsigned;
  using Rows = SummaryRows<T>;
  if (!is_finite(value)) {
    table.add(is_nan(value) ? Rows::kNaN : Rows::kInfinities, 1);
    return;
  }
  const auto bits = bits_as<Unsigned>(value);
  const auto field = static_cast<int>(bits >> Bits::kFraction) & (2 * Bits::kBias + 1);
  const Unsigned fraction = bits & ((Unsigned{1} << Bits::kFraction) - 1);
  const uint64_t magnitude = fraction | Unsigned{field != 0} << Bits::kFraction;
  const int exponent = max(field, 1) - Bits::kBias - Bits::kFraction;
  table.add(0, Rows::kSum.lowest, exponent, magnitude, value < 0);
  const int row = Rows::kSum.size;
  table.add(row, Rows::kSquares.lowest, 2 * exponent, magnitude * magnitude, false);
  if constexpr (sizeof(F) == 8) {
    const uint64_t high = __umul64hi(magnitude, magnitude);
    table.add(row, Rows::kSquares.lowest, 2 * exponent + 64, high, false);
  }
}

template <class T>
class FloatSums {
  using F = typename Number<T>::Wide;
  using Bits = FloatBits<F>;
  using Unsigned = typename Bits::Unsigned;
  using Rows = SummaryRows<T>;
  using Multiples = std::conditional_t<sizeof(F) == 8, DoubleMultiples, FloatMultiples>;
  // So short values are mostly multiples of the first level alone. Case: bfloat16 [2^25] summarize.
  // Values of float16 have too many bits.
  static constexpr bool kIsShort = std::is_same_v<T, BFloat16>;
  // Values that are not, so often, hardly ever are.
  static constexpr int kMostFailures = 4;
  // Those of one byte have few bits, and fit the first level.
  static constexpr int kLevels = sizeof(T) == 1 ? 1 : 2;
  // A window begins at so many times the largest of the values that it is chosen from.
  static constexpr int kLogMargin = 2;

 public:
  /// `table` has what does not fit elsewhere, and all of it in the end.
  __device__ __forceinline__ void begin(const DigitTable& table) {
    table_ = table;
    place(1 - Bits::kBias);
    limit_ = 0; // the first values choose others
  }

  template <int kSize>
  __device__ __forceinline__ void add(const T (&elements)[kSize]) {
    F values[kSize];
    F low = Number<T>::wide(elements[0]), high = low;
    uint32_t zeros = 0;
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      values[i] = Number<T>::wide(elements[i]);
      low = min(low, values[i]);
      high = max(high, values[i]);
      zeros += values[i] == 0 ? 1 : 0;
    }
    zeros_ += zeros;
    // What is false for NaN is written so. NaN beside numbers leaves a rest.
    bool in_window = low > -limit_ && high < limit_;
    if (!in_window) {
      in_window = place_for(low, high);
    }
    if (in_window && add_multiples(values)) {
      low_ = min(low_, low);
      high_ = max(high_, high);
    } else {
      add_one_by_one(values);
    }
  }
  /// Adds one that no others are there for.
  __device__ __forceinline__ void add(T element) {
    const F value = Number<T>::wide(element);
    zeros_ += value == 0 ? 1 : 0;
    add_one(value);
  }
  /// Adds to the table what it does not have yet. Nothing can be added any more.
  __device__ __forceinline__ void finish() {
    move_sums();
    table_.add(Rows::kZeros, int64_t{zeros_});
  }
  /// The same for all lanes of a warp, which have one channel. If their windows are the same, as
  /// they mostly are, their sums are added first.
  __device__ __forceinline__ void finish_warp() {
    __syncwarp();
    const bool is_empty = additions_ == 0;
    const unsigned others = __ballot_sync(kAllLanes, !is_empty);
    const int leader = max(__ffs(static_cast<int>(others)) - 1, 0);
    const int top = __shfl_sync(kAllLanes, top_, leader);
    const int shift = __shfl_sync(kAllLanes, shift_, leader);
    const bool is_same = is_empty || (top == top_ && shift == shift_);
    // The sums of float64 have no room for those of other lanes.
    if (sizeof(F) == 8 || __any_sync(kAllLanes, !is_same)) {
      finish();
      return;
    }
    // A lane gets one of the sums.
    const auto lane = static_cast<int>(threadIdx.x) % kWarp;
    int index = 0, row = 0, lowest = 0, exponent = 0;
    int64_t number = 0;
    multiples_.for_each_sum(top, [&](bool is_square, int of, int64_t sum) {
      const int64_t all = sum_of_warp(sum);
      if (lane == index) {
        row = is_square ? Rows::kSum.size : 0;
        lowest = is_square ? Rows::kSquares.lowest : Rows::kSum.lowest;
        exponent = of - (is_square ? 2 : 1) * shift;
        number = all;
      }
      ++index;
    });
    add_scaled(table_, row, lowest, exponent, number);
    table_.add(Rows::kZeros, int64_t{zeros_});
  }
  /// Keys of the extremes, the larger ones of which are further out. 0: nothing is finite.
  __device__ __forceinline__ unsigned long long low_key() const {
    return low_ <= high_ ? ~key_of(low_) : 0;
  }
  __device__ __forceinline__ unsigned long long high_key() const {
    return low_ <= high_ ? key_of(high_) : 0;
  }

 private:
  __device__ __forceinline__ static unsigned long long key_of(F value) {
    const int64_t ordinal = Number<double>::ordinal_of(static_cast<double>(value));
    return static_cast<unsigned long long>(ordinal) ^ (1ull << 63);
  }

  /// Places the steps for values of less than 2^exponent. So small ones are multiplied by a power of
  /// two that steps and squares are normal numbers. Larger ones are not: nothing of them may get lost.
  __device__ __forceinline__ void place(int exponent) {
    top_ = max(exponent, 0);
    limit_ = power_of_two<F>(exponent);
    multiples_.place(top_);
    shift_ = top_ - exponent;
    scale_ = power_of_two<F>(shift_);
  }
  /// The same for some values; false if one of the extremes is not finite, or is too large.
  __device__ __forceinline__ bool place_for(F low, F high) {
    const F largest = max(-low, high);
    if (!(largest < power_of_two<F>(Multiples::kHighestTop)) || !(low <= high)) {
      return false;
    }
    auto field = static_cast<unsigned>(bits_as<Unsigned>(largest) >> Bits::kFraction);
#if __CUDA_ARCH__ >= 800
    // More values tell more of those to come: all that lanes choose from at the same time.
    field = __reduce_max_sync(__activemask(), field);
#endif
    const int above = max(static_cast<int>(field), 1) - Bits::kBias + 1;
    move_sums();
    place(min(above + kLogMargin, Multiples::kHighestTop));
    return true;
  }
  __device__ __forceinline__ void move_sums() {
    if (additions_ == 0) {
      return;
    }
    multiples_.for_each_sum(top_, [&](bool is_square, int exponent, int64_t& sum) {
      if (is_square) {
        add_scaled(table_, Rows::kSum.size, Rows::kSquares.lowest, exponent - 2 * shift_, sum);
      } else {
        add_scaled(table_, 0, Rows::kSum.lowest, exponent - shift_, sum);
      }
      sum = 0;
    });
    additions_ = 0;
  }

  /// Adds values below the limit; or none, if there is a rest.
  template <int kSize>
  __device__ __forceinline__ bool add_multiples(const F (&values)[kSize]) {
    if constexpr (kIsShort) {
      if (failures_ < kMostFailures && multiples_.template add<1>(values, scale_)) {
        return count_additions(kSize);
      }
      ++failures_;
    }
    if (multiples_.template add<kLevels>(values, scale_)) {
      return count_additions(kSize);
    }
    limit_ = 0; // others may fit better
    return false;
  }
  __device__ __forceinline__ bool count_additions(int more) {
    additions_ += more;
    if (additions_ >= Multiples::kMostAdditions) {
      move_sums();
    }
    return true;
  }

  template <int kSize>
  __device__ __forceinline__ void add_one_by_one(F (&values)[kSize]) {
#pragma unroll 1
    for (int i = 0; i < kSize; ++i) {
      add_one(values[0]);
#pragma unroll
      for (int j = 0; j < kSize - 1; ++j) { // an index that is not known needs memory
        values[j] = values[j + 1];
      }
    }
  }
  __device__ __forceinline__ void add_one(F value) {
    if (is_finite(value)) {
      low_ = min(low_, value);
      high_ = max(high_, value);
    }
    add_to_digits<T>(table_, value);
  }

  DigitTable table_;
  Multiples multiples_;
  F limit_, scale_;
  int top_, shift_;
  int additions_ = 0; // since the sums were moved
  uint32_t zeros_ = 0;
  int failures_ = 0; // of the first level, of short values
  F low_ = std::numeric_limits<F>::max();
  F high_ = std::numeric_limits<F>::lowest();
};

} // namespace histo::cuda
