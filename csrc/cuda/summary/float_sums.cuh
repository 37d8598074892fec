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

/// Multiples of kLevels powers of two that numbers below 2^top are sums of. Each is about as many
/// bits below the one before as the type has.
template <class F, int kLevels>
struct Window {
  using Bits = FloatBits<F>;
  using Unsigned = typename Bits::Unsigned;

  F steps[kLevels];
  int64_t sums[kLevels] = {};

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
  /// Takes a multiple from a number: what is left is returned.
  __device__ __forceinline__ F take(F number, int level, Unsigned (&group)[kLevels]) const {
    const F moved = rounded_sum(number, steps[level]);
    group[level] += bits_as<Unsigned>(moved);
    return rounded_sum(number, rounded_sum(steps[level], -moved)); // +0 if nothing is left
  }
  /// Adds the sums of a group, to which each level has added as often as additions(level) says.
  template <class Additions>
  __device__ __forceinline__ void commit(
      const Unsigned (&group)[kLevels], const Additions& additions) {
#pragma unroll
    for (int i = 0; i < kLevels; ++i) {
      const Unsigned sum =
          group[i] - static_cast<Unsigned>(additions(i)) * bits_as<Unsigned>(steps[i]);
      sums[i] += static_cast<typename Bits::Signed>(sum);
    }
  }
  /// The sum of a level over all lanes of a warp; 0 if there is no such level.
  __device__ __forceinline__ int64_t sum_of_warp(int level) const {
    int64_t found = 0;
#pragma unroll
    for (int i = 0; i < kLevels; ++i) {
      int64_t sum = sums[i];
#pragma unroll
      for (int step = kWarp / 2; step > 0; step /= 2) {
        sum += __shfl_xor_sync(kAllLanes, sum, step);
      }
      found = level == i ? sum : found;
    }
    return found;
  }
  /// Moves the sums to digits from a row on. `shift`: the numbers were multiplied by 2^shift.
  __device__ __forceinline__ void move_to(
      const DigitTable& table, int row, int lowest, int top, int shift) {
#pragma unroll
    for (int i = 0; i < kLevels; ++i) {
      add_scaled(table, row, lowest, exponent(top, i) - shift, sums[i]);
      sums[i] = 0;
    }
  }
};

