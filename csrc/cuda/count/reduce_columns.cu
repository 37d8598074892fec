// Sums the tables that the blocks of interleaved.cu leave in the workspace.
#include "cuda/count/counters.cuh"
#include "cuda/count/reduce.h"
#include "cuda/pdl.cuh"
#include "cuda/walk/loads.cuh"

namespace histo::cuda {
namespace {

/// The tables that blocks have written for a segment.
struct SegmentTables {
  unsigned first;
  unsigned number;
  bool started;   // the counts have the segment's first part
  bool in_counts; // or all of it
};

__device__ __forceinline__ SegmentTables tables_of(const Interleaved& in, unsigned index) {
  if (in.part_rows == in.segment_rows) { // a division takes as long as some loads
    return {index * in.blocks_of_part, in.blocks_of_part, false, false};
  }
  const unsigned part = index * in.segment_rows / in.part_rows;
  const unsigned begin = index * in.segment_rows - part * in.part_rows;
  const unsigned end = begin + in.segment_rows;
  const unsigned first = (begin + in.share - 1) / in.share;
  const unsigned last = (end - 1) / in.share;
  // If a segment begins within a share, its first part is in the counts. If it also ends there, all
  // of it is.
  const bool started = begin != first * in.share;
  const bool in_counts = started ? last < first : end <= begin + in.share;
  return {part * in.blocks_of_part + first, last + 1 - first, started, in_counts};
}

/// The segment, with the head that all its runs have.
template <class Counters>
__device__ __forceinline__ Segment segment_of(const Interleaved& in, unsigned index) {
  Segment segment = segment_at(in, index);
  if constexpr (Counters::kElementBytes < 4) { // words of wider types are single elements
    const unsigned load_bytes = in.access == Access::kVec16 ? 16 : 4;
    segment.head = head_of(in, batch_of(in, segment.batch), load_bytes, Counters::kElementBytes);
  }
  return segment;
}

/// Sums kWords words of a segment's tables, and transposes [entry][column] into [channel][bin].
///
/// The tables are dealt to several threads, so that many loads are in flight.
template <class Counters, int kWords>
struct Slice {
  static constexpr int kHalves = Counters::kHalves;
  static constexpr int kVec16s = kWords / 4;
  static constexpr int kSplits = kReduceThreads / kVec16s;
  static constexpr int kUnroll = reduce_unroll(kWords);
  static constexpr int kSums = kHalves * kWords;
  static constexpr int kSumsOfThread = (kSums + kReduceThreads - 1) / kReduceThreads;

  const Interleaved& in;
  SegmentTables tables;
  unsigned first_word;
  int64_t table_vec16s;
  int vec16; // of the slice, the thread's
  unsigned split;
  bool inside;                                 // a slice may be cut short
  const uint4* table;                          // the next one that the thread loads of
  int entries;                                 // of the slice, a power of two
  unsigned long long* counters[kSumsOfThread]; // of the thread's sums
  uint4 vec16s[kUnroll];

  __device__ __forceinline__
  Slice(const Interleaved& columns, const SegmentTables& tables_of_segment, const uint4* partials)
      : in(columns),
        tables(tables_of_segment),
        first_word(blockIdx.y * kWords),
        table_vec16s(in.table_words() / 4),
        vec16(threadIdx.x % kVec16s),
        split(threadIdx.x / kVec16s),
        inside(first_word + 4 * vec16 < in.table_words()),
        table(partials + int64_t{tables.first + split} * table_vec16s + first_word / 4 + vec16) {
  }

