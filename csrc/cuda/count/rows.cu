// Counts whole rows of bytes, as interleaved.cu does, in a tenth of its code.
//
// A block counts rows of one segment, which follow each other at one distance. Columns are
// channels, and every byte is the number of its entry. So the kernel needs no divisions and few
// conditions.
//
// If rows begin with lines of memory, a table is for half a line: two blocks side by side read the
// two halves, and each leaves half as much to the reduction.
#include "cuda/count/byte_table.cuh"
#include "cuda/count/half_table.cuh"
#include "cuda/count/reduce.h"
#include "cuda/count/sweeps.h"
#include "cuda/count/tables.cuh"
#include "cuda/pdl.cuh"
#include "cuda/storage/clear.h"
#include "cuda/walk/loads.cuh"

namespace histo::cuda {
namespace {

constexpr unsigned kWarps = kColumnThreads / kWarp;
constexpr int kUnroll = kBytesInFlight / kVec16Bytes;

/// The half table of a segment.
struct SummedHalfTable : HalfTable {
  const ColumnLayout& in;
  const uint32_t* memory;

  __device__ SummedHalfTable(
      const ColumnLayout& columns, const ByteAxis&, uint32_t* shared, int lane)
      : HalfTable(shared, lane, kVec16Bytes / 4), in(columns), memory(shared) {
  }

  /// A few neighbouring lanes take neighbouring bins of one channel, so that a store fills whole
  /// sectors. More lanes would make more bank conflicts.
  __device__ void put_counts(const Segment& segment, Counts counts) const {
    constexpr unsigned kEntries = 4;
    constexpr unsigned kStep = kColumnThreads / kEntryWords; // a thread keeps to one word
    static_assert(kStep % kEntries == 0);
    const unsigned word = threadIdx.x / kEntries % kEntryWords;
    const int64_t column = first_column_of(in, segment) + column_of_word(word, 0);
    if (column >= in.columns) { // and so is the next one, since they are whole vec16s
      return;
    }
    Counts lower = &counts[in.counter(segment.batch, column, 0)];
    Counts upper = lower + in.num_bins;
    unsigned entry = threadIdx.x / (kEntries * kEntryWords) * kEntries + threadIdx.x % kEntries;
    for (; entry < in.table_entries; entry += kStep) {
      const uint32_t packed16 = memory[entry * kEntryWords + word];
      lower[entry] = packed16 & 0xffff;
      upper[entry] = packed16 >> 16;
    }
  }
};

template <unsigned kColumns>
using RowTable = std::conditional_t<kColumns == kHalfColumns, SummedHalfTable, ByteTable>;

/// The chunks that a warp takes of the rows of its block, and a row that makes no chunk.
template <unsigned kColumns>
struct ChunksOfWarp {
  static constexpr unsigned kLanesOfRow = kColumns / kVec16Bytes;
  static constexpr unsigned kRowsOfLoad = kWarp / kLanesOfRow; // of a warp
  static constexpr unsigned kRowsOfChunk = rows_of_chunk(kColumns);
  static_assert(kRowsOfChunk == kUnroll * kRowsOfLoad && kUnroll < kWarps);

  const WholeRows& in;
  unsigned lane;
  unsigned warp;
  Segment segment;
  unsigned rounds;        // chunks that are still to load
  const uint8_t* address; // of the next one
  bool has_row_left;
  const uint8_t* left;

  __device__ __forceinline__ explicit ChunksOfWarp(const WholeRows& whole_rows) : in(whole_rows) {
    lane = threadIdx.x % kWarp;
    // All lanes of a warp have the same value, and the compiler knows it.
    warp = __shfl_sync(0xffffffff, threadIdx.x / kWarp, 0);
    segment = segment_at(in, blockIdx.x);
    const unsigned block = blockIdx.y;
    const unsigned chunks = in.chunks + (block < in.blocks_with_more);
    const unsigned first_chunk = block * in.chunks + min(block, in.blocks_with_more);
    rounds = (chunks + kWarps - 1 - warp) / kWarps;
    address = row_at((first_chunk + warp) * kRowsOfChunk + lane / kLanesOfRow);
    // Rows that make no chunk go to the last warps of the last block, which have the fewest rows.
    const unsigned row_left = (kWarps - 1 - warp) * kRowsOfLoad + lane / kLanesOfRow;
    has_row_left = block + 1 == gridDim.y && row_left < in.rows % kRowsOfChunk;
    left = has_row_left ? row_at(in.rows - in.rows % kRowsOfChunk + row_left) : in.data;
  }

