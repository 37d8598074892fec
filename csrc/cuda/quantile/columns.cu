// Counts a digit of channels that lie side by side. A block has a stripe of columns, and a table
// [slot][column of the word][digit][word], in which a lane meets no other in a bank.
#include "../counts.cuh"
#include "../overlap.cuh"
#include "../rotated.cuh"
#include "../walk.cuh"
#include "keys.cuh"

namespace histo::cuda {
namespace {

constexpr int kLogWords = 5;

template <class Bits>
using ShapeOf = ReadShape<kThreadsOfSelectColumns, 1, sizeof(Bits) == 8 ? 8 : 16>;

/// The slots of a column, as find_slots numbers them. Returns how many there are.
template <class Bits>
__device__ __forceinline__ unsigned find_prefixes(
    const Target* targets, unsigned num_targets, unsigned step, Bits* prefixes) {
  unsigned count = 0;
  for (unsigned target = 0; target < num_targets; ++target) {
    const auto prefix = static_cast<Bits>(targets[target].prefix);
    unsigned slot = 0;
    while (slot < count && prefixes[slot * step] != prefix) {
      ++slot;
    }
    if (slot == count) {
      prefixes[slot * step] = prefix;
      ++count;
    }
  }
  return count;
}

template <bool kFirst, class Bits>
__global__ __launch_bounds__(ShapeOf<Bits>::kThreads, 1) void count_digit_columns_kernel(
    const Bits* __restrict__ data,
    const __grid_constant__ ChannelColumns in,
    KeyOrder<Bits> order,
    const __grid_constant__ SelectPass pass,
    unsigned targets) {
  using Column = ColumnOfThread<Bits>;
  using Shape = ShapeOf<Bits>;
  constexpr unsigned kOfWord = Column::kOfWord, kWidth = kOfWord << kLogWords;
  __shared__ unsigned used[kWidth];
  extern __shared__ __align__(16) unsigned char shared[];
  auto* prefixes = reinterpret_cast<Bits*>(shared); // [slot][column]
  auto* table = reinterpret_cast<uint32_t*>(prefixes + (kFirst ? 0 : pass.slots * kWidth));
  const Digit& digit = pass.digit;
  const Column column(data, in, Shape::kThreads);
  const unsigned plane = digit.counters() << kLogWords; // words
  const unsigned size = pass.slots * kOfWord * plane;
  for (unsigned i = threadIdx.x; i < size; i += Shape::kThreads) {
    table[i] = 0;
  }
  wait_for_previous(); // it finds the targets, or clears the counts
  if constexpr (!kFirst) {
    for (unsigned c = threadIdx.x; c < kWidth; c += Shape::kThreads) {
      const int64_t channel = in.channel(column.batch, column.first_column() + c);
      used[c] = find_prefixes(&pass.targets[channel * targets], targets, kWidth, prefixes + c);
    }
  }
  __syncthreads();
  const uint32_t counters = address_of(table) + 4 * column.word;
  const unsigned shift = digit.shift, bits = digit.bits, values = digit.values();
  column.template for_each<Shape>([&](Bits number, int of_word) {
    if constexpr (kFirst) {
      const unsigned value =
          order.is_nan(number) ? values : static_cast<unsigned>(order.ordered(number) >> shift);
      add_shared(counters + 4 * (of_word * plane + (value << kLogWords)), 1);
    } else {
      const unsigned c = column.word * kOfWord + of_word;
      const Bits upper = static_cast<Bits>(order.key(number) >> shift);
      const auto prefix = static_cast<Bits>(upper >> bits);
      const unsigned value = static_cast<unsigned>(upper) & (values - 1);
      for (unsigned slot = 0; slot < used[c]; ++slot) {
        if (prefixes[slot * kWidth + c] == prefix) {
          const unsigned first = (slot * kOfWord + of_word) * plane;
          add_shared(counters + 4 * (first + (value << kLogWords)), 1);
          break;
        }
      }
    }
  });
  __syncthreads();
  rotate_rows<kLogWords>(table, size);
  __syncthreads();
  // A warp adds the counts of a column's slot.
  const unsigned lane = threadIdx.x % kWarp;
  for (unsigned i = threadIdx.x / kWarp; i < pass.slots * kWidth; i += Shape::kThreads / kWarp) {
    const unsigned c = i % kWidth, slot = i / kWidth;
    if (column.first_column() + c >= in.columns || (!kFirst && slot >= used[c])) {
      continue;
    }
    const int64_t channel = in.channel(column.batch, column.first_column() + c);
    unsigned long long* counts = pass.counts + (channel * pass.slots + slot) * digit.counters();
    const unsigned first = (slot * kOfWord + c % kOfWord) * digit.counters();
    for (unsigned place = lane; place < digit.counters(); place += kWarp) {
      put<true>(&counts[place], table[rotated<kLogWords>(first + place, c / kOfWord)]);
    }
  }
}

} // namespace

void count_digit_columns(
    const SelectPlan& plan,
    const SelectionPart& part,
    const SelectPass& pass,
    const Launch& launch) {
  const Problem& problem = part.selection.problem;
  visit_wide_bits(problem.type, [&](auto tag) {
    using Bits = typename decltype(tag)::type;
    start(
        launch, "count_digit_columns",
        pass.digit.first ? count_digit_columns_kernel<true, Bits>
                         : count_digit_columns_kernel<false, Bits>,
        shape_of(plan), static_cast<const Bits*>(problem.data), plan.columns,
        KeyOrder<Bits>::of(problem.type), pass, part.num_targets());
  });
}

} // namespace histo::cuda
