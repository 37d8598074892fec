// Channels that lie side by side, all passes in one kernel. The blocks of a cluster have a stripe of
// columns and share its rows. Each counts in a table [slot][digit][word], in which a lane meets no
// other in a bank. Then each sums a part of the digits over all tables of the cluster, and reads
// where the ranks lie from the others: counts and targets never leave shared memory.
#include "cuda/select/stripe_digits.cuh"
#include "cuda/select/targets.cuh"
#include "cuda/storage/fill_words.cuh"
#include "cuda/walk/general_columns.cuh"

namespace histo::cuda {
namespace {

// A block may have half of the threads: a column knows how many there are.
template <int kInFlight>
using StripeReads = ReadShape<kThreadsOfStripes, 1, kInFlight>;

/// Counts the first digit of all numbers, and NaN.
template <class Bits, class Column>
__device__ __forceinline__ void count_first_digits(
    const Column& column, const KeyOrder<Bits>& order, const StripeMemory<Bits>& memory) {
  using Memory = StripeMemory<Bits>;
  constexpr unsigned kShift = 8 * sizeof(Bits) - kBitsOfColumnDigit;
  const uint32_t counters = address_of(memory.table() + column.word);
  uint32_t nans = 0;
  column.template for_each_pack<StripeReads<sizeof(Bits) == 8 ? 4 : 8>>([&](const auto& pack) {
    for_each_number(pack, order, nans, [&](KeyWord<Bits> bits, int of_word) {
      add_shared(counters + 4 * kWarp * static_cast<unsigned>(bits >> kShift), memory.one(of_word));
    });
  });
  if (nans != 0) {
    for (unsigned of_word = 0; of_word < Memory::kOfWord; ++of_word) {
      add_shared(
          address_of(memory.own_nans() + column.word * Memory::kOfWord + of_word),
          Memory::count_of(nans, of_word));
    }
  }
}

/// Counts the second digit of 16-bit numbers with a first digit of their column's slots.
template <class Column>
__device__ __forceinline__ void count_second_digits(
    const Column& column, const KeyOrder<uint16_t>& order, const StripeMemory<uint16_t>& memory) {
  const uint32_t counters = address_of(memory.table() + column.word);
  const uint32_t first_rows = address_of(memory.first_rows() + column.word);
  // Other numbers go to a counter behind the table that nobody reads: a branch would be slower.
  const uint32_t elsewhere = address_of(memory.own_nans() + column.word);
  column.template for_each_pack<StripeReads<8>>([&](const auto& pack) {
    uint32_t nans = 0;
    for_each_number(pack, order, nans, [&](uint32_t bits, int of_word) {
      const uint32_t rows = load_shared(first_rows + 4 * kWarp * (bits >> kBitsOfColumnDigit));
      const uint32_t first = rows >> 16 * of_word & 0xffff;
      const uint32_t counter = counters + 4 * kWarp * (first + bits % kDigits);
      add_shared(min(counter, elsewhere), memory.one(of_word));
    });
  });
}

/// Counts the digit behind `shift` of numbers with a prefix of the slots of their column, of which
/// there are up to kSlots. Their prefixes are in registers.
template <unsigned kSlots, class Bits, class Column>
__device__ __forceinline__ void count_next_digits(
    const Column& column,
    const KeyOrder<Bits>& order,
    unsigned shift,
    const StripeMemory<Bits>& memory) {
  using Memory = StripeMemory<Bits>;
  static_assert(Memory::kOfWord == 1, "columns of 16 bits have tables of prefixes");
  const uint32_t counters = address_of(memory.table() + column.word);
  KeyWord<Bits> prefixes[kSlots];
  load_prefixes(
      memory.prefixes() + column.word, Memory::kWidth, memory.used()[column.word], prefixes);
  column.template for_each_pack<StripeReads<kSlots <= kTargetsOfQ && sizeof(Bits) < 8 ? 8 : 4>>(
      [&](const auto& pack) {
        uint32_t nans = 0;
        for_each_number(pack, order, nans, [&](KeyWord<Bits> bits, int) {
          const KeyWord<Bits> upper = bits >> shift;
          const unsigned slot = slot_of(prefixes, upper >> kBitsOfColumnDigit);
          if (slot < kSlots) {
            const unsigned digit = static_cast<unsigned>(upper) % kDigits;
            add_shared(counters + 4 * kWarp * (slot * kDigits + digit), 1);
          }
        });
      });
}

/// Targets whose next digits are counted together, and the slots of the column with most of them.
struct SlotsOfTargets {
  unsigned end;
  unsigned slots;
};

/// The slots of all columns, for targets from `first` on: as many as there is room for.
template <class Bits>
__device__ __forceinline__ SlotsOfTargets find_prefixes(
    const StripeMemory<Bits>& memory, unsigned columns, unsigned first, unsigned targets) {
  constexpr unsigned kWidth = StripeMemory<Bits>::kWidth;
  __shared__ SlotsOfTargets of_warps[kWidth / kWarp];
  const unsigned c = threadIdx.x;
  if (c < kWidth) {
    unsigned count = 0, end = first;
    for (; end < targets; ++end) {
      // Columns beyond the last one have any prefix.
      const Bits prefix = c < columns ? memory.found()[end * kWidth + c] : Bits{0};
      const unsigned slot = slot_among(memory.prefixes() + c, kWidth, count, prefix);
      if (slot == memory.shape.slots) {
        break;
      }
      if (slot == count) {
        memory.prefixes()[slot * kWidth + c] = prefix;
        ++count;
      }
    }
    memory.used()[c] = count;
    end = min_of_warp(end);
    count = max_of_warp(count);
    if (c % kWarp == 0) {
      of_warps[c / kWarp] = {end, count};
    }
  }
  __syncthreads();
  SlotsOfTargets all = of_warps[0];
#pragma unroll
  for (unsigned i = 1; i < kWidth / kWarp; ++i) {
    all = {min(all.end, of_warps[i].end), max(all.slots, of_warps[i].slots)};
  }
  return all;
}

template <class Bits>
__device__ __forceinline__ void clear_stripe(const StripeMemory<Bits>& memory, unsigned rows) {
  // The table lies behind the groups.
  fill_words(memory.groups(), (memory.shape.slots * kDigitGroups + rows) * kWarp, 0);
}

/// What the passes of a block share.
template <class Column>
struct StripeOfBlock {
  using Bits = typename Column::Element;
  using Memory = StripeMemory<Bits>;

