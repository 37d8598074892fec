// Counts a digit of channels that lie side by side. A block has a stripe of columns, and a table
// [slot][column of the word][digit][word], in which a lane meets no other in a bank.
#include "cuda/pdl.cuh"
#include "cuda/select/sort_keys.cuh"
#include "cuda/select/targets.cuh"
#include "cuda/storage/counts.cuh"
#include "cuda/storage/rotated.cuh"
#include "cuda/walk/general_columns.cuh"

namespace histo::cuda {
namespace {

constexpr int kLogWords = 5;
constexpr unsigned kFewSlots = kTargetsOfQ; // of a column

constexpr unsigned kThreads = kThreadsOfSelectColumns;
/// Columns of several loops leave fewer registers for loads in flight.
template <class Bits, class Column>
constexpr int kLoads = std::is_same_v<Column, GeneralColumn<Bits>> ? 4
                       : sizeof(Bits) == 8                         ? 8
                                                                   : 16;
template <class Bits, class Column>
using ColumnReads = ReadShape<kThreads, 1, kLoads<Bits, Column>>;

/// The slots of a column, as find_slots numbers them. Returns how many there are.
template <class Bits>
__device__ __forceinline__ unsigned find_prefixes(
    const RankTarget* targets, unsigned num_targets, unsigned step, Bits* prefixes) {
  unsigned count = 0;
  for (unsigned target = 0; target < num_targets; ++target) {
    const auto prefix = static_cast<Bits>(targets[target].prefix);
    if (slot_among(prefixes, step, count, prefix) == count) {
      prefixes[count * step] = prefix;
      ++count;
    }
  }
  return count;
}

/// The table of a block, and the prefixes of its slots: both [slot][column].
template <class Bits>
struct DigitColumns {
  static constexpr unsigned kOfWord = ColumnOfThread<Bits>::kOfWord;
  static constexpr unsigned kWidth = kOfWord << kLogWords;

  const Bits* prefixes;
  uint32_t* counters;
  unsigned plane; // words of a slot and a column of each word
  unsigned slots;

