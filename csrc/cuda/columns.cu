// Counting bytes that lie side by side.
//
// A table is laid out [byte value][column]: 256 rows of 64 words, each word two
// 16-bit counters, so 128 columns in 64 KiB. Lane l of a warp reads one 32-bit word
// of a row (columns 4l to 4l + 3) and its four additions all go to bank l: no two
// lanes ever share a bank, whatever the data look like. A row of the table is 256
// bytes, so an address is one byte permutation: the value in byte 1, the column's
// word in byte 0.
//
// A column is a channel. Rows that follow each other without a gap may also be read
// as one stream and cut into longer rows, of a whole number of words that fills the
// tables: then several columns hold the same channel, and their sums are added.
#include <algorithm>
#include <numeric>

#include "bytes.cuh"
#include "columns.h"
#include "counts.cuh"
#include "tuning.h"

namespace histo::cuda {
namespace {

constexpr int kByteValues = 256;
constexpr int kTableRowWords = kColumnsPerTable / 2;
constexpr int kTableWords = kByteValues * kTableRowWords;
constexpr int kTableQuads = kTableWords / 4;
constexpr int64_t kTableBytes = kTableWords * int64_t{sizeof(uint32_t)};
constexpr int kWarp = 32;
constexpr int kRowsPerStep = kColumnThreads / kWarp; // a warp reads 128 bytes of a row

/// Where the bytes lie, and how they are cut into tables.
struct Columns {
  const uint8_t* data;
  Bounds bounds;
  Extent batch[2];    // independent sets of channels: outer, inner; strides in bytes
  int64_t row_stride; // bytes
  int64_t rows;
  int64_t columns; // bytes of a row; column c counts for channel c % channels
  int64_t tail;    // bytes of one more row that is not whole
  int64_t channels;
  int64_t rows_per_chunk;
  int64_t num_bins;
  // Tables are fewer than a grid's blocks, so 32 bits do, and divide sooner.
  unsigned groups;  // tables side by side
  unsigned chunks;  // tables one below the other
  unsigned batches; // and for each set of channels
  int values;       // bytes below this may have a bin; a multiple of kFewValues
  ElementType type;

  int64_t num_tables() const {
    return int64_t{batches} * groups * chunks;
  }
  HISTO_HOST_DEVICE bool is_stream() const {
    return columns != channels;
  }
  /// A stream's rows are short, so 32 bits do for its columns.
  HISTO_HOST_DEVICE int64_t channel_of(int64_t column) const {
    return is_stream() ? static_cast<int>(column) % static_cast<int>(channels) : column;
  }
  HISTO_HOST_DEVICE int64_t counter(int64_t of_batch, int64_t channel, int64_t bin) const {
    return (of_batch * channels + channel) * num_bins + bin;
  }
};

/// What a block does with its table.
enum class Finish {
  kAddChannels, // few channels: sum the columns of each, add to the counts
  kPutCounts,   // no other block counts the same channels: store them
  kAddCounts,   // add them to the counts
  kPutPartials, // leave them to the fold
};

/// The table a block works on: neighbouring blocks take neighbouring groups, so
/// that a row of memory is read by blocks that run together.
struct TableIndex {
  unsigned batch;
  unsigned chunk;
  unsigned group;
};

__device__ TableIndex table_index(const Columns& in, unsigned block) {
  const unsigned above = block / in.groups;
  return {above / in.chunks, above % in.chunks, block % in.groups};
}

__device__ __forceinline__ void add_shared(uint32_t address, uint32_t value) {
  asm volatile("red.shared.add.u32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

__device__ __forceinline__ uint32_t sum_of_warp(uint32_t value) {
#if __CUDA_ARCH__ >= 800
  return __reduce_add_sync(0xffffffff, value);
#else
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffff, value, distance);
  }
  return value;
#endif
}

/// Adds the bytes of one word, of which the first `count` are there.
struct WordAdder {
  uint32_t table; // address in shared memory
  uint32_t even;  // offset in a row of the table of word `lane`
  uint32_t odd;   // and of word `lane + 32`

  __device__ explicit WordAdder(const uint32_t* shared_table, int lane)
      : table(static_cast<uint32_t>(__cvta_generic_to_shared(shared_table))),
        even(4 * lane),
        odd(4 * (lane + kWarp)) {
  }

  __device__ __forceinline__ void operator()(uint32_t bytes) const {
    add_shared(table + __byte_perm(bytes, even, 0x5504), 1);
    add_shared(table + __byte_perm(bytes, odd, 0x5514), 1);
    add_shared(table + __byte_perm(bytes, even, 0x5524), 0x10000);
    add_shared(table + __byte_perm(bytes, odd, 0x5534), 0x10000);
  }

