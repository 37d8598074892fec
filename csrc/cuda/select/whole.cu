// Selects in one kernel: a block has a channel, and reads it once for each digit.
#include "cuda/select/block_targets.cuh"

namespace histo::cuda {
namespace {

template <class Bits>
using WholeReads = ReadShape<kThreadsOfWhole, 2, 4>;

template <class Bits>
using Targets = TargetsOfBlock<Bits, kThreadsOfWhole>;

/// Counts the digits of all keys, or of those with the prefixes of the slots.
template <class Bits>
__device__ __forceinline__ void count_digit(
    const StreamOfBlock<Bits>& stream,
    const KeyOrder<Bits>& order,
    const KeyDigit& digit,
    Targets<Bits>& of_block,
    const DigitCounts& table) {
  table.clear();
  if (!digit.first) {
    of_block.lookup.fill(of_block.slots, digit);
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

template <class Bits>
__global__ __launch_bounds__(kThreadsOfWhole, 2) void select_whole_kernel(
    const Bits* __restrict__ data,
    const __grid_constant__ ChannelStreams in,
    KeyOrder<Bits> order,
    const __grid_constant__ SelectionPart all,
    Digits digits,
    int64_t group) { // of q's
  __shared__ Targets<Bits> of_block;
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
      of_block.begin(digit, targets);
      const DigitCounts table{memory, of_block.slots.count * digit.counters()};
      count_digit(stream, order, digit, of_block, table);
      if (digit.first) {
        nans = table.words[digit.values()];
      }
      of_block.find(part, order, digit, channel, in.num_rows, nans, table, true);
    }
  }
}

} // namespace

void select_layout(const SelectWhole& in, const SelectCall& call, const Launch& launch) {
  const Problem& problem = call.part.selection.problem;
  visit_wide_bits(problem.type, [&](auto tag) {
    using Bits = typename decltype(tag)::type;
    start(
        launch, "select_whole", select_whole_kernel<Bits>, shape_of(call.plan),
        static_cast<const Bits*>(problem.data), in.streams, KeyOrder<Bits>::of(problem.type),
        call.part, in.digits, in.group);
  });
}

} // namespace histo::cuda
