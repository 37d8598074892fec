// Counts a digit of channels one after another. A block has a table of one channel.
#include "cuda/pdl.cuh"
#include "cuda/select/digits.cuh"
#include "cuda/storage/counts.cuh"
#include "cuda/walk/spans.cuh"

namespace histo::cuda {
namespace {

template <class Bits>
using StreamReads = ReadShape<threads_of_select_streams(sizeof(Bits)), 1, 4>;

template <class Bits>
using Spans = SpansOfBlock<Bits, StreamReads<Bits>::kThreads, 4>;

/// Calls f with the elements of a block.
template <class Bits, class F>
__device__ __forceinline__ void for_each_of_block(const StreamOfBlock<Bits>& stream, const F& f) {
  stream.template for_each<StreamReads<Bits>>([&](Bits bits) { f(bits); });
}
template <class Bits, class F>
__device__ __forceinline__ void for_each_of_block(const Spans<Bits>& spans, const F& f) {
  spans.template for_each<false>(nullptr, [&](Bits bits) { f(bits); });
}

/// `Walk` reads the channels as they lie `in` memory.
template <bool kFirst, class Bits, class Walk, class In>
__global__ __launch_bounds__(StreamReads<Bits>::kThreads, 1) void count_digit_streams_kernel(
    const Bits* __restrict__ data,
    const __grid_constant__ In in,
    KeyOrder<Bits> order,
    const __grid_constant__ SelectPass pass,
    unsigned targets) {
  __shared__ Slots slots;
  __shared__ SlotLookup<Bits> lookup;
  extern __shared__ __align__(16) uint32_t memory[];
  const KeyDigit& digit = pass.digit;
  const int64_t channel = blockIdx.x / in.chunks;
  const Walk walk(data, in, channel, blockIdx.x % in.chunks);
  unsigned long long* counts = pass.counts + channel * pass.slots * digit.counters();
  unsigned used = 1;
  wait_for_previous(); // it finds the targets, or clears the counts
  if constexpr (!kFirst) {
    if (threadIdx.x < kWarp) {
      const unsigned target = min(threadIdx.x, targets - 1);
      find_slots(slots, targets, pass.targets[channel * targets + target].prefix);
    }
    __syncthreads();
    used = slots.count;
    lookup.fill(slots, digit);
  }
  const DigitCounts table{memory, used * digit.counters()};
  table.clear();
  __syncthreads();
  const auto for_each = [&](const auto& f) { for_each_of_block(walk, f); };
  if constexpr (kFirst) {
    count_first_digit(for_each, order, digit, table);
  } else {
    count_next_digit(for_each, order, digit, slots, lookup, table);
  }
  __syncthreads();
  for (unsigned i = threadIdx.x; i < table.counters; i += StreamReads<Bits>::kThreads) {
    put<true>(&counts[i], table.words[i]);
  }
}

template <template <class> class Walk, class In>
void count_by(const In& in, const SelectCall& call, const SelectPass& pass, const Launch& launch) {
  const Problem& problem = call.part.selection.problem;
  visit_wide_bits(problem.type, [&](auto tag) {
    using Bits = typename decltype(tag)::type;
    start(
        launch, "count_digit_streams",
        pass.digit.first ? count_digit_streams_kernel<true, Bits, Walk<Bits>, In>
                         : count_digit_streams_kernel<false, Bits, Walk<Bits>, In>,
        shape_of(call.plan, 1, call.plan.overlaps), static_cast<const Bits*>(problem.data), in,
        KeyOrder<Bits>::of(problem.type), pass, call.part.num_targets());
  });
}

} // namespace

void count_digit(
    const ChannelStreams& in,
    const SelectCall& call,
    const SelectPass& pass,
    const Launch& launch) {
  count_by<StreamOfBlock>(in, call, pass, launch);
}

void count_digit(
    const ChannelSpans& in, const SelectCall& call, const SelectPass& pass, const Launch& launch) {
  count_by<Spans>(in, call, pass, launch);
}

} // namespace histo::cuda
