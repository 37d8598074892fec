// What a summary knows of a channel.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/edges.h"
#include "core/exact_sum.h"
#include "core/numbers.h"
#include "cpu/kernels.h"
#include "cpu/summary/moments.h"

namespace histo::cpu {

template <class T>
struct Channel {
  static constexpr DigitLayout kSum = layout_of_sum(kSumType<T>);
  static constexpr DigitLayout kSquares = layout_of_squares(kSumType<T>);
  static constexpr int kDigits = kSum.size + kSquares.size;
  using Wide = typename Number<T>::Wide;
  // Numbers of floats are in their order, and both zeros have one.
  using Key = std::conditional_t<
      std::is_same_v<Wide, float>,
      int32_t,
      std::conditional_t<std::is_same_v<Wide, double>, int64_t, Wide>>;

  int64_t nan, infinities, zeros;
  Key low, high;     // low is above high if nothing is finite
  int64_t additions; // to a digit since it was canonical, at most
  int64_t digits[kDigits];

  void clear() {
    nan = infinities = zeros = additions = 0;
    low = std::numeric_limits<Key>::max();
    high = std::numeric_limits<Key>::lowest();
    std::fill(digits, digits + kDigits, 0);
  }
  int64_t* squares() {
    return digits + kSum.size;
  }
  /// Tells that digits are going to be added to, `count` times at most.
  void expect_additions(int64_t count) {
    additions += count;
    if (additions > kMostAdditions) {
      make_canonical();
      additions = count;
    }
  }
  void make_canonical() {
    normalize(digits, kSum.size);
    normalize(squares(), kSquares.size);
    additions = 0;
  }
  /// Both are canonical, and so is the result.
  void add(const Channel& other) {
    nan += other.nan;
    infinities += other.infinities;
    zeros += other.zeros;
    low = std::min(low, other.low);
    high = std::max(high, other.high);
    add_digits(digits, other.digits, kDigits);
    make_canonical();
  }
  /// Of canonical digits. `elements` is how many there were.
  void put(int64_t elements, int64_t channel, int64_t channels, const Summary& to) const {
    const int64_t counts[] = {elements, nan, infinities, zeros};
    const int64_t finite = elements - nan - infinities;
    const Moments moments = moments_of(digits, kSumType<T>, finite);
    constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
    const double numbers[] = {
        finite > 0 ? rounded_down<double>(wide(low)) : kNaN,
        finite > 0 ? rounded_up<double>(wide(high)) : kNaN,
        moments.mean,
        moments.var,
        moments.std,
        moments.sum,
        moments.sum_of_squares};
    static_assert(std::size(counts) == kSummaryCounts && std::size(numbers) == kSummaryNumbers);
    for (size_t i = 0; i < std::size(counts); ++i) {
      to.counts[static_cast<int64_t>(i) * channels + channel] = counts[i];
    }
    for (size_t i = 0; i < std::size(numbers); ++i) {
      to.numbers[static_cast<int64_t>(i) * channels + channel] = numbers[i];
    }
    if (to.digits != nullptr) {
      std::copy(digits, digits + kDigits, to.digits + channel * kDigits);
    }
  }

 private:
  static Wide wide(Key key) {
    if constexpr (Number<T>::kIsFloat) {
      return Number<Wide>::wide_at(key);
    } else {
      return key;
    }
  }
};

} // namespace histo::cpu