  __device__ __forceinline__ unsigned size() const {
    return slots * kOfWord * plane;
  }
};

/// Counts the first digit of all keys.
template <class Bits, class Column>
__device__ __forceinline__ void count_first_digits(
    const Column& column,
    const KeyOrder<Bits>& order,
    const KeyDigit& digit,
    const DigitColumns<Bits>& table) {
  const uint32_t counters = address_of(table.counters) + 4 * column.word;
  const unsigned shift = digit.shift, values = digit.values();
  column.template for_each<ColumnReads<Bits, Column>>([&](Bits number, int of_word) {
    const unsigned value =
        order.is_nan(number) ? values : static_cast<unsigned>(order.ordered(number) >> shift);
    add_shared(counters + 4 * (of_word * table.plane + (value << kLogWords)), 1);
  });
}

/// Counts the next digit of keys that have a prefix of the `used` slots of their column, of which
/// there are up to kSlots. Their prefixes are in registers.
template <unsigned kSlots, class Bits, class Column>
__device__ __forceinline__ void count_next_digits(
    const Column& column,
    const KeyOrder<Bits>& order,
    const KeyDigit& digit,
    const DigitColumns<Bits>& table,
    const unsigned* used) {
  using Table = DigitColumns<Bits>;
  const uint32_t counters = address_of(table.counters) + 4 * column.word;
  const unsigned shift = digit.shift;
  Bits prefixes[Table::kOfWord][kSlots];
#pragma unroll
  for (unsigned of_word = 0; of_word < Table::kOfWord; ++of_word) {
    const unsigned c = column.word * Table::kOfWord + of_word;
    load_prefixes(table.prefixes + c, Table::kWidth, used[c], prefixes[of_word]);
  }
  column.template for_each<ColumnReads<Bits, Column>>([&](Bits number, int of_word) {
    const Bits upper = static_cast<Bits>(order.key(number) >> shift);
    const unsigned slot =
        slot_of(prefixes[of_word], static_cast<Bits>(upper >> kBitsOfColumnDigit));
    if (slot < kSlots) {
      const unsigned first = (slot * Table::kOfWord + of_word) * table.plane;
      const unsigned value = static_cast<unsigned>(upper) % (1u << kBitsOfColumnDigit);
      add_shared(counters + 4 * (first + (value << kLogWords)), 1);
    }
  });
}

/// Adds the counts of a block. A warp adds those of a column's slot.
template <bool kFirst, class Bits, class Column>
__device__ __forceinline__ void put_digit_counts(
    const Column& column,
    const ChannelColumns& in,
    const SelectPass& pass,
    const unsigned* used,
    const DigitColumns<Bits>& table) {
  constexpr unsigned kOfWord = DigitColumns<Bits>::kOfWord, kWidth = DigitColumns<Bits>::kWidth;
  constexpr unsigned kWarps = kThreads / kWarp;
  const KeyDigit& digit = pass.digit;
  const unsigned lane = threadIdx.x % kWarp;
  for (unsigned i = threadIdx.x / kWarp; i < pass.slots * kWidth; i += kWarps) {
    const unsigned c = i % kWidth, slot = i / kWidth;
    if (column.first_column() + c >= in.columns || (!kFirst && slot >= used[c])) {
      continue;
    }
    const int64_t channel = in.channel(column.batch, column.first_column() + c);
    unsigned long long* counts = pass.counts + (channel * pass.slots + slot) * digit.counters();
    const unsigned first = (slot * kOfWord + c % kOfWord) * digit.counters();
    for (unsigned value = lane; value < digit.counters(); value += kWarp) {
      put<true>(&counts[value], table.counters[rotated<kLogWords>(first + value, c / kOfWord)]);
    }
  }
}

template <bool kFirst, class Bits, class Column>
__global__ __launch_bounds__(kThreads, 1) void count_digit_columns_kernel(
    const Bits* __restrict__ data,
    const __grid_constant__ ChannelColumns in,
    KeyOrder<Bits> order,
    const __grid_constant__ SelectPass pass,
    unsigned targets) {
  constexpr unsigned kWidth = DigitColumns<Bits>::kWidth;
  __shared__ unsigned used[kWidth];
  extern __shared__ __align__(16) unsigned char shared[];
  auto* prefixes = reinterpret_cast<Bits*>(shared); // [slot][column]
  const KeyDigit& digit = pass.digit;
  const Column column(data, in, kThreads);
  const DigitColumns<Bits> table{
      prefixes, reinterpret_cast<uint32_t*>(prefixes + (kFirst ? 0 : pass.slots * kWidth)),
      digit.counters() << kLogWords, pass.slots};
  for (unsigned i = threadIdx.x; i < table.size(); i += kThreads) {
    table.counters[i] = 0;
  }
  wait_for_previous(); // it finds the targets, or clears the counts
  if constexpr (!kFirst) {
    for (unsigned c = threadIdx.x; c < kWidth; c += kThreads) {
      const int64_t channel = in.channel(column.batch, column.first_column() + c);
      used[c] = find_prefixes(&pass.targets[channel * targets], targets, kWidth, prefixes + c);
    }
  }
  __syncthreads();
  if constexpr (kFirst) {
    count_first_digits(column, order, digit, table);
  } else if (__syncthreads_or(threadIdx.x < kWidth && used[threadIdx.x] > kFewSlots)) {
    count_next_digits<kMostSlotsOfColumn>(column, order, digit, table, used);
  } else {
    count_next_digits<kFewSlots>(column, order, digit, table, used);
  }
  __syncthreads();
  rotate_rows<kLogWords>(table.counters, table.size());
  __syncthreads();
  put_digit_counts<kFirst>(column, in, pass, used, table);
}

} // namespace

void count_digit(
    const ChannelColumns& in,
    const SelectCall& call,
    const SelectPass& pass,
    const Launch& launch) {
  const Problem& problem = call.part.selection.problem;
  visit_wide_bits(problem.type, [&](auto tag) {
    using Bits = typename decltype(tag)::type;
    const auto kernel_of = [&](auto column) {
      using Column = typename decltype(column)::type;
      return pass.digit.first ? count_digit_columns_kernel<true, Bits, Column>
                              : count_digit_columns_kernel<false, Bits, Column>;
    };
    const auto kernel = in.are_general() ? kernel_of(TypeTag<GeneralColumn<Bits>>{})
                                         : kernel_of(TypeTag<ColumnOfThread<Bits>>{});
    start(
        launch, "count_digit_columns", kernel, shape_of(call.plan, 1, call.plan.overlaps),
        static_cast<const Bits*>(problem.data), in, KeyOrder<Bits>::of(problem.type), pass,
        call.part.num_targets());
  });
}

} // namespace histo::cuda
