// Channels that lie side by side, all passes in one kernel. The blocks of a cluster have a stripe of
// columns and share its rows. Each counts in a table [slot][digit][word], in which a lane meets no
// other in a bank. Then each sums a part of the digits over all tables of the cluster, and reads
// where the ranks lie from the others: counts and targets never leave shared memory.
#include <algorithm>

#include "cuda/select/stripe_memory.cuh"
#include "cuda/walk/general_columns.cuh"

namespace histo::cuda {
namespace {

template <int kInFlight>
using StripeReads = ReadShape<kThreadsOfStripes, kBlocksOfStripes, kInFlight>;

/// Counts the first digit of all keys.
template <class Bits, class Column>
__device__ __forceinline__ void count_first_digits(
    const Column& column, const KeyOrder<Bits>& order, const StripeMemory<Bits>& memory) {
  constexpr unsigned kShift = 8 * sizeof(Bits) - kBitsOfColumnDigit;
  const uint32_t counters = address_of(memory.table() + column.word);
  column.template for_each_pack<StripeReads<sizeof(Bits) == 8 ? 4 : 8>>([&](const auto& pack) {
    for_each_key<Bits>(pack, order, [&](KeyWord<Bits> key, bool is_nan, int of_word) {
      const unsigned digit = is_nan ? kDigits : static_cast<unsigned>(key >> kShift);
      add_shared(counters + 4 * kWarp * digit, memory.one(of_word));
    });
  });
}

/// Counts the digit behind `shift` of keys with a prefix of the slots of their column, of which there
/// are up to kSlots. Their prefixes are in registers.
template <unsigned kSlots, class Bits, class Column>
__device__ __forceinline__ void count_next_digits(
    const Column& column,
    const KeyOrder<Bits>& order,
    unsigned shift,
    const StripeMemory<Bits>& memory) {
  using Memory = StripeMemory<Bits>;
  constexpr auto kNan = static_cast<KeyWord<Bits>>(std::numeric_limits<Bits>::max());
  const uint32_t counters = address_of(memory.table() + column.word);
  KeyWord<Bits> prefixes[Memory::kOfWord][kSlots];
#pragma unroll
  for (unsigned of_word = 0; of_word < Memory::kOfWord; ++of_word) {
    const unsigned c = column.word * Memory::kOfWord + of_word;
#pragma unroll
    for (unsigned slot = 0; slot < kSlots; ++slot) {
      prefixes[of_word][slot] =
          memory.prefixes()[(slot < memory.used()[c] ? slot : 0) * Memory::kWidth + c];
    }
  }
  column.template for_each_pack<StripeReads<kSlots <= kTargetsOfQ && sizeof(Bits) < 8 ? 8 : 4>>(
      [&](const auto& pack) {
        for_each_key<Bits>(pack, order, [&](KeyWord<Bits> key, bool is_nan, int of_word) {
          const KeyWord<Bits> upper = (is_nan ? kNan : key) >> shift;
          unsigned slot = kSlots;
#pragma unroll
          for (unsigned i = kSlots; i-- > 0;) {
            slot = prefixes[of_word][i] == upper >> kBitsOfColumnDigit ? i : slot;
          }
          if (slot < kSlots) {
            const unsigned digit = static_cast<unsigned>(upper) % kDigits;
            add_shared(counters + 4 * kWarp * (slot * kDigits + digit), memory.one(of_word));
          }
        });
      });
}

/// Sums the block's part of the digits over the tables of its cluster, in its own table, and those
/// sums in groups. Nobody else reads that part of its table before.
template <class Bits>
__device__ __forceinline__ void sum_tables(
    const BlockOfCluster& block, bool first, unsigned slots, const StripeMemory<Bits>& memory) {
  const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const auto sum = [&](unsigned row) {
    uint32_t* own = memory.table() + row * kWarp + lane;
    uint32_t all = *own;
    if (block.size > 1) {
      uint32_t others[kMaxCluster];
#pragma unroll
      for (unsigned other = 1; other < kMaxCluster; ++other) { // all in flight
        others[other] =
            other < block.size ? load_from_rank(own, (block.rank + other) % block.size) : 0;
      }
#pragma unroll
      for (unsigned other = 1; other < kMaxCluster; ++other) {
        all += others[other];
      }
      *own = all;
    }
    return all;
  };
  const unsigned of_warp = kDigits / kWarpsOfStripes / block.size;
  const unsigned together = min(of_warp, kOfGroup); // of a group
  const unsigned digit = (block.rank * kWarpsOfStripes + warp) * of_warp;
  for (unsigned i = 0; i < slots * of_warp; i += together) {
    const unsigned first_row = i / of_warp * kDigits + digit + i % of_warp;
    uint32_t all = 0;
    for (unsigned row = first_row; row < first_row + together; ++row) {
      all += sum(row);
    }
    add_shared(address_of(memory.groups() + first_row / kOfGroup * kWarp + lane), all);
  }
  if (first && block.rank == 0 && warp == 0) {
    sum(kDigits);
  }
}

/// Where a rank lies among counts: subtracts those before, and returns which one it is.
__device__ __forceinline__ unsigned find_count(const uint32_t (&counts)[16], uint32_t& rank) {
  unsigned at = 0;
#pragma unroll
  for (unsigned i = 0; i < 15; ++i) {
    if (at == i && rank >= counts[i]) {
      rank -= counts[i];
      at = i + 1;
    }
  }
  return at;
}

/// The digit of a rank in a slot of a column, which becomes the rank among the values with it.
template <class Bits>
__device__ __forceinline__ unsigned find_digit(
    const BlockOfCluster& block,
    const StripeMemory<Bits>& memory,
    unsigned slot,
    unsigned column,
    uint32_t& rank) {
  using Memory = StripeMemory<Bits>;
  const unsigned word = column / Memory::kOfWord, of_word = column % Memory::kOfWord;
  const auto owner = [&](unsigned group) { return group * block.size / kDigitGroups; };
  uint32_t counts[kDigitGroups];
#pragma unroll
  for (unsigned i = 0; i < kDigitGroups; ++i) {
    const uint32_t* sum = memory.groups() + (slot * kDigitGroups + i) * kWarp + word;
    counts[i] = Memory::count_of(block.load(sum, owner(i)), of_word);
  }
  const unsigned group = find_count(counts, rank);
#pragma unroll
  for (unsigned i = 0; i < kOfGroup; ++i) {
    const unsigned row = slot * kDigits + group * kOfGroup + i;
    const uint32_t* count = memory.table() + row * kWarp + word;
    counts[i] = Memory::count_of(block.load(count, owner(group)), of_word);
  }
  return group * kOfGroup + find_count(counts, rank);
}

/// The slots of the columns, for some targets. Returns how many the column with most has.
template <class Bits>
__device__ __forceinline__ unsigned find_prefixes(
    const StripeMemory<Bits>& memory, unsigned columns, unsigned first, unsigned end) {
  constexpr unsigned kWidth = StripeMemory<Bits>::kWidth;
  const bool exists = threadIdx.x < columns; // others fill the last stripe
  unsigned count = 0;
  if (threadIdx.x < kWidth) {
    for (unsigned target = first; target < end; ++target) {
      const Bits prefix = exists ? memory.found()[target * kWidth + threadIdx.x] : Bits{0};
      unsigned slot = 0;
      while (slot < count && memory.prefixes()[slot * kWidth + threadIdx.x] != prefix) {
        ++slot;
      }
      if (slot == count) {
        memory.prefixes()[slot * kWidth + threadIdx.x] = prefix;
        ++count;
      }
    }
    memory.used()[threadIdx.x] = count;
  }
  unsigned most = 1;
  while (__syncthreads_or(count > most)) {
    ++most;
  }
  return most;
}

template <class Bits>
__device__ __forceinline__ void clear_stripe(
    const StripeMemory<Bits>& memory, const StripeShape& shape, unsigned rows) {
  constexpr unsigned kOfVec16 = kVec16Bytes / 4;
  // The table lies behind the groups.
  const unsigned size = (shape.slots * kDigitGroups + rows) * kWarp / kOfVec16;
  for (unsigned i = threadIdx.x; i < size; i += kThreadsOfStripes) {
    reinterpret_cast<uint4*>(memory.groups())[i] = make_uint4(0, 0, 0, 0);
  }
}

/// What the passes of a block share.
template <class Column>
struct StripeOfBlock {
  using Bits = typename Column::Element;
  using Memory = StripeMemory<Bits>;

