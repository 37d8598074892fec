// Counts a few MiB of bytes that lie side by side, in one launch.
//
// The tables of interleaved.cu go through memory, to a second kernel. That takes longer than to
// count a few MiB in fewer blocks. The blocks of a cluster count the rows of the same columns. Then
// each sums some bins of all their tables, which it reads where they are, in shared memory.
//
// A table has half the columns of one of interleaved.cu. There is a cluster for each group of few
// channels, and few bytes to read from the other blocks.
#include "cuda/cluster.cuh"
#include "cuda/count/bytes.cuh"
#include "cuda/count/half_table.cuh"
#include "cuda/count/sweeps.h"
#include "cuda/pdl.cuh"
#include "cuda/storage/clear.h"
#include "cuda/storage/counts.cuh"
#include "cuda/storage/shared.cuh"
#include "cuda/walk/loads.cuh"

namespace histo::cuda {
namespace {

constexpr int kWarps = kClusteredThreads / kWarp;
constexpr int kLanesOfRow = kHalfColumns / 4; // of four bytes
constexpr int kEntryWords = HalfTable::kEntryWords;
static_assert(kWarp == 2 * kLanesOfRow);

/// Sums the block's part of the bins over the tables of the cluster, as many bins at a time as a
/// warp has lanes.
template <unsigned kCluster>
__device__ __forceinline__ void put_sums(
    const ColumnLayout& in,
    const ByteAxis& axis,
    int64_t first_column,
    const uint32_t* shared,
    uint32_t (&sums)[kHalfColumns][kWarp + 1],
    unsigned long long* counts) {
  const int lane = threadIdx.x % kWarp;
  const int warp = threadIdx.x / kWarp;
  const unsigned rank = blockIdx.x % kCluster;
  const unsigned entries = (in.table_entries + kCluster - 1) / kCluster;
  const unsigned end_entry = min((rank + 1) * entries, in.table_entries);
  const int columns = static_cast<int>(min(in.columns - first_column, kHalfColumns));
  // A block without an entry takes one turn too, because all threads must arrive.
#pragma unroll 1
  for (unsigned first_entry = rank * entries;; first_entry += kWarp) {
    // A warp sums one entry over all tables at once.
#pragma unroll
    for (unsigned own = 0; own < kWarp; own += kWarps) {
      const unsigned entry = min(first_entry + own + warp, end_entry - 1);
      uint32_t low = 0, high = 0;
#pragma unroll
      for (unsigned k = 0; k < kCluster; ++k) { // each block begins with its own
        const uint32_t word =
            load_from_rank(&shared[entry * kEntryWords + lane], (rank + k) % kCluster);
        low += word & 0xffff;
        high += word >> 16;
      }
      sums[2 * lane][own + warp] = low;
      sums[2 * lane + 1][own + warp] = high;
    }
    const bool last = first_entry + kWarp >= end_entry;
    if (last) {
      arrive_having_read();
    }
    __syncthreads();
    // Neighbouring lanes write neighbouring bins of one channel.
    const int64_t bin = first_entry + lane < end_entry
                            ? axis.bin_of(static_cast<uint8_t>(first_entry + lane))
                            : kNoBin;
    if (bin != kNoBin) {
      auto* counter = &counts[in.counter(blockIdx.z, first_column + warp, bin)];
      for (int i = warp; i < columns; i += kWarps) {
        put_or_add(counter, sums[i][lane], in.adds);
        counter += kWarps * in.num_bins;
      }
    }
    if (last) {
      break;
    }
    __syncthreads();
  }
}

/// The rows of a block. A warp reads neighbouring rows in a round.
template <bool kLoose>
struct RowsOfBlock {
  using Load = std::conditional_t<kLoose, LooseWord, uint32_t>;
  static constexpr int kUnroll = kLoose ? kLooseUnroll : kBytesInFlight / 4;
  static constexpr int kRowsOfLoad = kWarp / kLanesOfRow;
  static constexpr int kRound = kWarps * kRowsOfLoad * kUnroll;
  static constexpr int kEdge = kLoose ? 1 : 0; // a loose word may reach beyond the rows at the ends
  static_assert(kClusteredRows % kRound == 0);

  const Clustered& in;
  int lane;
  int warp;
  int64_t first_column;
  int64_t first_row;
  int rows;
  int64_t column; // a lane beyond the last one reads that again, and counts it where nobody reads
  int row_stride;
  const uint8_t* data;
  const uint8_t* address; // of this thread's next round

  __device__ __forceinline__ explicit RowsOfBlock(const Clustered& clustered) : in(clustered) {
    lane = threadIdx.x % kWarp;
    warp = threadIdx.x / kWarp;
    first_column = int64_t{blockIdx.y} * kHalfColumns;
    first_row = kEdge + int64_t{blockIdx.x} * in.share;
    rows = static_cast<int>(min(int64_t{in.share}, in.rows - kEdge - first_row));
    column = min(first_column + lane % kLanesOfRow * 4, (in.columns - 1) / 4 * 4);
    row_stride = static_cast<int>(in.row_stride);
    data = in.data + blockIdx.z * in.batch[1].stride + column;
    const int64_t own_row = first_row + warp * kRowsOfLoad * kUnroll + lane / kLanesOfRow;
    address = data + own_row * row_stride;
  }

