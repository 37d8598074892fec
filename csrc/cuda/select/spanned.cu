// Selects in one kernel: the blocks of a cluster have a channel. Each counts its elements, and sums
// the tables of the others, which it reads in shared memory. Elements that fit are kept there, so
// that the channel is read once.
#include "cuda/cluster.cuh"
#include "cuda/select/block_targets.cuh"
#include "cuda/walk/spans.cuh"

namespace histo::cuda {
namespace {

template <class Bits>
using Spans = SpansOfBlock<Bits, kThreadsOfSpans, 4>;

template <class Bits>
using Targets = TargetsOfBlock<Bits, kThreadsOfSpans>;

/// What the passes of a block share.
template <class Bits, bool kKept>
struct SelectionOfBlock {
  const Spans<Bits>& spans;
  const KeyOrder<Bits>& order;
  const SpannedShape& shape;
  Targets<Bits>& of_block;
  uint32_t* memory; // the table, its sums over the cluster if that has several blocks, elements

  __device__ __forceinline__ unsigned rank() const {
    return blockIdx.x % shape.cluster;
  }
  __device__ __forceinline__ uint32_t* sums() const {
    return memory + shape.table_words;
  }
  __device__ __forceinline__ unsigned char* kept() const {
    return reinterpret_cast<unsigned char*>(sums() + shape.sum_words);
  }

  /// Counts the digits of all keys, or of those with the prefixes of the slots.
  __device__ __forceinline__ void count_digit(
      const KeyDigit& digit, const DigitCounts& table) const {
    if (shape.cluster > 1) {
      wait_for_readers(); // of the pass before
    }
    table.clear();
    if (of_block.slots.count > 1) {
      of_block.lookup.fill(of_block.slots, digit);
    }
    __syncthreads();
    const auto elements = [&](const auto& f) { spans.template for_each<kKept>(kept(), f); };
    if (digit.first) {
      count_first_digit(elements, order, digit, table);
    } else {
      count_next_digit(elements, order, digit, of_block.slots, of_block.lookup, table);
    }
    __syncthreads();
  }

  /// The counts of the cluster.
  __device__ __forceinline__ DigitCounts sum_tables(const DigitCounts& own) const {
    if (shape.cluster == 1) {
      return own;
    }
    sync_cluster();
    for (unsigned i = threadIdx.x; i < own.counters; i += kThreadsOfSpans) {
      uint32_t all = 0;
      for (unsigned k = 0; k < shape.cluster; ++k) { // each block begins with its own
        all += load_from_rank(&own.words[i], (rank() + k) % shape.cluster);
      }
      sums()[i] = all;
    }
    arrive_having_read();
    __syncthreads();
    return {sums(), own.counters};
  }
};

template <class Bits, bool kKept>
__global__ __launch_bounds__(kThreadsOfSpans, blocks_of_spans(kKept)) void select_spans_kernel(
    const Bits* __restrict__ data,
    const __grid_constant__ ChannelSpans in,
    KeyOrder<Bits> order,
    const __grid_constant__ SelectionPart all,
    Digits digits,
    SpannedShape shape) {
  __shared__ Targets<Bits> of_block;
  extern __shared__ __align__(16) uint32_t memory[];
  const int64_t channel = blockIdx.x / shape.cluster, rows = int64_t{in.spans} * in.rows_of_span;
  const Spans<Bits> spans(data, in, channel, blockIdx.x % shape.cluster);
  const SelectionOfBlock<Bits, kKept> block{spans, order, shape, of_block, memory};
  if constexpr (kKept) {
    spans.keep(block.kept());
  }
  if (shape.cluster > 1) {
    arrive_having_read(); // nothing yet
  }
  SelectionPart part = all;
  for (; part.first_q < all.first_q + all.num_q; part.first_q += shape.group) {
    part.num_q = min(int64_t{shape.group}, all.first_q + all.num_q - part.first_q);
    const unsigned targets = part.num_targets();
    int64_t nans = 0;
    for (unsigned pass = 0; pass < digits.count(); ++pass) {
      const KeyDigit digit = digits.at(pass);
      of_block.begin(digit, targets);
      const DigitCounts own{memory, of_block.slots.count * digit.counters()};
      block.count_digit(digit, own);
      const DigitCounts table = block.sum_tables(own);
      if (digit.first) {
        nans = table.words[digit.values()];
      }
      of_block.find(part, order, digit, channel, rows, nans, table, block.rank() == 0);
    }
  }
  if (shape.cluster > 1) {
    wait_for_readers();
  }
}

} // namespace

void select_layout(const SelectSpans& in, const SelectCall& call, const Launch& launch) {
  const Problem& problem = call.part.selection.problem;
  visit_wide_bits(problem.type, [&](auto tag) {
    using Bits = typename decltype(tag)::type;
    start(
        launch, "select_spans",
        in.keeps ? select_spans_kernel<Bits, true> : select_spans_kernel<Bits, false>,
        shape_of(call.plan, in.shape.cluster), static_cast<const Bits*>(problem.data), in.spans,
        KeyOrder<Bits>::of(problem.type), call.part, in.digits, in.shape);
  });
}

} // namespace histo::cuda