/// How many levels the windows of a type have.
template <class T>
struct Levels {
  static constexpr int kOfSum = sizeof(T) == 1 ? 1 : 2;
  static constexpr int kOfSquares = sizeof(T) == 1 ? 2 : sizeof(T) == 2 ? 3 : 4;
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
  static constexpr int kOfSum = Levels<T>::kOfSum;
  static constexpr int kOfSquares = Levels<T>::kOfSquares;
  // Squares of other types are exact in F. Those of F itself are the sum of two numbers.
  static constexpr bool kInTwo = std::is_same_v<T, F>;
  // So short values are mostly multiples of the first level: then integers have their squares.
  // Case: bfloat16 [2^25] summarize. Values of float16 have too many bits.
  static constexpr bool kIsShort = std::is_same_v<T, BFloat16>;
  // Values that so many windows did not fit are hardly ever such multiples.
  static constexpr int kMostFailures = 4;
  // A window begins at so many times the largest of the values that it is chosen from.
  static constexpr int kLogMargin = 2;
  // Larger values have no window, since their squares are too large.
  static constexpr int kHighestTop = Bits::kBias / 2 - 1;
  // The elements after which sums are moved to digits, or they may overflow.
  static constexpr int kMostAdditions = kIsShort ? 1 << 13 : sizeof(F) == 4 ? 1 << 30 : 1 << 9;

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
    if (in_window && (add_multiples(values) || add_group(values))) {
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
    // A lane gets the sum of a level.
    const auto lane = static_cast<int>(threadIdx.x) % kWarp;
    const int64_t of_sum = sum_.sum_of_warp(lane);
    int64_t of_squares = squares_.sum_of_warp(lane - kOfSum);
    const bool is_sum = lane < kOfSum;
    const int level = is_sum ? lane : lane - kOfSum;
    const int scale = is_sum ? 1 : 2;
    int exponent = Window<F, kOfSum>::exponent(scale * top, level) - scale * shift;
    if constexpr (kIsShort) {
      const int64_t of_multiples = ::histo::cuda::sum_of_warp(squares_of_multiples_);
      if (lane == kOfSum + kOfSquares) {
        of_squares = of_multiples;
        exponent = exponent_of_multiples(top) - 2 * shift;
      }
    }
    const int lowest = is_sum ? Rows::kSum.lowest : Rows::kSquares.lowest;
    const int row = is_sum ? 0 : Rows::kSum.size;
    add_scaled(table_, row, lowest, exponent, is_sum ? of_sum : of_squares);
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

  /// Places the windows for values of less than 2^exponent. So small ones are multiplied by a power
  /// of two that squares are normal numbers. Larger ones are not: nothing of them may get lost.
  __device__ __forceinline__ void place(int exponent) {
    top_ = max(exponent, 0);
    limit_ = power_of_two<F>(exponent);
    sum_.place(top_);
    squares_.place(2 * top_);
    shift_ = top_ - exponent;
    scale_ = power_of_two<F>(shift_);
  }
  /// The same for some values; false if one of the extremes is not finite, or is too large.
  __device__ __forceinline__ bool place_for(F low, F high) {
    const F largest = max(-low, high);
    if (!(largest < power_of_two<F>(kHighestTop)) || !(low <= high)) {
      return false;
    }
    auto field = static_cast<unsigned>(bits_as<Unsigned>(largest) >> Bits::kFraction);
#if __CUDA_ARCH__ >= 800
    // More values tell more of those to come: all that lanes choose from at the same time.
    field = __reduce_max_sync(__activemask(), field);
#endif
    const int above = max(static_cast<int>(field), 1) - Bits::kBias + 1;
    move_sums();
    place(min(above + kLogMargin, kHighestTop));
    return true;
  }
  __device__ __forceinline__ void move_sums() {
    if (additions_ == 0) {
      return;
    }
    sum_.move_to(table_, 0, Rows::kSum.lowest, top_, shift_);
    squares_.move_to(table_, Rows::kSum.size, Rows::kSquares.lowest, 2 * top_, 2 * shift_);
    if constexpr (kIsShort) {
      const int exponent = exponent_of_multiples(top_) - 2 * shift_;
      add_scaled(table_, Rows::kSum.size, Rows::kSquares.lowest, exponent, squares_of_multiples_);
      squares_of_multiples_ = 0;
    }
    additions_ = 0;
  }
  __device__ __forceinline__ static int exponent_of_multiples(int top) {
    return 2 * Window<F, kOfSum>::exponent(top, 0);
  }
  __device__ __forceinline__ void count_additions(int more) {
    additions_ += more;
    if (kMostAdditions < 1 << 30 && additions_ >= kMostAdditions) {
      move_sums();
    }
  }

  /// Adds short values below the limit, if all are multiples of the first level; or none.
  template <int kSize>
  __device__ __forceinline__ bool add_multiples(const F (&values)[kSize]) {
    if constexpr (kIsShort) {
      if (failures_ >= kMostFailures) {
        return false;
      }
      const F step = sum_.steps[0];
      const auto zero = bits_as<Unsigned>(step);
      Unsigned left = 0;
      int sum = 0;
      int64_t squares = 0;
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        const F moved = fma(values[i], scale_, step);
        const F rest = fma(values[i], scale_, rounded_sum(step, -moved));
        left |= bits_as<Unsigned>(rest);
        const auto multiple = static_cast<int>(bits_as<Unsigned>(moved) - zero);
        sum += multiple;
        squares += int64_t{multiple} * multiple;
      }
      if (left == 0) {
        sum_.sums[0] += sum;
        squares_of_multiples_ += squares;
        count_additions(kSize);
        return true;
      }
    }
    return false;
  }

  /// Adds values below the limit; or none, if there is a rest.
  template <int kSize>
  __device__ __forceinline__ bool add_group(const F (&values)[kSize]) {
    Unsigned of_sum[kOfSum] = {}, of_squares[kOfSquares] = {}, left = 0;
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      const F value = rounded_product(values[i], scale_);
      F rest = value;
#pragma unroll
      for (int level = 0; level < kOfSum; ++level) {
        rest = sum_.take(rest, level, of_sum);
      }
      left |= bits_as<Unsigned>(rest);
      F square = rounded_product(value, value);
      F more = kInTwo ? fma(value, value, -square) : 0;
#pragma unroll
      for (int level = 0; level < kOfSquares; ++level) {
        if (!kInTwo || level < kOfSquares - 1) {
          square = squares_.take(square, level, of_squares);
        }
        if (kInTwo && level > 0) {
          more = squares_.take(more, level, of_squares);
        }
      }
      left |= bits_as<Unsigned>(square) | bits_as<Unsigned>(more);
    }
    if (left != 0) {
      limit_ = 0; // others may fit better
      ++failures_;
      return false;
    }
    sum_.commit(of_sum, [](int) { return kSize; });
    squares_.commit(of_squares, [](int level) {
      return kInTwo && level > 0 && level < kOfSquares - 1 ? 2 * kSize : kSize;
    });
    count_additions(kSize);
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
  Window<F, kOfSum> sum_;
  Window<F, kOfSquares> squares_;
  int64_t squares_of_multiples_ = 0; // of short values
  F limit_, scale_;
  int top_, shift_;
  int additions_ = 0; // since the sums were moved
  uint32_t zeros_ = 0;
  int failures_ = 0; // of windows
  F low_ = std::numeric_limits<F>::max();
  F high_ = std::numeric_limits<F>::lowest();
};

} // namespace histo::cuda