  __device__ __forceinline__ Load load(const uint8_t* from) const {
    if constexpr (kLoose) {
      return load_inner_word(from);
    } else {
      return load_past_l1(reinterpret_cast<const uint32_t*>(from));
    }
  }
  __device__ __forceinline__ void load_round(Load (&words)[kUnroll]) const {
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      words[i] = load(address + int64_t{i * kRowsOfLoad} * row_stride);
    }
  }
};

__device__ __forceinline__ void clear_half_table(uint32_t* shared) {
#pragma unroll
  for (int i = 0; i < 256 * kEntryWords / 4 / kClusteredThreads; ++i) {
    reinterpret_cast<uint4*>(shared)[i * kClusteredThreads + threadIdx.x] = make_uint4(0, 0, 0, 0);
  }
}

/// Counts whole rounds. Loads are in flight while the table is cleared, and while words are counted.
template <bool kLoose>
__device__ __forceinline__ void count_rounds(
    RowsOfBlock<kLoose>& rows, int rounds, const HalfTable& table, uint32_t* shared) {
  constexpr int kUnroll = RowsOfBlock<kLoose>::kUnroll;
  typename RowsOfBlock<kLoose>::Load words[kUnroll];
  if (rounds > 0) {
    rows.load_round(words);
  }
  clear_half_table(shared);
  __syncthreads();
  for (int round = 1; round < rounds; ++round) {
    rows.address += int64_t{RowsOfBlock<kLoose>::kRound} * rows.row_stride;
    typename RowsOfBlock<kLoose>::Load next[kUnroll];
    rows.load_round(next);
    __syncwarp(); // which no instruction passes
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      table.add(words[i]);
      words[i] = next[i];
    }
  }
  if (rounds > 0) {
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      table.add(words[i]);
    }
  }
}

/// Counts rows that make no round. Only the last block that has rows has some left. With few rows
/// these are all.
template <bool kLoose>
__device__ __forceinline__ void count_rows_left(
    const RowsOfBlock<kLoose>& rows, int rounds, const HalfTable& table) {
  using OwnRows = RowsOfBlock<kLoose>;
  const int rows_of_step = kWarps * OwnRows::kRowsOfLoad;
  const int left = max(rounds, 0) * OwnRows::kRound + static_cast<int>(threadIdx.x) / kLanesOfRow;
#pragma unroll 4
  for (int row = left; row < rows.rows; row += rows_of_step) {
    table.add(rows.load(rows.data + (rows.first_row + row) * rows.row_stride));
  }
}

/// Counts the first and the last row, beyond which a loose word may reach.
__device__ __forceinline__ void count_rows_at_ends(
    const RowsOfBlock<true>& rows, const HalfTable& table) {
  const Clustered& in = rows.in;
  const int64_t edge = rows.lane < kLanesOfRow ? 0 : in.rows - 1;
  const int count = static_cast<int>(min(in.columns - rows.column, int64_t{4}));
  table.add(load_loose_word(rows.data + edge * rows.row_stride, count, {in.data, in.data_end}));
}

template <bool kLoose, unsigned kCluster>
__global__ __launch_bounds__(kClusteredThreads, 1) void count_clustered_kernel(
    const __grid_constant__ Clustered in,
    const ByteAxis axis,
    unsigned long long* __restrict__ counts) {
  extern __shared__ __align__(1024) uint32_t shared[];
  // As many entries as a warp has lanes, with a word between columns against bank conflicts.
  __shared__ uint32_t sums[kHalfColumns][kWarp + 1];
  RowsOfBlock<kLoose> rows(in);
  const HalfTable table(shared, rows.lane, 1);
  if (!in.cleared) {
    wait_for_previous(); // it may write what is counted
  }
  const int rounds = rows.rows / RowsOfBlock<kLoose>::kRound;
  count_rounds(rows, rounds, table, shared);
  count_rows_left(rows, rounds, table);
  if constexpr (kLoose) {
    if (blockIdx.x == 0 && rows.warp == 0) {
      count_rows_at_ends(rows, table);
    }
  }
  sync_cluster();
  wait_for_previous(); // it cleared the counts
  put_sums<kCluster>(in, axis, rows.first_column, shared, sums, counts);
  wait_for_readers();
}

} // namespace

void count_clustered(
    const CountPlan& plan, const Problem& problem, const ByteAxis& axis, const Launch& launch) {
  const auto& in = std::get<Clustered>(plan.layout);
  if (plan.clears) {
    clear(launch, problem, true);
  }
  const dim3 grid(static_cast<unsigned>(plan.blocks / in.segments()), in.groups, in.batches);
  const auto run = [&](auto loose, auto cluster) {
    start(
        launch, "count_clustered",
        count_clustered_kernel<decltype(loose)::value, decltype(cluster)::value>,
        LaunchShape{
            grid, dim3(static_cast<unsigned>(plan.threads)), plan.shared_bytes, plan.cluster, true},
        in, axis, reinterpret_cast<unsigned long long*>(problem.counts));
  };
  const auto with_access = [&](auto cluster) {
    switch (in.access) {
      case Access::kLoose:
        return run(std::true_type{}, cluster);
      case Access::kWord:
        return run(std::false_type{}, cluster);
      case Access::kVec16:
        break;
    }
    no_kernel("count_clustered");
  };
  static_assert(kMaxCluster == 8);
  switch (plan.cluster) {
    case 8:
      return with_access(std::integral_constant<unsigned, 8>{});
    case 4:
      return with_access(std::integral_constant<unsigned, 4>{});
    case 2:
      return with_access(std::integral_constant<unsigned, 2>{});
    default:
      no_kernel("count_clustered");
  }
}

} // namespace histo::cuda
