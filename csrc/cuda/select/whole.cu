// Selects in one kernel: a block has a channel, and reads it once for each digit.
#include "cuda/select/digits.cuh"

namespace histo::cuda {
namespace {

template <class Bits>
using WholeReads = ReadShape<kThreadsOfWhole, 2, 4>;

/// The targets of the channel of a block, in shared memory.
template <class Bits>
struct TargetsOfBlock {
  Slots slots;
  SlotLookup<Bits> lookup;
  int64_t ranks[kMaxTargets];
  int64_t next_ranks[kMaxTargets];
  uint64_t prefixes[kMaxTargets];
  int64_t sums[kThreadsOfWhole / kWarp];
};

/// Counts the digits of all keys, or of those with the prefixes of the slots.
template <class Bits>
__device__ __forceinline__ void count_digit(
    const StreamOfBlock<Bits>& stream,
    const KeyOrder<Bits>& order,
    const KeyDigit& digit,
    TargetsOfBlock<Bits>& of_block,
    const DigitTable& table) {
  table.clear();
  if (!digit.first) {
    of_block.lookup.fill(of_block.slots);
  }
  __syncthreads();
  const auto for_each = [&](const auto& f) {
    stream.template for_each<WholeReads<Bits>>([&](Bits bits) { f(bits); });
  };
  if (digit.first) {
    count_first_digit(for_each, order, digit, table);
  } else {
    count_next_digit(for_each, order, digit, of_block.slots, of_block.lookup, table);
  }
  __syncthreads();
}

/// Finds the digits of the targets, and writes the values of those that have no more digits.
template <class Bits>
__device__ __forceinline__ void find_targets(
    const SelectionPart& part,
    const KeyOrder<Bits>& order,
    const KeyDigit& digit,
    int64_t channel,
    int64_t rows,
    int64_t nans,
    TargetsOfBlock<Bits>& of_block,
    const DigitTable& table) {
  const unsigned targets = part.num_targets();
  if (threadIdx.x < kWarp) {
    const unsigned target = min(threadIdx.x, targets - 1);
    of_block.ranks[threadIdx.x] =
        digit.first ? rank_of_target(ranks_of_target(part, target, rows, nans), target)
                    : of_block.next_ranks[target];
  }
  const unsigned used = of_block.slots.count;
  __syncthreads();
  for (unsigned slot = 0; slot < used; ++slot) {
    find_in_slot<kThreadsOfWhole>(
        of_block.slots, slot, targets, of_block.ranks, digit, nans, of_block.sums,
        [&](unsigned value) { return int64_t{table.sum((slot << digit.bits) + value)}; },
        [&](unsigned target, uint64_t prefix, int64_t rank) {
          if (digit.last) {
            const Ranks of = ranks_of_target(part, target, rows, nans);
            put_value(part, order, target, channel, of, static_cast<Bits>(prefix));
          } else {
            of_block.prefixes[target] = prefix;
            of_block.next_ranks[target] = rank;
          }
        });
  }
}

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
  __shared__ TargetsOfBlock<Bits> of_block;
  extern __shared__ __align__(16) uint32_t memory[];
  const int64_t channel = blockIdx.x;
  const StreamOfBlock<Bits> stream(data, in, channel, 0);
  SelectionPart part = all;
  for (; part.first_q < all.num_q; part.first_q += group) {
    part.num_q = min(group, all.num_q - part.first_q);
    const unsigned targets = part.num_targets();
    int64_t nans = 0;
    for (unsigned pass = 0; pass < digits.count(); ++pass) {
      const KeyDigit digit = digits.at(pass);
      if (threadIdx.x < kWarp) {
        const unsigned target = min(threadIdx.x, targets - 1);
        find_slots(of_block.slots, targets, digit.first ? 0 : of_block.prefixes[target]);
      }
      __syncthreads();
      const DigitTable table(memory, table_words, of_block.slots.count * digit.counters(), copies);
      count_digit(stream, order, digit, of_block, table);
      if (digit.first) {
        nans = table.sum(digit.values());
      }
      find_targets(part, order, digit, channel, in.num_rows, nans, of_block, table);
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