  __device__ __forceinline__ const uint8_t* row_at(unsigned row) const {
    // A lane beyond the last column reads that column again, and counts it where nobody reads.
    const int64_t column = min(
        first_column_of(in, segment) + lane % kLanesOfRow * kVec16Bytes, in.columns - kVec16Bytes);
    return in.data + segment.batch * in.batch[1].stride + column + row * in.row_stride;
  }
  /// Behind the last chunk, a warp loads the row that is left, or any bytes. With branches around
  /// the loads, the compiler would copy all registers. Workaround nvcc-13.0-no-branch: see
  /// docs/tuning.md.
  __device__ __forceinline__ void load(uint4 (&to)[kUnroll]) {
    const uint8_t* from = rounds > 0 ? address : left;
    const int64_t step = rounds > 0 ? in.load_step : 0;
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      to[i] = load_once(reinterpret_cast<const uint4*>(from + i * step));
    }
    address += in.round_step;
  }
};

/// Counts the chunk that is loaded while the next one is loaded, and then the row that is left.
template <unsigned kColumns>
__device__ __forceinline__ void count_chunks(
    ChunksOfWarp<kColumns>& chunks, uint4 (&vec16s)[kUnroll], const RowTable<kColumns>& table) {
  while (chunks.rounds > 0) {
    --chunks.rounds;
    uint4 next[kUnroll];
    __syncwarp(); // no instruction passes it, and it takes none itself
    chunks.load(next);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      table.add(vec16s[i]);
    }
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      vec16s[i] = next[i];
    }
  }
  if (chunks.has_row_left) {
    table.add(vec16s[0]);
  }
}

/// The warps take the block's chunks in turn.
template <unsigned kColumns>
__global__ __launch_bounds__(kColumnThreads) void count_rows_kernel(
    const __grid_constant__ WholeRows in,
    const ByteAxis axis,
    uint4* __restrict__ partials,
    unsigned long long* __restrict__ counts) {
  extern __shared__ __align__(1024) uint32_t shared[];
  ChunksOfWarp<kColumns> chunks(in);
  uint4 vec16s[kUnroll];
  wait_for_previous(); // it may write what is counted
  chunks.load(vec16s); // and the table is cleared meanwhile
  const RowTable<kColumns> table(in, axis, shared, static_cast<int>(chunks.lane));
  clear_byte_table<kColumnThreads, 256 * kColumns * 2>(shared);
  __syncthreads();
  count_chunks<kColumns>(chunks, vec16s, table);
  let_next_start(); // the reduction
  __syncthreads();
  if (gridDim.y == 1) {
    table.put_counts(chunks.segment, counts);
  } else {
    const unsigned table_vec16s = in.table_words() / 4;
    store_table(
        partials + size_t{blockIdx.x * gridDim.y + blockIdx.y} * table_vec16s, shared,
        table_vec16s);
  }
}

/// The words that a block of the reduction sums over all tables of a segment.
template <unsigned kColumns, unsigned kWords>
struct SummedRows {
  static constexpr unsigned kEntryWords = kColumns / 2;
  static constexpr unsigned kEntries = kWords / kEntryWords;
  static constexpr unsigned kVec16sOfEntry = kEntryWords / 4;
  static constexpr unsigned kVec16s = kWords / 4;
  static constexpr unsigned kSplits = kReduceThreads / kVec16s;
  // An entry has the lower halves of its words first, then the upper ones. The next entry begins
  // eight banks further on.
  static constexpr unsigned kEntrySums = kColumns + 8;
  using Sums = uint32_t[kSplits][kEntries * kEntrySums];

  const WholeRows& in;
  unsigned table_vec16s;
  unsigned tables;
  unsigned first_entry;
  const uint4* first; // of the first table

  __device__ __forceinline__ SummedRows(const WholeRows& whole_rows, const uint4* partials)
      : in(whole_rows) {
    table_vec16s = in.table_words() / 4;
    tables = in.blocks_of_part;
    first_entry = blockIdx.y * kEntries;
    first = partials + size_t{blockIdx.x} * tables * table_vec16s + first_entry * kVec16sOfEntry;
  }