  __device__ __forceinline__ void operator()(uint32_t bytes, int count) const {
    for (int i = 0; i < count; ++i) {
      const uint32_t value = byte_of(bytes, i);
      add_shared(table + value * 256 + (i % 2 ? odd : even), i < 2 ? 1 : 0x10000);
    }
  }
};

/// Stores or adds the table of the only block that counts its channels.
///
/// Neighbouring lanes take neighbouring bins of one channel, so that a store fills
/// whole sectors, and few of them, so that a load meets few in its bank.
template <bool kAdd, class Binning>
__device__ void put_counts(
    const Columns& in,
    const TableIndex& index,
    const Binning& binning,
    const uint32_t* table,
    unsigned long long* counts) {
  constexpr int kValues = 4;
  constexpr int kStep = kColumnThreads / kTableRowWords; // a thread keeps to one word
  static_assert(kStep % kValues == 0);
  const int word = threadIdx.x / kValues % kTableRowWords;
  const int64_t low = int64_t{index.group} * kColumnsPerTable + word % kWarp * 4 + word / kWarp;
  const int64_t high = low + 2;
  unsigned long long* low_counts = &counts[in.counter(index.batch, in.channel_of(low), 0)];
  unsigned long long* high_counts = &counts[in.counter(index.batch, in.channel_of(high), 0)];
  const int first = threadIdx.x / (kValues * kTableRowWords) * kValues + threadIdx.x % kValues;
  for (int value = first; value < in.values; value += kStep) {
    const int64_t bin = bin_of_byte(in.type, binning, static_cast<uint8_t>(value));
    if (bin == kNoBin) {
      continue;
    }
    const uint32_t pair = table[value * kTableRowWords + word];
    if (low < in.columns) {
      put<kAdd>(low_counts + bin, pair & 0xffff);
    }
    if (high < in.columns) {
      put<kAdd>(high_counts + bin, pair >> 16);
    }
  }
}

/// A warp takes a byte value, all its columns at once.
template <class Binning>
__device__ void add_channels(
    const Columns& in,
    const TableIndex& index,
    const Binning& binning,
    const uint32_t* table,
    unsigned long long* counts) {
  const int lane = threadIdx.x % kWarp;
  int64_t channels[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    channels[i] = in.channel_of(int64_t{index.group} * kColumnsPerTable + 4 * lane + i);
  }
  for (int value = threadIdx.x / kWarp; value < in.values; value += kRowsPerStep) {
    const int64_t bin = bin_of_byte(in.type, binning, static_cast<uint8_t>(value));
    if (bin == kNoBin) {
      continue;
    }
    const uint32_t even = table[value * kTableRowWords + lane];
    const uint32_t odd = table[value * kTableRowWords + lane + kWarp];
    const uint32_t sums[4] = {even & 0xffff, odd & 0xffff, even >> 16, odd >> 16};
    for (int64_t channel = 0; channel < in.channels; ++channel) {
      uint32_t sum = 0;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        sum += channels[i] == channel ? sums[i] : 0;
      }
      sum = sum_of_warp(sum);
      if (lane == 0) {
        put<true>(&counts[in.counter(index.batch, channel, bin)], sum);
      }
    }
  }
}

/// kAligned: every word is whole, and aligned.
template <bool kAligned, class Binning>
__global__ __launch_bounds__(kColumnThreads) void count_columns_kernel(
    Columns in,
    Binning binning,
    Finish finish,
    uint4* __restrict__ partials,
    unsigned long long* __restrict__ counts) {
  extern __shared__ __align__(1024) uint32_t table[];
  constexpr int kUnroll = kAligned ? kColumnUnroll : kColumnUnroll / 2;
  const TableIndex index = table_index(in, blockIdx.x);
  const int lane = threadIdx.x % kWarp;
  const int warp = threadIdx.x / kWarp;

  const int64_t column = int64_t{index.group} * kColumnsPerTable + 4 * lane;
  const int count = static_cast<int>(max(min(in.columns - column, int64_t{4}), int64_t{0}));
  const int64_t first_row = index.chunk * in.rows_per_chunk;
  // At most kMaxRowsPerTable, so an int; none for a lane beyond the last column.
  const int rows = count == 0 ? 0 : static_cast<int>(min(in.rows_per_chunk, in.rows - first_row));
  const uint8_t* batch = in.data + index.batch / in.batch[1].size * in.batch[0].stride +
                         index.batch % in.batch[1].size * in.batch[1].stride;
  const uint8_t* address = batch + (first_row + warp) * in.row_stride + column;
  const int64_t step = kRowsPerStep * in.row_stride;

  const WordAdder add(table, lane);
  const auto load = [&](const uint8_t* word) {
    return kAligned ? load_aligned_word(word) : load_loose_word(word, count, in.bounds);
  };
  const auto add_word = [&](const LooseWord& word) {
    const uint32_t bytes = kAligned ? word.low : word.bytes();
    if (kAligned || count == 4) {
      add(bytes);
    } else {
      add(bytes, count);
    }
  };

  // The first loads are on their way while the table is cleared.
  int row = warp;
  LooseWord words[kUnroll];
  const bool any_full_round = row + (kUnroll - 1) * kRowsPerStep < rows;
  if (any_full_round) {
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      words[i] = load(address + i * step);
    }
    row += kUnroll * kRowsPerStep;
    address += kUnroll * step;
  }
  auto* quads = reinterpret_cast<uint4*>(table);
  for (int i = threadIdx.x; i < kTableQuads; i += kColumnThreads) {
    quads[i] = make_uint4(0, 0, 0, 0);
  }
  __syncthreads();

