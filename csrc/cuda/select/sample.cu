// A sample of each channel, and its values near some quantiles.
#include "cuda/select/sample.h"

#include <algorithm>
#include <iterator>

#include "cuda/policy_select.h"
#include "cuda/select/sort_keys.cuh"
#include "cuda/walk/walk.cuh"

namespace histo::cuda {
namespace {

struct SampledChannels {
  Extent channels[2];
  Extent rows[3];
  int64_t num_channels;
  int64_t num_rows;
  int64_t size; // of the sample of a channel
  bool side_by_side;
};

/// A thread takes one element, somewhere in its part of the rows. Equal steps could take a single
/// column of a matrix, and columns may differ.
template <class Bits>
__global__ __launch_bounds__(kThreadsOfSample) void sample_kernel(
    const Bits* __restrict__ data,
    const __grid_constant__ SampledChannels in,
    const double* __restrict__ q,
    int64_t num_q,
    Bits* __restrict__ values,
    double* __restrict__ ends,
    unsigned long long* __restrict__ zeroed,
    int64_t words) {
  const int64_t i = int64_t{blockIdx.x} * kThreadsOfSample + threadIdx.x;
  const int64_t channel = in.side_by_side ? i % in.num_channels : i / in.size;
  const int64_t part = in.side_by_side ? i / in.num_channels : i % in.size;
  const int64_t part_rows = in.num_rows / in.size;
  const uint64_t random = static_cast<uint32_t>(part) * 0x9e3779b9u;
  const int64_t row =
      part * part_rows + static_cast<int64_t>(random * static_cast<uint64_t>(part_rows) >> 32);
  if (channel < in.num_channels && part < in.size) {
    values[channel * in.size + part] =
        data[offset_in(in.channels, channel) + offset_in(in.rows, row)];
  }
  if (i < words) {
    zeroed[i] = 0;
  }
  if (i < num_q) {
    const double middle = q[i] >= 0 && q[i] <= 1 ? q[i] : 0.5;
    const auto size = static_cast<double>(in.size);
    const double margin =
        kSampleDeviations * std::sqrt(middle * (1 - middle) / size) + kSampleMargin / size;
    ends[2 * i] = max(middle - margin, 0.0);
    ends[2 * i + 1] = min(middle + margin, 1.0);
  }
}

} // namespace

SampleEnds find_sample_ends(
    const SelectionPart& part,
    int64_t size,
    bool side_by_side,
    unsigned long long* zeroed,
    int64_t words,
    const Launch& launch) {
  Problem problem = part.selection.problem;
  const int64_t element_bytes = bytes_of_type(problem.type), num_q = part.num_q;
  const int64_t channels = problem.num_channels(), ends = 2 * num_q * channels;
  SampledChannels in{{}, {}, channels, problem.num_rows(), size, side_by_side};
  std::copy(std::begin(problem.channels), std::end(problem.channels), in.channels);
  std::copy(std::begin(problem.rows), std::end(problem.rows), in.rows);
  void* values = launch.allocate(channels * size * element_bytes);
  auto* q = static_cast<double*>(launch.allocate(2 * num_q * int64_t{sizeof(double)}));
  visit_wide_bits(problem.type, [&](auto tag) {
    using Bits = typename decltype(tag)::type;
    start(
        launch, "sample", sample_kernel<Bits>,
        LaunchShape{grid_of(ceil_div(channels * size, kThreadsOfSample)), kThreadsOfSample},
        static_cast<const Bits*>(problem.data), in, part.selection.q + part.first_q, num_q,
        static_cast<Bits*>(values), q, zeroed, words);
  });
  problem.data = values;
  problem.channels[0] = {1, 0};
  problem.channels[1] = {channels, size};
  problem.rows[0] = problem.rows[1] = {1, 0};
  problem.rows[2] = {size, 1};
  void* below = launch.allocate(ends * element_bytes);
  void* above = launch.allocate(ends * element_bytes);
  void* weights = launch.allocate(ends * int64_t{sizeof(double)});
  select(
      {problem, q, 2 * num_q, true, Interpolation::kNearest, true, below, above, weights}, launch);
  return {below, q};
}

} // namespace histo::cuda
