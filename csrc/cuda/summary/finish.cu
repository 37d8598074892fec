// What a summary says of channels, from what was found of them.
#include "core/edges.h"
#include "cuda/pdl.cuh"
#include "cuda/summary/summary.h"
#include "cuda/warp.cuh"

namespace histo::cuda {
namespace {

// Each lane of a warp has a channel, and each warp of a block has one of these parts.
enum Part : int { kMeans, kSquares, kDeviations, kParts };
constexpr int kThreads = kParts * kWarp;

/// Makes the digits of a channel canonical, in memory of its own.
__device__ void copy_canonical(const int64_t* from, int size, int64_t* to) {
  int64_t carry = 0;
  for (int i = 0; i < size - 1; ++i) {
    const int64_t digit = from[i] + carry;
    to[i] = digit & kDigitMask;
    carry = digit >> kDigitBits;
  }
  to[size - 1] = from[size - 1] + carry;
}

/// Canonical digits of the channels of a block.
struct OwnDigits {
  int64_t* digits;

  /// All threads of the block must call it.
  __device__ SumDigits of(const FoundRows& found, int64_t channel) const {
    const int size = found.of_sum.size + found.of_squares.size;
    int64_t* own = digits + channel * size;
    const int part = static_cast<int>(threadIdx.x) / kWarp;
    if (channel < found.channels) {
      const int64_t* from = found.digits + channel * found.step;
      if (part == kMeans) {
        copy_canonical(from, found.of_sum.size, own);
      } else if (part == kSquares) {
        copy_canonical(from + found.of_sum.size, found.of_squares.size, own + found.of_sum.size);
      }
    }
    __syncthreads();
    return SumDigits(own, found.of_sum, found.of_squares);
  }
};

/// Writes a part of the moments of a channel, [kMoments, channels].
__device__ void write_moments(
    const SumDigits& digits, int64_t number, double* moments, int64_t channels, int64_t channel) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  double* own = moments + channel;
  switch (threadIdx.x / kWarp) {
    case kMeans:
      own[0] = number > 0 ? digits.mean(number) : kNaN;
      own[3 * channels] = number > 0 ? digits.sum() : 0;
      break;
    case kSquares:
      own[4 * channels] = number > 0 ? digits.sum_of_squares() : 0;
      break;
    default: {
      double var = kNaN, std = kNaN;
      if (number > 1) {
        digits.var_and_std(number, var, std);
      }
      own[channels] = var;
      own[2 * channels] = std;
    }
  }
}

/// A value from its key, rounded downwards or upwards.
__device__ double value_of(unsigned long long key, KeyOf keys, bool upwards) {
  const auto moved = static_cast<int64_t>(key ^ (1ull << 63));
  switch (keys) {
    case KeyOf::kFloat:
      return Number<double>::wide_at(moved);
    case KeyOf::kInt64:
      return upwards ? rounded_up<double>(moved) : rounded_down<double>(moved);
    default:
      return upwards ? rounded_up<double>(uint64_t{key}) : rounded_down<double>(uint64_t{key});
  }
}

__global__ __launch_bounds__(kThreads) void finish_summary_kernel(
    const FoundRows found, int64_t elements, KeyOf keys, Summary results, int64_t* digits) {
  wait_for_previous(); // it finds them
  const int64_t channel = int64_t{blockIdx.x} * kWarp + threadIdx.x % kWarp;
  const SumDigits own = OwnDigits{digits}.of(found, channel);
  if (channel >= found.channels) {
    return;
  }
  const int size = found.of_sum.size + found.of_squares.size;
  const int64_t* behind = found.digits + channel * found.step + size;
  const int64_t nan = behind[0], infinities = behind[1], zeros = behind[2];
  const int64_t number = elements - nan - infinities;
  write_moments(own, number, results.numbers + 2 * found.channels, found.channels, channel);
  if (threadIdx.x / kWarp == kSquares) {
    constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
    const auto low = static_cast<unsigned long long>(behind[3]);
    const auto high = static_cast<unsigned long long>(behind[4]);
    results.numbers[channel] = number > 0 ? value_of(~low, keys, false) : kNaN;
    results.numbers[found.channels + channel] = number > 0 ? value_of(high, keys, true) : kNaN;
    const int64_t counts[kSummaryCounts] = {elements, nan, infinities, zeros};
    for (int i = 0; i < kSummaryCounts; ++i) {
      results.counts[i * found.channels + channel] = counts[i];
    }
  }
}

__global__ __launch_bounds__(kThreads) void moments_of_digits_kernel(
    const FoundRows found, const int64_t* numbers, double* moments, int64_t* digits) {
  const int64_t channel = int64_t{blockIdx.x} * kWarp + threadIdx.x % kWarp;
  const SumDigits own = OwnDigits{digits}.of(found, channel);
  if (channel < found.channels) {
    write_moments(own, numbers[channel], moments, found.channels, channel);
  }
}

int64_t* allocate_digits(const FoundRows& found, const Launch& launch) {
  const int64_t size = found.of_sum.size + found.of_squares.size;
  return static_cast<int64_t*>(
      launch.allocate(found.channels * size * static_cast<int64_t>(sizeof(int64_t))));
}

} // namespace

void finish_summary(
    const FoundRows& found,
    int64_t elements,
    KeyOf keys,
    const Summary& results,
    const Launch& launch) {
  int64_t* digits = results.digits != nullptr ? results.digits : allocate_digits(found, launch);
  start(
      launch, "finish_summary", finish_summary_kernel,
      LaunchShape{
          grid_of(ceil_div(found.channels, kWarp)), kThreads, 0, 1, launch.limits.has_clusters()},
      found, elements, keys, results, digits);
}

void moments_of_digits(
    const FoundRows& found, const int64_t* numbers, double* moments, const Launch& launch) {
  if (found.channels > 0) {
    start(
        launch, "moments_of_digits", moments_of_digits_kernel,
        grid_of(ceil_div(found.channels, kWarp)), dim3(kThreads), 0, found, numbers, moments,
        allocate_digits(found, launch));
  }
}

} // namespace histo::cuda