  if (any_full_round) {
    for (; row + (kUnroll - 1) * kRowsPerStep < rows; row += kUnroll * kRowsPerStep) {
#pragma unroll
      for (int i = 0; i < kUnroll; ++i) {
        const LooseWord next = load(address + i * step);
        add_word(words[i]);
        words[i] = next;
      }
      address += kUnroll * step;
    }
  }
  // What is left for the last round is loaded before the round in hand is counted.
  LooseWord last[kUnroll];
#pragma unroll
  for (int i = 0; i < kUnroll; ++i) {
    if (row + i * kRowsPerStep < rows) {
      last[i] = load(address + i * step);
    }
  }
  if (any_full_round) {
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      add_word(words[i]);
    }
  }
#pragma unroll
  for (int i = 0; i < kUnroll; ++i) {
    if (row + i * kRowsPerStep < rows) {
      add_word(last[i]);
    }
  }
  if (warp == 0 && index.chunk == in.chunks - 1 && column < in.tail) {
    const int rest = static_cast<int>(min(in.tail - column, int64_t{4}));
    add(load_single_bytes(batch + in.rows * in.row_stride + column, rest), rest);
  }
  __syncthreads();

  if (finish == Finish::kPutPartials) {
    uint4* partial = partials + blockIdx.x * int64_t{kTableQuads};
    for (int i = threadIdx.x; i < in.values * kTableRowWords / 4; i += kColumnThreads) {
      __stcg(partial + i, quads[i]);
    }
  } else if (finish == Finish::kAddChannels) {
    add_channels(in, index, binning, table, counts);
  } else if (finish == Finish::kPutCounts) {
    put_counts<false>(in, index, binning, table, counts);
  } else {
    put_counts<true>(in, index, binning, table, counts);
  }
}

// The fold sums the tables of a group over its chunks, kValues byte values a block,
// and transposes [value][column] into [channel][bin]. Chunks are dealt to several
// threads, so that many loads are on their way at once.
constexpr int kFoldThreads = 512;
constexpr int kManyValues = 8;
constexpr int kFewValues = 2;