  const Column& column;
  const KeyOrder<Bits>& order;
  const StripeShape& shape;
  const BlockOfCluster& block;
  const Memory& memory;

  __device__ __forceinline__ unsigned columns() const {
    return static_cast<unsigned>(
        min(column.in.columns - column.first_column(), int64_t{Memory::kWidth}));
  }
  __device__ __forceinline__ int64_t rows() const {
    return column.in.rows * column.in.places();
  }
  /// Calls f(target, column) for some targets of all columns.
  template <class F>
  __device__ __forceinline__ void for_each_target(unsigned first, unsigned end, const F& f) const {
    for (unsigned i = threadIdx.x; i < (end - first) * Memory::kWidth; i += kThreadsOfStripes) {
      if (i % Memory::kWidth < columns()) {
        f(first + i / Memory::kWidth, i % Memory::kWidth);
      }
    }
  }

  /// The first digits of all targets.
  __device__ __forceinline__ void find_first(const SelectionPart& part) const {
    clear_stripe(memory, shape, kDigits + 1);
    __syncthreads();
    count_first_digits(column, order, memory);
    block.sync();
    sum_tables(block, true, 1, memory);
    block.sync();
    for_each_target(0, part.num_targets(), [&](unsigned target, unsigned c) {
      const uint32_t* nans = memory.table() + kDigits * kWarp + c / Memory::kOfWord;
      const uint32_t of_column = Memory::count_of(block.load(nans, 0), c % Memory::kOfWord);
      const Ranks ranks = ranks_of_target(part, target, rows(), of_column);
      auto rank = static_cast<uint32_t>(rank_of_target(ranks, target));
      const unsigned digit = find_digit(block, memory, 0, c, rank);
      memory.found()[target * Memory::kWidth + c] = static_cast<Bits>(digit);
      memory.ranks()[target * Memory::kWidth + c] = rank;
      if (target == 0) {
        memory.nans()[c] = of_column;
      }
    });
    block.sync();
  }