  const Column& column;
  const KeyOrder<Bits>& order;
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
    for (unsigned i = threadIdx.x; i < (end - first) * Memory::kWidth; i += blockDim.x) {
      if (i % Memory::kWidth < columns()) {
        f(first + i / Memory::kWidth, i % Memory::kWidth);
      }
    }
  }

  /// The leading bits of the numbers whose keys begin with `prefix`; `shift` bits follow.
  __device__ __forceinline__ Bits bits_of(Bits prefix, unsigned shift) const {
    return static_cast<Bits>(order.bits_of(static_cast<Bits>(prefix << shift)) >> shift);
  }
  /// The digit of a rank in a slot of a column: `prefix` is that of the keys.
  __device__ __forceinline__ unsigned find(
      unsigned slot, unsigned c, Bits prefix, unsigned shift, uint32_t& rank) const {
    const auto row_of = [&](unsigned digit) {
      return bits_of(static_cast<Bits>(prefix << kBitsOfColumnDigit | digit), shift) % kDigits;
    };
    return find_digit(block, memory, slot, c, row_of, rank);
  }

  /// The first digits of all targets.
  __device__ __forceinline__ void find_first(const SelectionPart& part) const {
    clear_stripe(memory, kDigits);
    if (threadIdx.x < Memory::kWidth) {
      memory.own_nans()[threadIdx.x] = 0;
    }
    __syncthreads();
    count_first_digits(column, order, memory);
    block.sync();
    sum_tables(block, 1, memory);
    block.sync();
    for_each_target(0, part.num_targets(), [&](unsigned target, unsigned c) {
      uint32_t nans = 0;
      for (unsigned rank = 0; rank < block.size; ++rank) {
        nans += block.load(memory.own_nans() + c, rank);
      }
      const Ranks ranks = ranks_of_target(part, target, rows(), nans);
      auto rank = static_cast<uint32_t>(rank_of_target(ranks, target));
      const unsigned digit = find(0, c, 0, 8 * (sizeof(Bits) - 1), rank);
      memory.found()[target * Memory::kWidth + c] = static_cast<Bits>(digit);
      memory.ranks()[target * Memory::kWidth + c] = rank;
      if (target == 0) {
        memory.nans()[c] = nans;
      }
    });
    block.sync();
  }

  /// Counts the digit behind `shift` of the numbers in the slots.
  __device__ __forceinline__ void count_next(unsigned shift, unsigned slots) const {
    if constexpr (sizeof(Bits) == 2) {
      put_first_rows(slots);
      __syncthreads();
      count_second_digits(column, order, memory);
    } else if (slots <= kTargetsOfQ) {
      count_next_digits<kTargetsOfQ>(column, order, shift, memory);
    } else {
      count_next_digits<kMostSlotsOfColumn>(column, order, shift, memory);
    }
  }

