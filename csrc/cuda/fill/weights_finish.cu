// Kernels that finish sums of weights, bin by bin: digits become canonical, are rounded, or are those of
// counts times a weight.
#include <algorithm>

#include "cuda/fill/weights.h"
#include "cuda/pdl.cuh"
#include "cuda/walk/raw.cuh"
#include "cuda/walk/walk.cuh"

namespace histo::cuda {
namespace {

constexpr int kThreads = 128;

/// Calls f(bin) with the bins of a thread.
template <class F>
__device__ __forceinline__ void for_each_bin(int64_t bins, const F& f) {
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t bin = blockIdx.x * int64_t{kThreads} + threadIdx.x; bin < bins; bin += step) {
    f(bin);
  }
}

__global__ __launch_bounds__(kThreads) void normalize_kernel(
    int64_t* __restrict__ digits, int64_t bins, SumLayout layout) {
  wait_for_previous(); // it adds to the digits
  for_each_bin(bins, [&](int64_t bin) { normalize_sum(digits + bin * layout.size(), layout); });
}

/// kSize: the numbers of a bin, which are loaded together.
template <int kSize>
__global__ __launch_bounds__(kThreads) void round_kernel(
    const int64_t* __restrict__ digits, int64_t bins, double* __restrict__ sums) {
  constexpr SumLayout kLayout = sum_layout_of_size(kSize);
  wait_for_previous(); // it adds to the digits
  for_each_bin(bins, [&](int64_t bin) {
    int64_t own[kSize];
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      own[i] = digits[bin * kSize + i];
    }
    normalize_sum(own, kLayout);
    sums[bin] = round_sum(own, kLayout);
  });
}

__global__ __launch_bounds__(kThreads) void multiply_kernel(
    const int64_t* __restrict__ counts,
    const __grid_constant__ View weights,
    unsigned weight_bytes,
    int64_t num_bins,
    int64_t num_sums,
    int64_t* __restrict__ sums,
    double* __restrict__ rounded) {
  const SumLayout layout = sum_layout(weights.type);
  for_each_bin(num_sums, [&](int64_t i) {
    const int64_t offset = offset_in(weights.channels, i / num_bins) * weight_bytes;
    const RawBits raw = load_raw(static_cast<const char*>(weights.data) + offset, weight_bytes);
    int64_t own[kMostNumbersOfSum];
    visit_raw(weights.type, raw, [&](auto weight) { put_equal_weights(weight, counts[i], own); });
    if (rounded != nullptr) {
      rounded[i] = round_sum(own, layout);
      return;
    }
    for (int j = 0; j < layout.size(); ++j) {
      sums[i * layout.size() + j] = own[j];
    }
  });
}

dim3 grid_for(int64_t bins, const Launch& launch) {
  return grid_of(std::min<int64_t>(ceil_div(bins, kThreads), int64_t{16} * launch.limits.sm_count));
}

} // namespace

void normalize_sums(int64_t* digits, int64_t bins, int size, const Launch& launch, bool overlaps) {
  if (bins > 0) {
    start(
        launch, "normalize_sums", normalize_kernel,
        LaunchShape{grid_for(bins, launch), kThreads, 0, 1, overlaps}, digits, bins,
        sum_layout_of_size(size));
  }
}

void round_sums(
    const int64_t* digits,
    int64_t bins,
    int size,
    double* sums,
    const Launch& launch,
    bool overlaps) {
  const auto with = [&](auto kernel) {
    if (bins > 0) {
      start(
          launch, "round_sums", kernel,
          LaunchShape{grid_for(bins, launch), kThreads, 0, 1, overlaps}, digits, bins, sums);
    }
  };
  switch (size) {
    case sum_layout(ElementType::kFloat16).size():
      return with(round_kernel<sum_layout(ElementType::kFloat16).size()>);
    case sum_layout(ElementType::kFloat32).size():
      return with(round_kernel<sum_layout(ElementType::kFloat32).size()>);
    case sum_layout(ElementType::kFloat64).size():
      return with(round_kernel<sum_layout(ElementType::kFloat64).size()>);
    default:
      no_kernel("round_sums");
  }
}

void sum_equal_weights(
    const Problem& problem, const int64_t* counts, double* rounded, const Launch& launch) {
  const View& weights = problem.operand(1);
  start(
      launch, "multiply_counts", multiply_kernel, grid_for(problem.num_counts(), launch), kThreads,
      0, counts, weights, static_cast<unsigned>(bytes_of_type(weights.type)), problem.num_bins,
      problem.num_counts(), problem.counts, rounded);
}

} // namespace histo::cuda
