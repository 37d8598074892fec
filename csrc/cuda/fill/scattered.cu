// Counts element by element in the result itself: for channels of few elements, and for more bins
// than a table in shared memory has.
#include <algorithm>
#include <iterator>

#include "cuda/axis/search.cuh"
#include "cuda/fill/fill.h"
#include "cuda/walk/walk.cuh"

namespace histo::cuda {
namespace {

constexpr int kThreads = kThreadsOfScattered;

__global__ __launch_bounds__(kThreads) void check_edges_kernel(
    const __grid_constant__ Edges edges, int64_t channels, uint8_t* __restrict__ valid) {
  for (int64_t channel = blockIdx.x; channel < channels; channel += gridDim.x) {
    const bool is_valid = are_valid(edges, channel);
    if (threadIdx.x == 0) {
      valid[channel] = is_valid;
    }
  }
}

struct Elements {
  Extent channels[2];
  Extent rows[3];
  int64_t num_channels;
  int64_t num_rows;
  bool side_by_side; // channels: neighbouring threads take neighbouring ones
};

template <class T>
__global__ __launch_bounds__(kThreads) void count_scattered_kernel(
    const T* __restrict__ data,
    const __grid_constant__ Elements in,
    const __grid_constant__ Edges edges,
    Flow flow,
    const uint8_t* __restrict__ valid,
    unsigned long long* __restrict__ counts) {
  const int64_t num_counts = flow.num_counts(edges.bins);
  const int64_t step = int64_t{gridDim.x} * kThreads;
  const int64_t elements = in.num_channels * in.num_rows;
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < elements; i += step) {
    const int64_t channel = in.side_by_side ? i % in.num_channels : i / in.num_rows;
    const int64_t row = in.side_by_side ? i / in.num_channels : i % in.num_rows;
    const T element = data[offset_in(in.channels, channel) + offset_in(in.rows, row)];
    const auto value = Number<T>::wide(element);
    int64_t slot = edges.bins + 2;
    if (!is_nan(value)) {
      if (!valid[edges.shared ? 0 : channel]) {
        continue;
      }
      slot = search_edges(edges, channel, real_of(value));
    }
    const int64_t at = flow.shown ? slot : slot - 1;
    if (at >= 0 && at < num_counts) {
      // Lanes that agree add once.
      const auto active = __activemask();
      unsigned long long* count = &counts[channel * num_counts + at];
      const unsigned same = __match_any_sync(active, reinterpret_cast<unsigned long long>(count));
      if (threadIdx.x % kWarp == static_cast<unsigned>(__ffs(same) - 1)) {
        atomicAdd(count, static_cast<unsigned long long>(__popc(same)));
      }
    }
  }
}

} // namespace

const uint8_t* check_channels(const Edges& edges, int64_t channels, const Launch& launch) {
  const int64_t checked = edges.shared ? 1 : channels;
  auto* valid = static_cast<uint8_t*>(launch.allocate(checked));
  start(
      launch, "check_edges", check_edges_kernel, grid_of(std::min<int64_t>(checked, 1 << 16)),
      dim3(kThreads), 0, edges, checked, valid);
  return valid;
}

void count_scattered_between(
    const EdgePlan& plan,
    const Problem& problem,
    const Edges& edges,
    const Flow& flow,
    const Launch& launch) {
  const uint8_t* valid = check_channels(edges, problem.num_channels(), launch);
  Elements in{};
  std::copy(std::begin(problem.channels), std::end(problem.channels), in.channels);
  std::copy(std::begin(problem.rows), std::end(problem.rows), in.rows);
  in.num_channels = problem.num_channels();
  in.num_rows = problem.num_rows();
  in.side_by_side =
      problem.channels[1].size > 1 && problem.channels[1].stride < problem.rows[2].stride;
  visit_number_type(problem.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    start(
        launch, "count_scattered", count_scattered_kernel<T>, grid_of(plan.blocks), dim3(kThreads),
        0, static_cast<const T*>(problem.data), in, edges, flow, valid,
        reinterpret_cast<unsigned long long*>(problem.counts));
  });
}

} // namespace histo::cuda