  /// Sums a part of the tables in a part of the threads. A thread issues all of its loads at once.
  __device__ __forceinline__ void sum_tables(Sums& sums) const {
    constexpr unsigned kLoads = reduce_unroll(kWords);
    const unsigned vec16 = threadIdx.x % kVec16s;
    const unsigned split = threadIdx.x / kVec16s;
    const uint4* table = first + split * table_vec16s + vec16;
    const bool inside = first_entry + vec16 / kVec16sOfEntry < in.table_entries;
    uint32_t all[4] = {0, 0, 0, 0}, upper[4] = {0, 0, 0, 0};
    wait_for_previous();
#pragma unroll 1
    for (unsigned of = split; of < tables; of += kLoads * kSplits) {
      uint4 vec16s[kLoads];
#pragma unroll
      for (unsigned k = 0; k < kLoads; ++k) {
        vec16s[k] = inside && of + k * kSplits < tables ? __ldcg(table + k * kSplits * table_vec16s)
                                                        : make_uint4(0, 0, 0, 0);
      }
      table += kLoads * kSplits * table_vec16s;
#pragma unroll
      for (unsigned k = 0; k < kLoads; ++k) {
        const uint32_t words[4] = {vec16s[k].x, vec16s[k].y, vec16s[k].z, vec16s[k].w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          all[i] += words[i];
          upper[i] += words[i] >> 16;
        }
      }
    }
    // Sums are modulo 2^32. The sum of the lower halves is less.
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      all[i] -= upper[i] << 16;
    }
    uint32_t* sum = &sums[split][vec16 / kVec16sOfEntry * kEntrySums + vec16 % kVec16sOfEntry * 4];
    *reinterpret_cast<uint4*>(sum) = make_uint4(all[0], all[1], all[2], all[3]);
    *reinterpret_cast<uint4*>(sum + kEntryWords) =
        make_uint4(upper[0], upper[1], upper[2], upper[3]);
  }

  __device__ __forceinline__ static unsigned column_of_sum(unsigned index) {
    return kColumns == kHalfColumns
               ? HalfTable::column_of_word(index % kEntryWords, index / kEntryWords)
               : index % kWarp * 4 + index / kWarp;
  }
  /// Neighbours write neighbouring bins of a channel, four of them a whole sector.
  __device__ __forceinline__ void put_counts(
      const Sums& sums, unsigned long long* __restrict__ counts) const {
    constexpr unsigned kTogether = kEntries < 4 ? kEntries : 4;
    constexpr int kUnrolledSums =
        kWords == kManyReduceWords ? kEntries * kColumns / kReduceThreads : 1;
    const Segment segment = segment_at(in, blockIdx.x);
#pragma unroll kUnrolledSums
    for (unsigned i = threadIdx.x; i < kEntries * kColumns; i += kReduceThreads) {
      const unsigned entry = i / (kTogether * kColumns) * kTogether + i % kTogether;
      const unsigned index = i / kTogether % kColumns;
      uint32_t count = 0;
#pragma unroll
      for (unsigned s = 0; s < kSplits; ++s) {
        count += sums[s][entry * kEntrySums + index];
      }
      const int64_t column = first_column_of(in, segment) + column_of_sum(index);
      if (column < in.columns && first_entry + entry < in.table_entries) {
        counts[in.counter(segment.batch, column, first_entry + entry)] = count;
      }
    }
  }

  /// Nobody reads the tables again, so the cache need not write them to memory.
  __device__ __forceinline__ void discard_tables() const {
    constexpr unsigned kLines = kVec16s * kVec16Bytes / kLineBytes;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < tables * kLines; i += kReduceThreads) {
      const unsigned vec16s = i % kLines * (kLineBytes / kVec16Bytes);
      if (first_entry + vec16s / kVec16sOfEntry < in.table_entries) {
        discard_line(first + i / kLines * table_vec16s + vec16s);
      }
    }
  }
};

/// Sums kWords words of a segment's tables, and transposes [entry][column] into [channel][bin].
template <unsigned kColumns, unsigned kWords>
__global__ __launch_bounds__(kReduceThreads, 2) void reduce_rows_kernel(
    const __grid_constant__ WholeRows in,
    const uint4* __restrict__ partials,
    unsigned long long* __restrict__ counts) {
  using Summed = SummedRows<kColumns, kWords>;
  using Sums = typename Summed::Sums;
  __shared__ __align__(16) Sums sums;
  const Summed summed(in, partials);
  summed.sum_tables(sums);
  __syncthreads();
  summed.put_counts(sums, counts);
  summed.discard_tables();
}

} // namespace

void count_rows(
    const CountPlan& plan, const Problem& problem, const ByteAxis& axis, const Launch& launch) {
  const auto& in = std::get<WholeRows>(plan.layout);
  auto* counts = reinterpret_cast<unsigned long long*>(problem.counts);
  const Prepared prepared = prepare(plan, problem, launch);
  const auto run = [&](auto columns) {
    constexpr unsigned kColumns = decltype(columns)::value;
    start(
        launch, kColumns == kHalfColumns ? "count_half_rows" : "count_rows",
        count_rows_kernel<kColumns>,
        LaunchShape{
            dim3(in.segments(), in.blocks_of_part), kColumnThreads, plan.shared_bytes, 1,
            prepared.starts_early},
        in, axis, prepared.partials, counts);
    if (plan.reduce_blocks > 0) {
      with_reduce_words(plan.reduce_words, [&](auto words) {
        start(
            launch, "reduce_rows", reduce_rows_kernel<kColumns, words()>,
            reduce_shape(plan, in, launch), in, static_cast<const uint4*>(prepared.partials),
            counts);
      });
    }
  };
  switch (in.group_columns) {
    case kHalfColumns:
      return run(std::integral_constant<unsigned, kHalfColumns>{});
    case kByteColumns:
      return run(std::integral_constant<unsigned, kByteColumns>{});
    default:
      no_kernel("count_rows");
  }
}

} // namespace histo::cuda
