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
struct Targets : TargetsOfBlock<Bits, kThreadsOfSpans> {
  Bits frequent;
};

/// The most frequent of 32 elements, if several are equal. A warp looks for it.
template <class Bits>
__device__ __forceinline__ Bits
find_frequent(const Bits* data, const ChannelSpans& in, int64_t channel) {
  using Word = std::conditional_t<sizeof(Bits) == 8, unsigned long long, unsigned>;
  const unsigned lane = threadIdx.x % kWarp;
  const auto rows = uint64_t{in.spans} * in.rows_of_span;
  const auto row = static_cast<unsigned>(rows * (2 * lane + 1) / (2 * kWarp));
  const unsigned span = row / in.rows_of_span, of_span = row % in.rows_of_span;
  const Bits own =
      data[offset_in(in.channels, channel) + offset_in(in.outer, span) + of_span * in.stride];
  const int alike = __popc(__match_any_sync(kAllLanes, Word{own}));
  int most = alike;
  for (int step = kWarp / 2; step > 0; step /= 2) {
    most = max(most, __shfl_xor_sync(kAllLanes, most, step));
  }
  const int leader = __ffs(static_cast<int>(__ballot_sync(kAllLanes, alike == most))) - 1;
  return static_cast<Bits>(__shfl_sync(kAllLanes, Word{own}, leader));
}

/// What the passes of a block share.
template <class Bits, bool kKept>
struct SelectionOfBlock {
  const Spans<Bits>& spans;
  const KeyOrder<Bits>& order;
  const SpannedShape& shape;
  Targets<Bits>& of_block;
  uint32_t* memory; // the table, the sums of its copies if there are several blocks, the elements

  __device__ __forceinline__ unsigned rank() const {
    return blockIdx.x % shape.cluster;
  }
  __device__ __forceinline__ uint32_t* sums() const {
    return memory + shape.table_words;
  }
  __device__ __forceinline__ unsigned char* kept() const {
    return reinterpret_cast<unsigned char*>(sums() + shape.sum_words);
  }

  /// Calls f(element), or f(element, how often). Additions to one counter wait for each other, so
  /// that a frequent element is counted in a register.
  template <class F>
  __device__ __forceinline__ void for_each(const F& f) const {
    const Bits frequent = of_block.frequent;
    unsigned times = 0;
    spans.template for_each<kKept>(kept(), [&](Bits bits) {
      if (bits == frequent) {
        ++times;
      } else {
        f(bits);
      }
    });
    times = sum_of_warp(times);
    if (threadIdx.x % kWarp == 0) {
      f(frequent, times);
    }
  }

  /// Counts the digits of all keys, or of those with the prefixes of the slots.
  __device__ __forceinline__ void count_digit(
      const KeyDigit& digit, const DigitTable& table) const {
    table.clear();
    if (of_block.slots.count > 1) {
      of_block.lookup.fill(of_block.slots);
    }
    __syncthreads();
    const auto elements = [&](const auto& f) { for_each(f); };
    if (digit.first) {
      count_first_digit(elements, order, digit, table);
    } else {
      count_next_digit(elements, order, digit, of_block.slots, of_block.lookup, table);
    }
    __syncthreads();
  }

  /// Replaces the counts of the block by those of the cluster, in the table's first words.
  __device__ __forceinline__ DigitTable sum_tables(const DigitTable& table) const {
    if (shape.cluster == 1) {
      return table;
    }
    wait_for_readers(); // of the sums of the pass before
    for (unsigned i = threadIdx.x; i < table.counters; i += kThreadsOfSpans) {
      sums()[i] = table.sum(i);
    }
    sync_cluster();
    for (unsigned i = threadIdx.x; i < table.counters; i += kThreadsOfSpans) {
      uint32_t all = 0;
      for (unsigned k = 0; k < shape.cluster; ++k) { // each block begins with its own
        all += load_from_rank(&sums()[i], (rank() + k) % shape.cluster);
      }
      memory[i] = all;
    }
    arrive_having_read();
    __syncthreads();
    return DigitTable(memory, table.counters, table.counters, 0);
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
  if (threadIdx.x < kWarp) {
    const Bits frequent = find_frequent(data, in, channel);
    if (threadIdx.x == 0) {
      of_block.frequent = frequent;
    }
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
      const DigitTable own(
          memory, shape.table_words, of_block.slots.count * digit.counters(), shape.copies);
      block.count_digit(digit, own);
      const DigitTable table = block.sum_tables(own);
      if (digit.first) {
        nans = table.sum(digit.values());
      }
      of_block.find(part, order, digit, channel, rows, nans, table, block.rank() == 0);
    }
  }
  if (shape.cluster > 1) {
    wait_for_readers();
  }
}

} // namespace

void select_spans(const SelectPlan& plan, const SelectionPart& part, const Launch& launch) {
  const Problem& problem = part.selection.problem;
  visit_wide_bits(problem.type, [&](auto tag) {
    using Bits = typename decltype(tag)::type;
    start(
        launch, "select_spans",
        plan.keeps ? select_spans_kernel<Bits, true> : select_spans_kernel<Bits, false>,
        LaunchShape{
            grid_of(plan.blocks), dim3(static_cast<unsigned>(plan.threads)), plan.shared_bytes,
            static_cast<int>(plan.spanned.cluster)},
        static_cast<const Bits*>(problem.data), plan.spans, KeyOrder<Bits>::of(problem.type), part,
        plan.digits, plan.spanned);
  });
}

} // namespace histo::cuda
