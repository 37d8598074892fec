// Counts, extremes and exact sums of channels on a GPU, from one read.
#pragma once

#include <type_traits>

#include "core/exact_sum.h"
#include "core/moments.h"
#include "cuda/launch.h"
#include "cuda/plan/summary_plan.h"

namespace histo::cuda {

/// The rows that follow the digits of a channel.
struct RowsBehindDigits {
  static constexpr int kNaN = 0;
  static constexpr int kInfinities = 1;
  static constexpr int kZeros = 2;
  static constexpr int kAdded = 3; // rows that are sums of what blocks find
  // Keys of the extremes: the largest one is kept, and 0 is none.
  static constexpr int kLow = kAdded;
  static constexpr int kHigh = kAdded + 1;
  static constexpr int kRows = kAdded + 2;
};

/// What is found of a channel: so many numbers of 64 bits. First the digits of both sums.
template <class T>
struct SummaryRows {
  static constexpr DigitLayout kSum = layout_of_sum(kSumType<T>);
  static constexpr DigitLayout kSquares = layout_of_squares(kSumType<T>);
  static constexpr int kDigits = kSum.size + kSquares.size;
  static constexpr int kNaN = kDigits + RowsBehindDigits::kNaN;
  static constexpr int kInfinities = kDigits + RowsBehindDigits::kInfinities;
  static constexpr int kZeros = kDigits + RowsBehindDigits::kZeros;
  static constexpr int kAdded = kDigits + RowsBehindDigits::kAdded;
  static constexpr int kLow = kDigits + RowsBehindDigits::kLow;
  static constexpr int kHigh = kDigits + RowsBehindDigits::kHigh;
  static constexpr int kRows = kDigits + RowsBehindDigits::kRows;

  /// Whether a row is a digit that another one follows.
  HISTO_HOST_DEVICE static constexpr bool has_next(int row) {
    return row < kDigits - 1 && row != kSum.size - 1;
  }
};

/// How keys of extremes are made of values.
enum class KeyOf : uint8_t { kFloat, kInt64, kUInt64 };

template <class T>
constexpr KeyOf kKeyOf = Number<T>::kIsFloat           ? KeyOf::kFloat
                         : std::is_same_v<T, uint64_t> ? KeyOf::kUInt64
                                                       : KeyOf::kInt64;

// Adds to, or writes, what is found of each channel.
void summarize_streams(
    const SummaryPlan& plan,
    const Problem& problem,
    unsigned long long* found,
    const Launch& launch);
void summarize_columns(
    const SummaryPlan& plan,
    const Problem& problem,
    unsigned long long* found,
    const Launch& launch);

/// The digits of channels, and what follows them in rows of `step` numbers.
struct FoundRows {
  const int64_t* digits;
  int64_t step;
  int64_t channels;
  DigitLayout of_sum;
  DigitLayout of_squares;
};

/// Writes what a summary says of each channel.
void finish_summary(
    const FoundRows& found,
    int64_t elements,
    KeyOf keys,
    const Summary& results,
    const Launch& launch);

/// All of it.
void summarize(const Problem& problem, const Summary& results, const Launch& launch);

/// Writes mean, var, std, sum and sum of squares, [5, channels].
void moments_of_digits(
    const FoundRows& found, const int64_t* numbers, double* moments, const Launch& launch);

} // namespace histo::cuda
