// Sums the tables that the blocks of columns.cu leave in the workspace.
#include "counters.cuh"
#include "fold.h"
#include "loads.cuh"
#include "overlap.cuh"

namespace histo::cuda {
namespace {

/// The tables that blocks have left of a unit.
struct Tables {
  unsigned first;
  unsigned number;
  bool started;   // the counts have the unit's first part
  bool in_counts; // or all of it
};

__device__ __forceinline__ Tables tables_of(const Interleaved& in, unsigned index) {
  if (in.part_rows == in.unit_rows) { // a division takes as long as some loads
    return {index * in.blocks_of_part, in.blocks_of_part, false, false};
  }
  const unsigned part = index * in.unit_rows / in.part_rows;
  const unsigned begin = index * in.unit_rows - part * in.part_rows;
  const unsigned end = begin + in.unit_rows;
  const unsigned first = (begin + in.share - 1) / in.share;
  const unsigned last = (end - 1) / in.share;
  // A unit that begins within a share has its first part in the counts. One that also ends in that
  // share is all there.
  const bool started = begin != first * in.share;
  const bool in_counts = started ? last < first : end <= begin + in.share;
  return {part * in.blocks_of_part + first, last + 1 - first, started, in_counts};
}

/// The unit, with the head that all its runs have.
template <class Counters>
__device__ __forceinline__ Unit unit_of(const Interleaved& in, unsigned index) {
  Unit unit = unit_at(in, index);
  if constexpr (Counters::kElementBytes < 4) { // words of wider types are single elements
    const unsigned load_bytes = in.access == Access::kQuad ? 16 : 4;
    unit.head = head_of(in, batch_of(in, unit.batch), load_bytes, Counters::kElementBytes);
  }
  return unit;
}

/// Sums a unit's tables, kWords words a block, and transposes [row][column] into
/// [channel][bin]. The tables are dealt to several threads, so that many loads are on
/// their way at once.
///
/// It starts when all else has ended, so what it does one after the other is waited for: 64 MiB of
/// 512 channels take 22.9 us, and 23.7 with loads in turns and places worked out after them.
template <class Counters, int kWords>
__global__ __launch_bounds__(kFoldThreads, 2) void fold_columns_kernel(
    const __grid_constant__ Interleaved in,
    const ByteAxis axis,
    const uint4* __restrict__ partials,
    unsigned long long* __restrict__ counts) {
  constexpr int kHalves = Counters::kHalves;
  constexpr int kQuads = kWords / 4;
  constexpr int kSplits = kFoldThreads / kQuads;
  constexpr int kUnroll = fold_unroll(kWords);
  constexpr int kSums = kHalves * kWords;
  constexpr int kSumsOfThread = (kSums + kFoldThreads - 1) / kFoldThreads;
  __shared__ __align__(16) uint32_t parts[kSplits][kHalves][kWords];
  // Rows of columns in turn, an odd number of words apart.
  __shared__ uint32_t sums[kHalves * 2 * kWords];

  const unsigned table_words = in.table_words();
  const unsigned index = blockIdx.x;
  const unsigned first_word = blockIdx.y * kWords;
  const Tables tables = tables_of(in, index);
  if (tables.in_counts) {
    return;
  }

  const int quad = threadIdx.x % kQuads;
  const unsigned split = threadIdx.x / kQuads;
  const bool inside = first_word + 4 * quad < table_words; // a slice may be cut short
  const int64_t table_quads = table_words / 4;
  const uint4* table =
      partials + int64_t{tables.first + split} * table_quads + first_word / 4 + quad;
  uint4 quads[kUnroll];
  const auto load = [&](unsigned block) { // all are on their way at once
#pragma unroll
    for (int k = 0; k < kUnroll; ++k) {
      quads[k] = inside && block + split + k * kSplits < tables.number
                     ? __ldcg(table + k * kSplits * table_quads)
                     : make_uint4(0, 0, 0, 0);
    }
    table += kUnroll * kSplits * table_quads;
  };
  wait_for_previous();
  load(0);

  // Meanwhile: where the thread's sums go.
  const Unit unit = unit_of<Counters>(in, index);
  const bool add = in.adds || tables.started;
  const int log_row_words = static_cast<int>(in.log_row_words);
  const int rows = kWords >> log_row_words; // a power of two
  const int first_row = static_cast<int>(first_word) >> log_row_words;
  // Of a channel's columns in the table the first, and how many follow, a row of channels
  // apart.
  const int channels = static_cast<int>(in.sums_columns ? in.channels : in.columns);
  const int copies = in.sums_columns ? static_cast<int>(in.columns) / channels : 1;
  unsigned long long* counters[kSumsOfThread];
  int places[kSumsOfThread]; // in `sums`
#pragma unroll
  for (int k = 0; k < kSumsOfThread; ++k) {
    // Neighbouring threads write neighbouring bins of one channel.
    const int i = static_cast<int>(threadIdx.x) + k * kFoldThreads;
    const int column_of_table = (i << log_row_words) / kWords;
    const int row = first_row + (i & (rows - 1));
    const int64_t column = first_column_of(in, unit) + column_of_table;
    const int64_t bin = Counters::bin_of_row(in, axis, row);
    // A bin's row lies within a group of rows that a slice has all of.
    const int place = Counters::place_of_row(in, row) - first_row;
    places[k] = column_of_table * (rows | 1) + place;
    const int64_t channel = channel_of(in, unit, column);
    counters[k] = i < kSums && column < channels && channel < in.counted && bin != kNoBin
                      ? &counts[in.counter(unit.batch, channel, bin)]
                      : nullptr;
  }

  uint32_t low[4] = {0, 0, 0, 0}, high[4] = {0, 0, 0, 0};
  for (unsigned block = 0;;) {
    __syncwarp(); // no load passes it, and no addition
#pragma unroll
    for (int k = 0; k < kUnroll; ++k) {
      const uint32_t words[4] = {quads[k].x, quads[k].y, quads[k].z, quads[k].w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        low[i] += Counters::count_of(words[i], 0);
        high[i] += Counters::count_of(words[i], kHalves - 1);
      }
    }
    block += kUnroll * kSplits;
    if (block >= tables.number) {
      break;
    }
    load(block);
  }
  reinterpret_cast<uint4*>(parts[split][0])[quad] = make_uint4(low[0], low[1], low[2], low[3]);
  if (kHalves == 2) {
    reinterpret_cast<uint4*>(parts[split][kHalves - 1])[quad] =
        make_uint4(high[0], high[1], high[2], high[3]);
  }
  __syncthreads();

#pragma unroll
  for (int k = 0; k < kSumsOfThread; ++k) {
    const int i = static_cast<int>(threadIdx.x) + k * kFoldThreads;
    if (i < kSums) {
      const int half = i / kWords;
      const int word = i % kWords;
      uint32_t sum = 0;
#pragma unroll
      for (int s = 0; s < kSplits; ++s) {
        sum += parts[s][half][word];
      }
      sums
          [Counters::column_of_word(in, word, half) * (rows | 1) +
           Counters::row_of_word(in, word, half)] = sum;
    }
  }
  __syncthreads();

#pragma unroll
  for (int k = 0; k < kSumsOfThread; ++k) {
    if (counters[k] != nullptr) {
      uint32_t sum = sums[places[k]];
      for (int copy = 1; copy < copies; ++copy) {
        sum += sums[places[k] + copy * channels * (rows | 1)];
      }
      put_or_add(counters[k], sum, add);
    }
  }

  // Nobody reads the slices again: the cache need not write them to memory.
  constexpr unsigned kLineWords = kLineBytes / 4;
  constexpr unsigned kLines = kWords / kLineWords;
#pragma unroll 1
  for (unsigned i = threadIdx.x; i < tables.number * kLines; i += kFoldThreads) {
    const unsigned word = first_word + i % kLines * kLineWords;
    if (word < table_words) {
      discard_line(partials + (int64_t{tables.first + i / kLines} * table_quads + word / 4));
    }
  }
}

} // namespace

void fold_columns(
    const Plan& plan,
    const Problem& problem,
    const ByteAxis& axis,
    const uint4* partials,
    const Launch& launch) {
  const auto& in = std::get<Interleaved>(plan.layout);
  const auto fold = [&](auto layout) {
    with_fold_words(plan.fold_words, [&](auto words) {
      start(
          launch, "fold_columns", fold_columns_kernel<typename decltype(layout)::type, words()>,
          fold_shape(plan, in, launch), in, axis, partials,
          reinterpret_cast<unsigned long long*>(problem.counts));
    });
  };
  visit_element_type(problem.type, [&](auto tag) {
    constexpr size_t kSize = sizeof(typename decltype(tag)::type);
    if constexpr (kSize == 1) {
      fold(TypeTag<ByteCounters>{});
    } else if constexpr (kSize == 2) {
      in.log_row_words < kLogWarp ? fold(TypeTag<BinPairs>{}) : fold(TypeTag<ColumnPairs>{});
    } else {
      static_assert(kSize == 4 || kSize == 8);
      fold(TypeTag<WordCounters>{});
    }
  });
}

} // namespace histo::cuda