  /// Issues all loads at once.
  __device__ __forceinline__ void load(unsigned block) {
#pragma unroll
    for (int k = 0; k < kUnroll; ++k) {
      vec16s[k] = inside && block + split + k * kSplits < tables.number
                      ? __ldcg(table + k * kSplits * table_vec16s)
                      : make_uint4(0, 0, 0, 0);
    }
    table += kUnroll * kSplits * table_vec16s;
  }
  /// Finds the counters of the thread's sums. Neighbouring threads write neighbouring bins of one
  /// channel.
  __device__ __forceinline__ void find_counters(
      const Segment& segment, const ByteAxis& axis, unsigned long long* counts) {
    const int log_entry_words = static_cast<int>(in.log_entry_words);
    const int first_entry = static_cast<int>(first_word) >> log_entry_words;
    entries = kWords >> log_entry_words;
    const auto channels = static_cast<int>(in.sums_columns ? in.channels : in.columns);
#pragma unroll
    for (int k = 0; k < kSumsOfThread; ++k) {
      const int i = static_cast<int>(threadIdx.x) + k * kReduceThreads;
      const int entry = first_entry + (i & (entries - 1));
      const int64_t column = first_column_of(in, segment) + (i << log_entry_words) / kWords;
      const int64_t bin = Counters::bin_of_entry(in, axis, entry);
      const int64_t channel = channel_of(in, segment, column);
      counters[k] = i < kSums && column < channels && channel < in.counted && bin != kNoBin
                        ? &counts[in.counter(segment.batch, channel, bin)]
                        : nullptr;
    }
  }
  /// Sums the thread's words over its tables.
  __device__ __forceinline__ void sum_tables(uint32_t (&parts)[kSplits][kHalves][kWords]) {
    uint32_t low[4] = {0, 0, 0, 0}, high[4] = {0, 0, 0, 0};
    for (unsigned block = 0;;) {
      __syncwarp(); // no load passes it, and no addition
#pragma unroll
      for (int k = 0; k < kUnroll; ++k) {
        const uint32_t words[4] = {vec16s[k].x, vec16s[k].y, vec16s[k].z, vec16s[k].w};
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
    reinterpret_cast<uint4*>(parts[split][0])[vec16] = make_uint4(low[0], low[1], low[2], low[3]);
    if constexpr (kHalves == 2) {
      reinterpret_cast<uint4*>(parts[split][1])[vec16] =
          make_uint4(high[0], high[1], high[2], high[3]);
    }
  }
  /// Adds the sums that several threads have of a word. The columns of these sums lie an odd number
  /// of words apart.
  __device__ __forceinline__ void sum_parts(
      const uint32_t (&parts)[kSplits][kHalves][kWords], uint32_t (&sums)[2 * kSums]) const {
#pragma unroll
    for (int k = 0; k < kSumsOfThread; ++k) {
      const int i = static_cast<int>(threadIdx.x) + k * kReduceThreads;
      if (i < kSums) {
        const int half = i / kWords;
        const int word = i % kWords;
        uint32_t sum = 0;
#pragma unroll
        for (int s = 0; s < kSplits; ++s) {
          sum += parts[s][half][word];
        }
        const int column = Counters::column_of_word(in, word, half);
        sums[column * (entries | 1) + Counters::entry_of_word(in, word, half)] = sum;
      }
    }
  }
  /// Writes the sums to the counts. The columns of a channel lie as many columns apart as there are
  /// channels.
  __device__ __forceinline__ void put_sums(const uint32_t (&sums)[2 * kSums]) const {
    const bool add = in.adds || tables.started;
    const int log_entry_words = static_cast<int>(in.log_entry_words);
    const int first_entry = static_cast<int>(first_word) >> log_entry_words;
#pragma unroll
    for (int k = 0; k < kSumsOfThread; ++k) {
      if (counters[k] != nullptr) {
        const int i = static_cast<int>(threadIdx.x) + k * kReduceThreads;
        // A slice has whole groups of entries, so it has the index of each of its entries.
        const int entry =
            Counters::index_of_entry(in, first_entry + (i & (entries - 1))) - first_entry;
        const int column = (i << log_entry_words) / kWords;
        uint32_t sum = sums[column * (entries | 1) + entry];
        if (in.sums_columns) {
          const auto channels = static_cast<int>(in.channels);
          for (int copy = channels; copy < static_cast<int>(in.columns); copy += channels) {
            sum += sums[(column + copy) * (entries | 1) + entry];
          }
        }
        put_or_add(counters[k], sum, add);
      }
    }
  }
  /// Nobody reads the slice of the tables again, so the cache need not write it to memory.
  __device__ __forceinline__ void discard(const uint4* partials) const {
    constexpr unsigned kLineWords = kLineBytes / 4;
    constexpr unsigned kLines = kWords / kLineWords;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < tables.number * kLines; i += kReduceThreads) {
      const unsigned word = first_word + i % kLines * kLineWords;
      if (word < in.table_words()) {
        discard_line(partials + (int64_t{tables.first + i / kLines} * table_vec16s + word / 4));
      }
    }
  }
};

/// The kernel runs when all else has ended, so its latency adds to the time of the call.
template <class Counters, int kWords>
__global__ __launch_bounds__(kReduceThreads, 2) void reduce_columns_kernel(
    const __grid_constant__ Interleaved in,
    const ByteAxis axis,
    const uint4* __restrict__ partials,
    unsigned long long* __restrict__ counts) {
  using SliceOfTables = Slice<Counters, kWords>;
  constexpr int kSplits = SliceOfTables::kSplits;
  constexpr int kHalves = SliceOfTables::kHalves;
  __shared__ __align__(16) uint32_t parts[kSplits][kHalves][kWords];
  __shared__ uint32_t sums[2 * SliceOfTables::kSums];
  const SegmentTables tables = tables_of(in, blockIdx.x);
  if (tables.in_counts) {
    return;
  }
  SliceOfTables slice(in, tables, partials);
  wait_for_previous();
  slice.load(0);
  slice.find_counters(segment_of<Counters>(in, blockIdx.x), axis, counts); // meanwhile
  slice.sum_tables(parts);
  __syncthreads();
  slice.sum_parts(parts, sums);
  __syncthreads();
  slice.put_sums(sums);
  slice.discard(partials);
}

} // namespace

void reduce_columns(
    const CountPlan& plan,
    const Problem& problem,
    const ByteAxis& axis,
    const uint4* partials,
    const Launch& launch) {
  const auto& in = std::get<Interleaved>(plan.layout);
  const auto reduce = [&](auto layout) {
    with_reduce_words(plan.reduce_words, [&](auto words) {
      start(
          launch, "reduce_columns", reduce_columns_kernel<typename decltype(layout)::type, words()>,
          reduce_shape(plan, in, launch), in, axis, partials,
          reinterpret_cast<unsigned long long*>(problem.counts));
    });
  };
  visit_element_type(problem.type, [&](auto tag) {
    constexpr size_t kSize = sizeof(typename decltype(tag)::type);
    if constexpr (kSize == 1) {
      reduce(TypeTag<ByteCounters>{});
    } else if constexpr (kSize == 2) {
      in.log_entry_words < kLogWarp ? reduce(TypeTag<PackedBins>{})
                                    : reduce(TypeTag<PackedColumns>{});
    } else {
      static_assert(kSize == 4 || kSize == 8);
      reduce(TypeTag<WordCounters>{});
    }
  });
}

} // namespace histo::cuda
