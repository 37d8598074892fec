// Types of few bits: the integer engine counts all patterns of bits, and a block scans the counts of
// a channel in the order of the numbers.
#include "../engine.h"
#include "../overlap.cuh"
#include "targets.cuh"

namespace histo::cuda {
namespace {

constexpr unsigned kTiles = 64;

/// The counts of a channel, in the order of the numbers.
template <class Bits>
struct OrderedCounts {
  const unsigned long long* counts;
  KeyOrder<Bits> order;

  __device__ __forceinline__ int64_t operator()(unsigned place) const {
    const Bits bits = order.bits_of(static_cast<Bits>(place));
    return order.is_nan(bits) ? 0 : static_cast<int64_t>(counts[bits]);
  }
};

__device__ __forceinline__ int64_t sum_of_lanes(int64_t value) {
  for (int step = kWarp / 2; step > 0; step /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, step);
  }
  return value;
}

/// The place of a rank in a tile, where `below` numbers are in the tiles before. Called by a warp.
template <class Count>
__device__ __forceinline__ unsigned find_in_tile(
    const Count& count, unsigned first, unsigned size, int64_t below, int64_t rank) {
  const unsigned lane = threadIdx.x % kWarp;
  for (unsigned begin = 0; begin < size; begin += kWarp) {
    int64_t upto = begin + lane < size ? count(first + begin + lane) : 0;
    for (unsigned step = 1; step < kWarp; step *= 2) {
      const int64_t before = __shfl_up_sync(kAllLanes, upto, step);
      upto += lane >= step ? before : 0;
    }
    const unsigned beyond = __ballot_sync(kAllLanes, rank < below + upto);
    if (beyond != 0) {
      return first + begin + static_cast<unsigned>(__ffs(static_cast<int>(beyond)) - 1);
    }
    below += __shfl_sync(kAllLanes, upto, kWarp - 1);
  }
  return first; // of a channel of NaN alone
}

template <class Bits>
__global__ __launch_bounds__(kThreadsOfPatterns) void select_patterns_kernel(
    const unsigned long long* __restrict__ counts,
    int64_t rows,
    KeyOrder<Bits> order,
    const __grid_constant__ SelectionPart part) {
  constexpr unsigned kPatterns = 1u << 8 * sizeof(Bits), kTile = kPatterns / kTiles;
  constexpr unsigned kWarps = kThreadsOfPatterns / kWarp;
  __shared__ int64_t sums[kTiles];
  const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int64_t channel = blockIdx.x;
  const OrderedCounts<Bits> count{counts + channel * kPatterns, order};
  wait_for_previous(); // it counts
  for (unsigned tile = warp; tile < kTiles; tile += kWarps) {
    int64_t sum = 0;
    for (unsigned i = lane; i < kTile; i += kWarp) {
      sum += count(tile * kTile + i);
    }
    sum = sum_of_lanes(sum);
    if (lane == 0) {
      sums[tile] = sum;
    }
  }
  __syncthreads();
  int64_t values = 0;
  for (unsigned tile = 0; tile < kTiles; ++tile) {
    values += sums[tile];
  }
  const int64_t targets = kTargetsOfQ * part.num_q;
  for (int64_t i = warp; i < targets; i += kWarps) {
    SelectionPart own = part;
    own.first_q += i / kTargetsOfQ;
    const auto target = static_cast<unsigned>(i % kTargetsOfQ);
    const Ranks ranks = ranks_of_target(own, target, rows, rows - values);
    const int64_t rank = rank_of_target(ranks, target);
    unsigned tile = 0;
    int64_t below = 0;
    while (tile + 1 < kTiles && rank >= below + sums[tile]) {
      below += sums[tile++];
    }
    const unsigned place = find_in_tile(count, tile * kTile, kTile, below, rank);
    if (lane == 0) {
      put_value(own, order, target, channel, ranks, static_cast<Bits>(place));
    }
  }
}

} // namespace

void select_patterns(const SelectPlan& plan, const SelectionPart& part, const Launch& launch) {
  const Problem& problem = part.selection.problem;
  Problem patterns = problem;
  patterns.num_bins = plan.counters;
  patterns.counts =
      static_cast<int64_t*>(launch.allocate(plan.counter_bytes(problem.num_channels())));
  visit_bits(problem.type, [&](auto tag) {
    using Bits = typename decltype(tag)::type;
    if constexpr (sizeof(Bits) <= 2) {
      patterns.type = sizeof(Bits) == 1 ? ElementType::kUInt8 : ElementType::kUInt16;
      count(patterns, ValueBinning{patterns.num_bins}, launch);
      start(
          launch, "select_patterns", select_patterns_kernel<Bits>,
          Shape{grid_of(plan.blocks), kThreadsOfPatterns, 0, 1, plan.overlaps},
          reinterpret_cast<const unsigned long long*>(patterns.counts), problem.num_rows(),
          KeyOrder<Bits>::of(problem.type), part);
    } else {
      no_kernel("select_patterns");
    }
  });
}

} // namespace histo::cuda
