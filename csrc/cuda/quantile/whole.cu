// Selects in one kernel: a block has a channel, and reads it once for each digit.
#include "digits.cuh"

namespace histo::cuda {
namespace {

template <class Bits>
using ShapeOf = ReadShape<kThreadsOfWhole, 2, 4>;

template <class Bits>
__global__ __launch_bounds__(kThreadsOfWhole, 2) void select_whole_kernel(
    const Bits* __restrict__ data,
    const __grid_constant__ ChannelStreams in,
    KeyOrder<Bits> order,
    const __grid_constant__ SelectionPart all,
    Digits digits,
    int64_t group, // of q's
    unsigned table_words,
    unsigned copies) {
  __shared__ Slots slots;
  __shared__ SlotLookup<Bits> lookup;
  __shared__ int64_t ranks[kMaxTargets];
  __shared__ int64_t next_ranks[kMaxTargets];
  __shared__ uint64_t prefixes[kMaxTargets];
  __shared__ int64_t sums[kThreadsOfWhole / kWarp];
  extern __shared__ __align__(16) uint32_t memory[];
  const int64_t channel = blockIdx.x;
  const StreamOfBlock<Bits> stream(data, in, channel, 0);
  SelectionPart part = all;
  for (; part.first_q < all.num_q; part.first_q += group) {
    part.num_q = min(group, all.num_q - part.first_q);
    const unsigned targets = part.num_targets();
    int64_t nans = 0;
    for (unsigned pass = 0; pass < digits.count(); ++pass) {
      const Digit digit = digits.at(pass);
      if (threadIdx.x < kWarp) {
        find_slots(slots, targets, digit.first ? 0 : prefixes[min(threadIdx.x, targets - 1)]);
      }
      __syncthreads();
      const DigitTable table(memory, table_words, slots.count * digit.counters(), copies);
      table.clear();
      if (!digit.first) {
        lookup.fill(slots);
      }
      __syncthreads();
      if (digit.first) {
        count_first_digit<ShapeOf<Bits>>(stream, order, digit, table);
      } else {
        count_next_digit<ShapeOf<Bits>>(stream, order, digit, slots, lookup, table);
      }
      __syncthreads();
      if (digit.first) {
        nans = table.sum(digit.values());
      }
      if (threadIdx.x < kWarp) {
        const unsigned target = min(threadIdx.x, targets - 1);
        ranks[threadIdx.x] =
            digit.first ? rank_of_target(ranks_of_target(part, target, in.num_rows, nans), target)
                        : next_ranks[target];
      }
      const unsigned used = slots.count;
      __syncthreads();
      for (unsigned slot = 0; slot < used; ++slot) {
        find_in_slot<kThreadsOfWhole>(
            slots, slot, targets, ranks, digit, nans, sums,
            [&](unsigned value) { return int64_t{table.sum((slot << digit.bits) + value)}; },
            [&](unsigned target, uint64_t prefix, int64_t rank) {
              if (digit.last) {
                const Ranks of = ranks_of_target(part, target, in.num_rows, nans);
                put_value(part, order, target, channel, of, static_cast<Bits>(prefix));
              } else {
                prefixes[target] = prefix;
                next_ranks[target] = rank;
              }
            });
      }
    }
  }
}

} // namespace

void select_whole(const SelectPlan& plan, const SelectionPart& part, const Launch& launch) {
  const Problem& problem = part.selection.problem;
  visit_wide_bits(problem.type, [&](auto tag) {
    using Bits = typename decltype(tag)::type;
    start(
        launch, "select_whole", select_whole_kernel<Bits>, grid_of(plan.blocks),
        dim3(static_cast<unsigned>(plan.threads)), plan.shared_bytes,
        static_cast<const Bits*>(problem.data), plan.streams, KeyOrder<Bits>::of(problem.type),
        part, plan.digits, plan.group, static_cast<unsigned>(plan.shared_bytes / 4), plan.copies);
  });
}

} // namespace histo::cuda
