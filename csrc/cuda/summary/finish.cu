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

using Behind = RowsBehindDigits;

/// The digits of the channels of a block, in shared memory.
struct BlockDigits {
  const FoundRows& found;
  int64_t* shared;

  __device__ explicit BlockDigits(const FoundRows& rows) : found(rows) {
    extern __shared__ int64_t words[];
    shared = words;
  }
  HISTO_HOST_DEVICE static int size(const FoundRows& found) {
    return found.of_sum.size + found.of_squares.size;
  }
  /// The numbers from one channel to the next: an odd number, so that banks differ.
  HISTO_HOST_DEVICE static int step(const FoundRows& found) {
    return size(found) | 1;
  }
  __device__ int64_t* of_lane() const {
    return shared + threadIdx.x % kWarp * step(found);
  }
  __device__ static int64_t channel() {
    return int64_t{blockIdx.x} * kWarp + threadIdx.x % kWarp;
  }
  /// Fetches them, and makes them canonical. All threads of the block must call it.
  __device__ SumDigits fetch() const {
    constexpr int kInFlight = 8;
    const auto part = static_cast<int>(threadIdx.x / kWarp);
    const bool exists = channel() < found.channels;
    const int64_t* of_channel = found.digits + channel() * found.step;
    int64_t* own = of_lane();
    for (int first = part; exists && first < size(found); first += kInFlight * kParts) {
      int64_t some[kInFlight];
#pragma unroll
      for (int j = 0; j < kInFlight; ++j) {
        const int i = first + j * kParts;
        some[j] = i < size(found) ? of_channel[i] : 0;
      }
#pragma unroll
      for (int j = 0; j < kInFlight; ++j) {
        const int i = first + j * kParts;
        if (i < size(found)) {
          own[i] = some[j];
        }
      }
    }
    __syncthreads();
    if (exists && part == kMeans) {
      normalize(own, found.of_sum.size);
    } else if (exists && part == kSquares) {
      normalize(own + found.of_sum.size, found.of_squares.size);
    }
    __syncthreads();
    return SumDigits(own, found.of_sum, found.of_squares);
  }
  /// Writes them, [channels, digits].
  __device__ void put(int64_t* to) const {
    for (auto i = static_cast<int>(threadIdx.x / kWarp); i < size(found); i += kParts) {
      if (channel() < found.channels) {
        to[channel() * size(found) + i] = of_lane()[i];
      }
    }
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
    const FoundRows found, int64_t elements, KeyOf keys, Summary results) {
  wait_for_previous(); // it finds them
  const int64_t channel = BlockDigits::channel();
  const bool exists = channel < found.channels;
  const int64_t* behind =
      found.digits + (exists ? channel : 0) * found.step + BlockDigits::size(found);
  const int64_t number = elements - behind[Behind::kNaN] - behind[Behind::kInfinities];
  const BlockDigits digits(found);
  const SumDigits own = digits.fetch();
  if (results.digits != nullptr) {
    digits.put(results.digits);
  }
  if (!exists) {
    return;
  }
  write_moments(own, number, results.numbers + 2 * found.channels, found.channels, channel);
  if (threadIdx.x / kWarp == kSquares) {
    constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
    const auto low = static_cast<unsigned long long>(behind[Behind::kLow]);
    const auto high = static_cast<unsigned long long>(behind[Behind::kHigh]);
    results.numbers[channel] = number > 0 ? value_of(~low, keys, false) : kNaN;
    results.numbers[found.channels + channel] = number > 0 ? value_of(high, keys, true) : kNaN;
    const int64_t counts[kSummaryCounts] = {
        elements, behind[Behind::kNaN], behind[Behind::kInfinities], behind[Behind::kZeros]};
    for (int i = 0; i < kSummaryCounts; ++i) {
      results.counts[i * found.channels + channel] = counts[i];
    }
  }
}

__global__ __launch_bounds__(kThreads) void moments_of_digits_kernel(
    const FoundRows found, const int64_t* numbers, double* moments) {
  const int64_t channel = BlockDigits::channel();
  const SumDigits own = BlockDigits(found).fetch();
  if (channel < found.channels) {
    write_moments(own, numbers[channel], moments, found.channels, channel);
  }
}

int64_t shared_bytes(const FoundRows& found) {
  return kWarp * BlockDigits::step(found) * int64_t{sizeof(int64_t)};
}

} // namespace

void finish_summary(
    const FoundRows& found,
    int64_t elements,
    KeyOf keys,
    const Summary& results,
    const Launch& launch) {
  start(
      launch, "finish_summary", finish_summary_kernel,
      LaunchShape{
          grid_of(ceil_div(found.channels, kWarp)), kThreads, shared_bytes(found), 1,
          launch.limits.has_clusters()},
      found, elements, keys, results);
}

void moments_of_digits(
    const FoundRows& found, const int64_t* numbers, double* moments, const Launch& launch) {
  if (found.channels > 0) {
    start(
        launch, "moments_of_digits", moments_of_digits_kernel,
        grid_of(ceil_div(found.channels, kWarp)), dim3(kThreads), shared_bytes(found), found,
        numbers, moments);
  }
}

} // namespace histo::cuda
