// Channels of few rows: a warp sorts one in registers.
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

template <class Bits>
using SortWord = std::conditional_t<sizeof(Bits) == 8, unsigned long long, unsigned>;

/// The keys of a warp, a bitonic network all of whose steps put the smaller key first. Lane i has
/// those of places i * kEach and up.
template <class Word, int kEach>
struct KeysOfWarp {
  Word keys[kEach];

  /// Sorts those of the first lanes, a power of two of them.
  __device__ __forceinline__ void sort(unsigned lanes) {
#pragma unroll
    for (int width = 2; width <= kEach; width *= 2) {
      // The first step of a merge compares from both ends.
      order_pairs(width / 2, width - 1);
      order_within(width / 4);
    }
#pragma unroll 1
    for (unsigned width = 2; width <= lanes; width *= 2) {
      order_lanes<kEach - 1>(width - 1, width / 2);
#pragma unroll 1
      for (unsigned step = width / 4; step > 0; step /= 2) {
        order_lanes<0>(step, step);
      }
      order_within(kEach / 2);
    }
  }
  /// The key of a place, which each lane chooses for itself.
  __device__ __forceinline__ Word at(unsigned place) const {
    Word found = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const Word key = __shfl_sync(kAllLanes, keys[i], static_cast<int>(place / kEach));
      found = place % kEach == i ? key : found;
    }
    return found;
  }

 private:
  /// Orders each key of a lane and the one with the place that differs in `mask`.
  __device__ __forceinline__ void order_pairs(int step, int mask) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if ((i & step) == 0) {
        const Word a = keys[i], b = keys[i ^ mask];
        keys[i] = min(a, b);
        keys[i ^ mask] = max(a, b);
      }
    }
  }
  __device__ __forceinline__ void order_within(int first_step) {
#pragma unroll
    for (int step = first_step; step > 0; step /= 2) {
      order_pairs(step, step);
    }
  }
  /// The same for keys of two lanes. The upper lane is the one that has the bit.
  template <int kMask>
  __device__ __forceinline__ void order_lanes(unsigned lanes, unsigned bit) {
    const bool is_upper = (threadIdx.x & bit) != 0;
    Word others[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      others[i] = __shfl_xor_sync(kAllLanes, keys[i ^ kMask], static_cast<int>(lanes));
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      keys[i] = is_upper ? max(keys[i], others[i]) : min(keys[i], others[i]);
    }
  }
};

template <class Bits, int kEach>
__global__ __launch_bounds__(kThreadsOfSort) void select_sorted_kernel(
    const Bits* __restrict__ data,
    const __grid_constant__ SortedRows in,
    KeyOrder<Bits> order,
    const __grid_constant__ SelectionPart part,
    unsigned lanes) {
  using Word = SortWord<Bits>;
  const unsigned lane = threadIdx.x % kWarp;
  const int64_t channel = (int64_t{blockIdx.x} * kThreadsOfSort + threadIdx.x) / kWarp;
  if (channel >= in.num_channels) {
    return;
  }
  KeysOfWarp<Word, kEach> sorted;
  const Bits* first_row = data + offset_in(in.channels, channel);
  unsigned nans = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    // Neighbouring lanes read neighbouring rows; the first lanes have all places that are used.
    const unsigned row = i * lanes + lane;
    sorted.keys[i] = std::numeric_limits<Bits>::max();
    if (lane < lanes && row < in.num_rows) {
      const Bits bits = first_row[offset_in(in.rows, row)];
      sorted.keys[i] = order.key(bits);
      nans += order.is_nan(bits);
    }
  }
  nans = sum_of_warp(nans);
  sorted.sort(lanes);
  // A lane has a target.
  const int64_t targets = part.num_q * kTargetsOfQ;
  for (int64_t first_target = 0; first_target < targets; first_target += kWarp) {
    SelectionPart own = part;
    own.first_q += first_target / kTargetsOfQ;
    const unsigned target = min(lane, static_cast<unsigned>(targets - first_target - 1));
    const Ranks ranks = ranks_of_target(own, target, in.num_rows, nans);
    const Word key = sorted.at(static_cast<unsigned>(rank_of_target(ranks, target)));
    if (target == lane) {
      put_value(own, order, target, channel, ranks, static_cast<Bits>(key));
    }
  }
}

template <class Bits>
auto kernel_of(unsigned each) {
  switch (each) {
    case 1:
      return select_sorted_kernel<Bits, 1>;
    case 2:
      return select_sorted_kernel<Bits, 2>;
    case 4:
      return select_sorted_kernel<Bits, 4>;
    case 8:
      return select_sorted_kernel<Bits, 8>;
    case 16:
      return select_sorted_kernel<Bits, 16>;
    case 32:
      return select_sorted_kernel<Bits, 32>;
  }
  no_kernel("select_sorted");
}

} // namespace

void select_layout(const SelectSorted& in, const SelectCall& call, const Launch& launch) {
  const Problem& problem = call.part.selection.problem;
  SortedRows rows{};
  std::copy(std::begin(problem.channels), std::end(problem.channels), rows.channels);
  std::copy(std::begin(problem.rows), std::end(problem.rows), rows.rows);
  rows.num_channels = problem.num_channels();
  rows.num_rows = static_cast<unsigned>(problem.num_rows());
  const unsigned each = std::max(in.size / kWarp, 1u);
  visit_unsigned_type(problem.type, [&](auto tag) {
    using Bits = typename decltype(tag)::type;
    start(
        launch, "select_sorted", kernel_of<Bits>(each), shape_of(call.plan),
        static_cast<const Bits*>(problem.data), rows, KeyOrder<Bits>::of(problem.type), call.part,
        in.size / each);
  });
}

} // namespace histo::cuda
