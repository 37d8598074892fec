// Channels of few rows: a warp sorts one in shared memory.
#include <algorithm>
#include <iterator>

#include "cuda/select/targets.cuh"
#include "cuda/walk/walk.cuh"

namespace histo::cuda {
namespace {

struct SortedRows {
  Extent channels[2];
  Extent rows[3];
  int64_t num_channels;
  unsigned num_rows;
};

/// Sorts 2^n keys: a bitonic network, all of whose steps put the smaller key first.
template <class Bits>
__device__ __forceinline__ void sort_keys(Bits* keys, unsigned size) {
  const unsigned lane = threadIdx.x % kWarp;
  for (unsigned width = 2; width <= size; width *= 2) {
    for (unsigned step = width / 2; step > 0; step /= 2) {
      for (unsigned i = lane; i < size / 2; i += kWarp) {
        const unsigned within = i & (step - 1), low = 2 * i - within;
        // The first step of a merge compares from both ends.
        const unsigned high = step == width / 2 ? low + width - 1 - 2 * within : low + step;
        const Bits a = keys[low], b = keys[high];
        if (b < a) {
          keys[low] = b;
          keys[high] = a;
        }
      }
      __syncwarp();
    }
  }
}

template <class Bits>
__global__ __launch_bounds__(kMostThreadsOfSort) void select_sorted_kernel(
    const Bits* __restrict__ data,
    const __grid_constant__ SortedRows in,
    KeyOrder<Bits> order,
    const __grid_constant__ SelectionPart part,
    unsigned size) {
  extern __shared__ __align__(16) unsigned char shared[];
  const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int64_t channel = int64_t{blockIdx.x} * (blockDim.x / kWarp) + warp;
  if (channel >= in.num_channels) {
    return;
  }
  Bits* keys = reinterpret_cast<Bits*>(shared) + warp * size;
  const Bits* first = data + offset_in(in.channels, channel);
  unsigned nans = 0;
  for (unsigned i = lane; i < size; i += kWarp) {
    Bits key = std::numeric_limits<Bits>::max();
    if (i < in.num_rows) {
      const Bits bits = first[offset_in(in.rows, i)];
      key = order.key(bits);
      nans += order.is_nan(bits);
    }
    keys[i] = key;
  }
  for (int step = kWarp / 2; step > 0; step /= 2) {
    nans += __shfl_xor_sync(kAllLanes, nans, step);
  }
  __syncwarp();
  sort_keys(keys, size);
  for (int64_t q = lane; q < part.num_q; q += kWarp) {
    SelectionPart own = part;
    own.first_q += q;
    for (unsigned target = 0; target < kTargetsOfQ; ++target) {
      const Ranks ranks = ranks_of_target(own, target, in.num_rows, nans);
      put_value(own, order, target, channel, ranks, keys[rank_of_target(ranks, target)]);
    }
  }
}

} // namespace

void select_sorted(const SelectPlan& plan, const SelectionPart& part, const Launch& launch) {
  const Problem& problem = part.selection.problem;
  SortedRows in{};
  std::copy(std::begin(problem.channels), std::end(problem.channels), in.channels);
  std::copy(std::begin(problem.rows), std::end(problem.rows), in.rows);
  in.num_channels = problem.num_channels();
  in.num_rows = static_cast<unsigned>(problem.num_rows());
  visit_bits(problem.type, [&](auto tag) {
    using Bits = typename decltype(tag)::type;
    start(
        launch, "select_sorted", select_sorted_kernel<Bits>, grid_of(plan.blocks),
        dim3(static_cast<unsigned>(plan.threads)), plan.shared_bytes,
        static_cast<const Bits*>(problem.data), in, KeyOrder<Bits>::of(problem.type), part,
        plan.sorted);
  });
}

} // namespace histo::cuda
