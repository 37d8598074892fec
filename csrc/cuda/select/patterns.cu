// Types of one byte: the integer engine counts raw bytes, and a block looks for the ranks of a
// channel among its 256 counts, in the order of the numbers.
#include "cuda/count/dispatch.h"
#include "cuda/pdl.cuh"
#include "cuda/select/targets.cuh"

namespace histo::cuda {
namespace {

/// A thread has the count of a byte.
__global__ __launch_bounds__(kPatterns) void select_patterns_kernel(
    const unsigned long long* __restrict__ counts,
    int64_t rows,
    KeyOrder<uint8_t> order,
    const __grid_constant__ SelectionPart part) {
  __shared__ int64_t sums[kPatterns / kWarp];
  const int64_t channel = blockIdx.x;
  const auto key = static_cast<uint8_t>(threadIdx.x);
  const uint8_t byte = order.bits_of(key);
  wait_for_previous(); // it counts
  const auto own =
      order.is_nan(byte) ? 0 : static_cast<int64_t>(counts[channel * kPatterns + byte]);
  const int64_t below = sum_below(own, sums);
  int64_t values = 0;
  for (const int64_t sum : sums) {
    values += sum;
  }
  for (int64_t i = 0; i < int64_t{kTargetsOfQ} * part.num_q; ++i) {
    SelectionPart of_q = part;
    of_q.first_q += i / kTargetsOfQ;
    const auto target = static_cast<unsigned>(i % kTargetsOfQ);
    const Ranks ranks = ranks_of_target(of_q, target, rows, rows - values);
    const int64_t rank = rank_of_target(ranks, target);
    // No thread has the rank of a channel of NaN alone.
    if (values == 0 ? key == 0 : rank >= below && rank < below + own) {
      put_value(of_q, order, target, channel, ranks, key);
    }
  }
}

} // namespace

void select_layout(const SelectPatterns&, const SelectCall& call, const Launch& launch) {
  const Problem& problem = call.part.selection.problem;
  Problem bytes = problem;
  bytes.type = ElementType::kUInt8;
  bytes.num_bins = kPatterns;
  bytes.counts =
      static_cast<int64_t*>(launch.allocate(call.plan.counter_bytes(problem.num_channels())));
  count(bytes, ValueBinning{kPatterns}, launch);
  start(
      launch, "select_patterns", select_patterns_kernel, shape_of(call.plan, 1, call.plan.overlaps),
      reinterpret_cast<const unsigned long long*>(bytes.counts), problem.num_rows(),
      KeyOrder<uint8_t>::of(problem.type), call.part);
}

} // namespace histo::cuda