  /// The next digit of some targets.
  __device__ __forceinline__ void find_next(unsigned shift, unsigned first, unsigned end) const {
    const unsigned slots = find_prefixes(memory, columns(), first, end);
    clear_stripe(memory, shape, slots * kDigits);
    __syncthreads();
    if (slots <= kTargetsOfQ) {
      count_next_digits<kTargetsOfQ>(column, order, shift, memory);
    } else {
      count_next_digits<kMaxSlotsOfStripe>(column, order, shift, memory);
    }
    block.sync();
    sum_tables(block, false, slots, memory);
    block.sync();
    for_each_target(first, end, [&](unsigned target, unsigned c) {
      const unsigned at = target * Memory::kWidth + c;
      const Bits prefix = memory.found()[at];
      unsigned slot = 0;
      while (memory.prefixes()[slot * Memory::kWidth + c] != prefix) {
        ++slot;
      }
      const unsigned digit = find_digit(block, memory, slot, c, memory.ranks()[at]);
      memory.found()[at] = static_cast<Bits>(prefix << kBitsOfColumnDigit | digit);
    });
    block.sync();
  }

  /// The blocks of a cluster share the columns.
  __device__ __forceinline__ void put(const SelectionPart& part) const {
    for_each_target(0, part.num_targets(), [&](unsigned target, unsigned c) {
      if (c % block.size == block.rank) {
        const Ranks ranks = ranks_of_target(part, target, rows(), memory.nans()[c]);
        const int64_t channel = column.in.channel(column.batch, column.first_column() + c);
        put_value(part, order, target, channel, ranks, memory.found()[target * Memory::kWidth + c]);
      }
    });
  }
};

template <class Bits, class Column>
__global__ __launch_bounds__(kThreadsOfStripes, kBlocksOfStripes) void select_stripes_kernel(
    const Bits* __restrict__ data,
    const __grid_constant__ ChannelColumns in,
    KeyOrder<Bits> order,
    const __grid_constant__ SelectionPart all,
    StripeShape shape) {
  extern __shared__ __align__(16) unsigned char shared[];
  const StripeMemory<Bits> memory{shared, shape};
  const BlockOfCluster block{in.chunks, blockIdx.x % in.chunks};
  const Column column(data, in, kThreadsOfStripes, blockIdx.x / in.chunks, block.rank);
  const StripeOfBlock<Column> stripe{column, order, shape, block, memory};
  SelectionPart part = all;
  for (; part.first_q < all.first_q + all.num_q; part.first_q += shape.targets / kTargetsOfQ) {
    const int64_t left = all.first_q + all.num_q - part.first_q;
    part.num_q = min(left, int64_t{shape.targets / kTargetsOfQ});
    stripe.find_first(part);
    const unsigned targets = part.num_targets();
#pragma unroll 1
    for (unsigned first = 0; first < targets; first += shape.group) {
#pragma unroll 1
      for (int shift = 8 * (sizeof(Bits) - 2); shift >= 0; shift -= 8) {
        stripe.find_next(static_cast<unsigned>(shift), first, min(first + shape.group, targets));
      }
    }
    __syncthreads();
    stripe.put(part);
    __syncthreads();
  }
}

} // namespace

void select_stripes(const SelectPlan& plan, const SelectionPart& part, const Launch& launch) {
  const Problem& problem = part.selection.problem;
  visit_wide_bits(problem.type, [&](auto tag) {
    using Bits = typename decltype(tag)::type;
    start(
        launch, "select_stripes",
        plan.columns.are_general() ? select_stripes_kernel<Bits, GeneralColumn<Bits>>
                                   : select_stripes_kernel<Bits, ColumnOfThread<Bits>>,
        LaunchShape{
            grid_of(plan.blocks), dim3(static_cast<unsigned>(plan.threads)), plan.shared_bytes,
            static_cast<int>(plan.columns.chunks)},
        static_cast<const Bits*>(problem.data), plan.columns, KeyOrder<Bits>::of(problem.type),
        part, plan.stripe);
  });
}

} // namespace histo::cuda
