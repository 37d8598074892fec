// What a thread finds of the floats of a channel.
//
// Sums are exact, because values are sums of multiples of a few powers of two (float_multiples.cuh).
// The largest of these powers is chosen from some values, so that most values are below it. A value
// that does not fit is added by itself to digits in shared memory.
#pragma once

#include "cuda/summary/digit_table.cuh"
#include "cuda/summary/float_multiples.cuh"
#include "cuda/warp.cuh"

namespace histo::cuda {

/// Adds a number to the digits. It is called seldom, as add_scaled is.
template <class T, class F>
__device__ __noinline__ void add_to_digits(DigitTable table, F value) {
  using Format = FloatBits<F>;
  using Unsigned = typename Format::Bits;
  using Rows = SummaryRows<T>;
  if (!is_finite(value)) {
    table.add(is_nan(value) ? Rows::kNaN : Rows::kInfinities, 1);
    return;
  }
  const auto bits = bits_as<Unsigned>(value);
  const auto field = static_cast<int>(bits >> Format::kFraction) & (2 * Format::kBias + 1);
  const Unsigned fraction = bits & ((Unsigned{1} << Format::kFraction) - 1);
  const uint64_t magnitude = fraction | Unsigned{field != 0} << Format::kFraction;
  const int exponent = max(field, 1) - Format::kBias - Format::kFraction;
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
  using Format = FloatBits<F>;
  using Unsigned = typename Format::Bits;
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
    place(1 - Format::kBias);
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
    auto field = static_cast<unsigned>(bits_as<Unsigned>(largest) >> Format::kFraction);
#if __CUDA_ARCH__ >= 800
    // More values tell more of those to come: all that lanes choose from at the same time.
    field = __reduce_max_sync(__activemask(), field);
#endif
    const int above = max(static_cast<int>(field), 1) - Format::kBias + 1;
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
