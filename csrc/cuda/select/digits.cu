// Between two passes: the digits of the targets, found in the counts.
#include "cuda/pdl.cuh"
#include "cuda/select/targets.cuh"

namespace histo::cuda {
namespace {

/// A block has a slot of a channel.
template <class Bits>
__global__ __launch_bounds__(kThreadsOfDigits) void find_digits_kernel(
    const __grid_constant__ SelectionPart part,
    KeyOrder<Bits> order,
    const __grid_constant__ SelectPass pass,
    int64_t rows,
    unsigned first_values,
    const unsigned long long* __restrict__ first, // counts of the first digit
    RankTarget* __restrict__ found) {
  __shared__ Slots slots;
  __shared__ int64_t ranks[kMaxTargets];
  __shared__ int64_t sums[kThreadsOfDigits / kWarp];
  const KeyDigit& digit = pass.digit;
  const unsigned slot = blockIdx.x % pass.slots, targets = part.num_targets();
  const int64_t channel = blockIdx.x / pass.slots;
  wait_for_previous(); // it counts
  const auto nans = static_cast<int64_t>(first[channel * (first_values + 1) + first_values]);
  if (threadIdx.x < kWarp) {
    const unsigned target = min(threadIdx.x, targets - 1);
    RankTarget at{0, 0};
    if (digit.first) {
      at.rank = rank_of_target(ranks_of_target(part, target, rows, nans), target);
    } else {
      at = pass.targets[channel * targets + target];
    }
    ranks[threadIdx.x] = at.rank;
    find_slots(slots, targets, at.prefix);
  }
  __syncthreads();
  if (slot >= slots.count) {
    return;
  }
  const unsigned long long* counts = pass.counts + (channel * pass.slots + slot) * digit.counters();
  find_in_slot<kThreadsOfDigits>(
      slots, slot, targets, ranks, digit, nans, sums,
      [&](unsigned value) { return static_cast<int64_t>(counts[value]); },
      [&](unsigned target, uint64_t prefix, int64_t rank) {
        if (digit.last) {
          const Ranks of = ranks_of_target(part, target, rows, nans);
          put_value(part, order, target, channel, of, static_cast<Bits>(prefix));
        } else {
          found[channel * targets + target] = {prefix, rank};
        }
      });
}

} // namespace

void find_digits(
    const SelectPasses& in,
    const SelectCall& call,
    const SelectPass& pass,
    const unsigned long long* first,
    RankTarget* found,
    const Launch& launch) {
  const Problem& problem = call.part.selection.problem;
  visit_wide_bits(problem.type, [&](auto tag) {
    using Bits = typename decltype(tag)::type;
    start(
        launch, "find_digits", find_digits_kernel<Bits>,
        LaunchShape{
            grid_of(problem.num_channels() * pass.slots), kThreadsOfDigits, 0, 1,
            call.plan.overlaps},
        call.part, KeyOrder<Bits>::of(problem.type), pass, problem.num_rows(),
        in.digits.at(0).values(), first, found);
  });
}

} // namespace histo::cuda