/// kAdd: other blocks add to the same counters.
template <int kValues, bool kAdd, class Binning>
__global__ __launch_bounds__(kFoldThreads) void fold_columns_kernel(
    Columns in,
    Binning binning,
    const uint4* __restrict__ partials,
    unsigned long long* __restrict__ counts) {
  constexpr int kWords = kValues * kTableRowWords;
  constexpr int kQuads = kWords / 4; // one a thread
  constexpr int kSplits = kFoldThreads / kQuads;
  __shared__ uint32_t sums[kSplits][2][kWords]; // the halves of a pair apart
  const unsigned units = (in.values + kValues - 1) / kValues;
  const unsigned unit = blockIdx.x % units;
  const unsigned group = blockIdx.x / units % in.groups;
  const unsigned batch = blockIdx.x / units / in.groups;
  const int quad = threadIdx.x % kQuads;
  const int split = threadIdx.x / kQuads;

  uint32_t low[4] = {0, 0, 0, 0}, high[4] = {0, 0, 0, 0};
  const uint4* partial = partials + (int64_t{batch} * in.chunks * in.groups + group) * kTableQuads +
                         unit * kQuads + quad;
  const int64_t between_chunks = int64_t{in.groups} * kTableQuads;
#pragma unroll 4
  for (unsigned chunk = split; chunk < in.chunks; chunk += kSplits) {
    const uint4 pairs = __ldcg(partial + chunk * between_chunks);
    const uint32_t words[4] = {pairs.x, pairs.y, pairs.z, pairs.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      low[i] += words[i] & 0xffff;
      high[i] += words[i] >> 16;
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    sums[split][0][quad * 4 + i] = low[i];
    sums[split][1][quad * 4 + i] = high[i];
  }
  __syncthreads();

  for (int i = threadIdx.x; i < kValues * kColumnsPerTable; i += kFoldThreads) {
    // Neighbouring threads write neighbouring bins of one channel.
    const int value = i % kValues;
    const int column_of_table = i / kValues;
    const int half = column_of_table / 2 % 2;
    const int word = column_of_table / 4 + column_of_table % 2 * kWarp;
    const int64_t column = int64_t{group} * kColumnsPerTable + column_of_table;
    const int64_t bin = bin_of_byte(in.type, binning, static_cast<uint8_t>(unit * kValues + value));
    if (column >= in.columns || bin == kNoBin) {
      continue;
    }
    uint32_t sum = 0;
#pragma unroll
    for (int s = 0; s < kSplits; ++s) {
      sum += sums[s][half][value * kTableRowWords + word];
    }
    put<kAdd>(&counts[in.counter(batch, in.channel_of(column), bin)], sum);
  }
}

/// How many bytes of a stream make a row: a multiple of the channels, and of whole
/// words, so that every row is aligned; one that leaves not too many columns of its
/// tables idle, and needs few tables.
int64_t stream_width(int64_t channels) {
  const int64_t unit = std::lcm(channels, int64_t{4});
  const double enough = channels <= kMaxChannelsAddedByBlock ? 1 : kEnoughFill;
  int64_t best = unit;
  double best_score = -1;
  for (int64_t width = unit;; width += unit) {
    const int64_t groups = ceil_div(width, kColumnsPerTable);
    if (width > unit && groups > kMaxStreamGroups) {
      return best;
    }
    const double fill = static_cast<double>(width) / static_cast<double>(groups * kColumnsPerTable);
    const double score = std::min(fill, enough) - kGroupCost * static_cast<double>(groups);
    if (score > best_score) {
      best = width;
      best_score = score;
    }
  }
}

/// Fills `in` but for the cut into tables; false where the bytes lie otherwise.
bool find_columns(const Problem& problem, Columns& in) {
  const auto& [outer, inner] = problem.channels;
  const Extent& rows = problem.rows[1];
  // Sums of a column are 32 bits wide; strides of 0 make more rows than memory.
  if (!is_one_byte(problem.type) || problem.rows[0].size != 1 || rows.size >= int64_t{1} << 31) {
    return false;
  }
  in.data = static_cast<const uint8_t*>(problem.data);
  in.type = problem.type;
  in.num_bins = problem.num_bins;
  int64_t last = 0; // the highest offset
  for (const Extent& loop : {outer, inner, rows}) {
    last += (loop.size - 1) * loop.stride;
  }
  in.bounds = {in.data, in.data + last + 1};

  if (rows.stride == 1) { // one channel after another
    in.channels = 1;
    in.batch[0] = outer;
    in.batch[1] = inner;
  } else if (inner.stride == 1) { // side by side
    in.channels = inner.size;
    in.batch[0] = {1, 0};
    in.batch[1] = outer;
  } else {
    return false;
  }
  in.row_stride = rows.stride;
  in.rows = rows.size;
  in.columns = in.channels;
  in.tail = 0;
  const bool narrow = in.channels < kColumnsPerTable / 2;
  if (rows.stride == in.channels && in.channels % kColumnsPerTable != 0) {
    const int64_t bytes = rows.size * in.channels;
    const int64_t width = stream_width(in.channels);
    const int64_t least = narrow ? kMinBytesPerTable : kMinStreamBytesPerTable;
    if (bytes >= ceil_div(width, kColumnsPerTable) * least) {
      in.row_stride = width;
      in.columns = width;
      in.rows = bytes / width;
      in.tail = bytes % width;
    }
  }
  return in.is_stream() || !narrow; // narrow rows leave most of a warp idle
}

/// False where the tables are too small to pay, or too many for a grid.
bool cut_into_tables(const Launch& launch, Columns& in) {
  const int64_t groups = ceil_div(in.columns, kColumnsPerTable);
  const int64_t batches = in.batch[0].size * in.batch[1].size;
  const int64_t per_table = in.rows * std::min<int64_t>(in.columns, kColumnsPerTable);
  const int64_t least =
      in.channels <= kMaxChannelsAddedByBlock ? kMinBytesForFewChannels : kMinBytesForColumns;
  if (per_table < kMinBytesPerTable || per_table * groups * batches < least) {
    return false;
  }
  // As many chunks as fill the GPU with one block an SM, in whole waves, but of
  // enough rows each; and a single one, without a fold, where that is soon counted.
  const int64_t a_wave = std::max<int64_t>(launch.sm_count / (batches * groups), 1);
  const int64_t waves = ceil_div(ceil_div(in.rows, kMaxRowsPerTable), a_wave);
  const bool single = in.rows <= kRowsOfOneChunkPerTable * batches * groups;
  const int64_t chunks =
      single ? 1 : std::clamp<int64_t>(in.rows / kMinRowsPerChunk, 1, waves * a_wave);
  in.rows_per_chunk = ceil_div(in.rows, chunks);
  if (batches * groups * ceil_div(in.rows, in.rows_per_chunk) * kByteValues > kMaxBlocks) {
    return false;
  }
  in.groups = static_cast<unsigned>(groups);
  in.batches = static_cast<unsigned>(batches);
  in.chunks = static_cast<unsigned>(ceil_div(in.rows, in.rows_per_chunk));
  return true;
}

/// Bytes from here on have no bin.
template <class Binning>
int end_of_values(const Problem& problem, const Binning& binning) {
  int end = kByteValues;
  while (end > 0 && bin_of_byte(problem.type, binning, static_cast<uint8_t>(end - 1)) == kNoBin) {
    --end;
  }
  return static_cast<int>(ceil_div(end, kFewValues) * kFewValues);
}

template <bool kAdd, class Binning>
void fold(
    const Columns& in,
    const Binning& binning,
    const Launch& launch,
    const uint4* partials,
    unsigned long long* counts) {
  // Few tables side by side: fewer values a block, so that enough blocks read.
  const int64_t tables = int64_t{in.batches} * in.groups;
  const bool many = tables * ceil_div(in.values, kManyValues) >= launch.sm_count / 2;
  start(
      launch, "fold_columns",
      many ? fold_columns_kernel<kManyValues, kAdd, Binning>
           : fold_columns_kernel<kFewValues, kAdd, Binning>,
      grid_of(tables * ceil_div(in.values, many ? kManyValues : kFewValues)), kFoldThreads, 0, in,
      binning, partials, counts);
}

} // namespace