  /// Writes the first row of each slot (16-bit types only).
  __device__ __forceinline__ void put_first_rows(unsigned slots) const {
    fill_words(memory.first_rows(), kDigits * kWarp, Memory::kNoRow * 0x10001u);
    __syncthreads();
    for (unsigned i = threadIdx.x; i < slots * Memory::kWidth; i += blockDim.x) {
      const unsigned c = i % Memory::kWidth, slot = i / Memory::kWidth;
      if (slot < memory.used()[c]) {
        auto* rows = reinterpret_cast<uint16_t*>(memory.first_rows());
        rows[memory.prefixes()[i] * Memory::kWidth + c] = static_cast<uint16_t>(slot * kDigits);
      }
    }
  }

  /// The next digit of targets from `first` on. Returns the end of those that there were slots for.
  __device__ __forceinline__ unsigned find_next(
      unsigned shift, unsigned first, unsigned targets) const {
    const auto [end, slots] = find_prefixes(memory, columns(), first, targets);
    clear_stripe(memory, slots * kDigits);
    for (unsigned i = threadIdx.x; i < slots * Memory::kWidth; i += blockDim.x) {
      if (i / Memory::kWidth < memory.used()[i % Memory::kWidth]) {
        memory.prefixes()[i] = bits_of(memory.prefixes()[i], shift + kBitsOfColumnDigit);
      }
    }
    __syncthreads();
    count_next(shift, slots);
    block.sync();
    sum_tables(block, slots, memory);
    block.sync();
    for_each_target(first, end, [&](unsigned target, unsigned c) {
      const unsigned at = target * Memory::kWidth + c;
      const Bits prefix = memory.found()[at];
      const Bits bits = bits_of(prefix, shift + kBitsOfColumnDigit);
      const unsigned slot =
          slot_among(memory.prefixes() + c, Memory::kWidth, memory.used()[c], bits);
      const unsigned digit = find(slot, c, prefix, shift, memory.ranks()[at]);
      memory.found()[at] = static_cast<Bits>(prefix << kBitsOfColumnDigit | digit);
    });
    block.sync();
    return end;
  }

  /// The blocks of a cluster share the columns.
  __device__ __forceinline__ void put(const SelectionPart& part) const {
    for_each_target(0, part.num_targets(), [&](unsigned target, unsigned c) {
      if ((c & (block.size - 1)) == block.rank) {
        const Ranks ranks = ranks_of_target(part, target, rows(), memory.nans()[c]);
        const int64_t channel = column.in.channel(column.batch, column.first_column() + c);
        put_value(part, order, target, channel, ranks, memory.found()[target * Memory::kWidth + c]);
      }
    });
  }
};

template <class Bits, class Column>
__global__ __launch_bounds__(kThreadsOfStripes, 1) void select_stripes_kernel(
    const Bits* __restrict__ data,
    const __grid_constant__ ChannelColumns in,
    KeyOrder<Bits> order,
    const __grid_constant__ SelectionPart all,
    StripeShape shape) {
  extern __shared__ __align__(16) unsigned char shared[];
  const StripeMemory<Bits> memory{shared, shape};
  const BlockOfCluster block{in.chunks, blockIdx.x % in.chunks};
  const Column column(data, in, blockDim.x, blockIdx.x / in.chunks, block.rank);
  const StripeOfBlock<Column> stripe{column, order, block, memory};
  SelectionPart part = all;
  for (; part.first_q < all.first_q + all.num_q; part.first_q += shape.targets / kTargetsOfQ) {
    const int64_t left = all.first_q + all.num_q - part.first_q;
    part.num_q = min(left, int64_t{shape.targets / kTargetsOfQ});
    stripe.find_first(part);
    const unsigned targets = part.num_targets();
#pragma unroll 1
    for (int shift = 8 * (sizeof(Bits) - 2); shift >= 0; shift -= 8) {
#pragma unroll 1
      for (unsigned first = 0; first < targets;) {
        first = stripe.find_next(static_cast<unsigned>(shift), first, targets);
      }
    }
    __syncthreads();
    stripe.put(part);
    __syncthreads();
  }
}

} // namespace

void select_layout(const SelectStripes& in, const SelectCall& call, const Launch& launch) {
  const Problem& problem = call.part.selection.problem;
  visit_wide_bits(problem.type, [&](auto tag) {
    using Bits = typename decltype(tag)::type;
    start(
        launch, "select_stripes",
        in.columns.are_general() ? select_stripes_kernel<Bits, GeneralColumn<Bits>>
                                 : select_stripes_kernel<Bits, ColumnOfThread<Bits>>,
        shape_of(call.plan, in.columns.chunks), static_cast<const Bits*>(problem.data), in.columns,
        KeyOrder<Bits>::of(problem.type), call.part, in.shape);
  });
}

} // namespace histo::cuda