template <class Binning>
bool count_columns(const Problem& problem, const Binning& binning, const Launch& launch) {
  Columns in{};
  if (!find_columns(problem, in) || !cut_into_tables(launch, in)) {
    return false;
  }
  in.values = end_of_values(problem, binning);
  auto* counts = reinterpret_cast<unsigned long long*>(problem.counts);

  // A counter has one writer where columns are channels and bins byte values.
  const bool one_writer = !in.is_stream() && std::is_same_v<Binning, ValueBinning> &&
                          problem.type != ElementType::kBool;
  const Finish finish = in.channels <= kMaxChannelsAddedByBlock ? Finish::kAddChannels
                        : in.chunks > 1                         ? Finish::kPutPartials
                        : one_writer                            ? Finish::kPutCounts
                                                                : Finish::kAddCounts;
  if (finish == Finish::kAddChannels || !one_writer || problem.num_bins > in.values) {
    clear_counts(launch, problem);
  }
  const bool aligned = reinterpret_cast<uintptr_t>(in.data) % 4 == 0 && in.columns % 4 == 0 &&
                       in.row_stride % 4 == 0 && in.batch[0].stride % 4 == 0 &&
                       in.batch[1].stride % 4 == 0;
  uint4* partials = finish == Finish::kPutPartials
                        ? static_cast<uint4*>(launch.allocate(in.num_tables() * kTableBytes))
                        : nullptr;
  start(
      launch, "count_columns",
      aligned ? count_columns_kernel<true, Binning> : count_columns_kernel<false, Binning>,
      grid_of(in.num_tables()), kColumnThreads, kTableBytes, in, binning, finish, partials, counts);
  if (finish == Finish::kPutPartials) {
    one_writer ? fold<false>(in, binning, launch, partials, counts)
               : fold<true>(in, binning, launch, partials, counts);
  }
  return true;
}

template bool count_columns(const Problem&, const ValueBinning&, const Launch&);
template bool count_columns(const Problem&, const LetterBinning&, const Launch&);

} // namespace histo::cuda
