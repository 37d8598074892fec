// Counting elements that lie side by side.
//
// A table in shared memory has a row for every bin and a counter for every column. The
// lanes of a warp read neighbouring words of a row, so they add to different columns,
// and the columns are laid out so that these lie in different banks: no two lanes ever
// wait for each other, whatever the data look like.
//
// A column is a channel. Rows that follow each other without a gap may also be read as
// one stream and cut into longer rows, of a whole number of words that fills the
// tables: then several columns hold the same channel, and their sums are added. One
// channel is the extreme: all columns are copies of it (bytes of few channels: planes.cu).
//
// A block counts an equal share of all rows. What it has of a unit goes straight to the
// counts where it is all there is, and into its one table in the workspace otherwise;
// the fold sums those.
#include "clear.h"
#include "columns.h"
#include "loads.cuh"
#include "overlap.cuh"
#include "tables.cuh"

namespace histo::cuda {
namespace {

/// The counter of a column of the unit's table; kNoBin for none.
template <class Cells>
__device__ __forceinline__ int64_t
counter_of(const Cells& cells, const Unit& unit, int column_of_table, int64_t bin) {
  const int64_t column = first_column_of(cells.in, unit) + column_of_table;
  const int64_t channel = cells.channel_of_column(unit, column);
  return column < cells.in.columns && channel < cells.in.counted && bin != kNoBin
             ? cells.in.counter(unit.batch, channel, bin)
             : kNoBin;
}

/// Puts what a word counts; `word` is its place where rows lie in the order of their bins.
template <bool kAdd, class Cells>
__device__ __forceinline__ void put_word(
    const Cells& cells, const Unit& unit, Counts counts, int word, uint32_t value) {
#pragma unroll
  for (int half = 0; half < Cells::kHalves; ++half) {
    const int64_t counter = counter_of(
        cells, unit, cells.column_of_word(word, half),
        cells.bin_of_row(cells.row_of_word(word, half)));
    if (counter != kNoBin) {
      put<kAdd>(&counts[counter], Cells::count_of(value, half));
    }
  }
}

/// Of a pair of counters the upper bits, which are set where one holds much.
constexpr uint32_t kMuch = kRoomAfterSpill * 0x10001u;

/// Empties the pairs of counters that hold much into the counts, so that none overflows.
template <class Cells>
__device__ void spill(const Cells& cells, const Unit& unit, Counts counts) {
  for (unsigned i = threadIdx.x; i < cells.in.table_words() / 4; i += kColumnThreads) {
    const uint4 quad = reinterpret_cast<const uint4*>(cells.table)[i];
    const uint32_t words[4] = {quad.x, quad.y, quad.z, quad.w};
    if (((quad.x | quad.y | quad.z | quad.w) & kMuch) == 0) {
      continue;
    }
    for (int k = 0; k < 4; ++k) {
      const uint32_t much = words[k] & kMuch;
      if (much != 0) {
        const uint32_t taken = Cells::kPairsBins ? words[k] : much;
        cells.table[4 * i + k] -= taken;
        put_word<true>(cells, unit, counts, static_cast<int>(4 * i + k), taken);
      }
    }
  }
}

/// Where bins of wider types have their counters.
enum class Bins {
  kPlain, // rows as long as all banks
  kMixed, // several rows share the banks
  kDealt, // so they do, and a table is for some of the bins of one channel
};

/// Wider types: a row for every bin, with up to 32 words a bin. A word counts one column,
/// or, of channels of two bytes, the two that a lane reads at once.
///
/// Where a row has fewer, several rows share the 32 banks. Which of them starts where is
/// mixed from all digits of the bin, so that bins that differ in a few bits only do not
/// all meet in the same banks: of four bytes and more by multiplying the digits above
/// (Fibonacci hashing).
///
/// Of channels of two bytes a word then counts one channel, all of two neighbouring bins in
/// its lower half and those of the odd one in its upper half, and a row is for both bins. Of
/// the lanes that read the same columns half begin with the second one, so that half as many
/// meet in a channel's banks, whatever their bins are.
///
/// Of one channel with more bins than a table has rows, two tables have 32 of each 64 bins, and four
/// 32 of each 128: together a row of all tables, which begins anywhere in them, mixed from the digits
/// above. So all tables count as much, and no bank more than others, wherever the values lie. Of
/// three tables each has a range of the bins.
template <class T, Access kAccess, Bins kBins, class Binning>
struct WideTable {
  using Word = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  static constexpr int kElements = sizeof(Word) / sizeof(T); // of a word
  // A word is two counters, of two columns or of two bins.
  static constexpr bool kPaired = sizeof(T) == 2 && kAccess != Access::kQuad;
  static constexpr bool kPairsBins = kPaired && kBins == Bins::kMixed;
  static constexpr bool kDealt = kBins == Bins::kDealt;
  static constexpr int kHalves = kPaired ? 2 : 1;

  const Columns& in;
  const Binning& binning;
  uint32_t* table;
  uint32_t address;    // in row 0, of this lane's slot for the first element that it adds
  uint32_t second;     // and for the second of a word
  uint32_t row_bytes;  // of a bin, at most 128; where bins are dealt, of 32
  uint32_t no_rows;    // where what has no bin is counted, of both elements of a word
  uint32_t order;      // of the bytes of a word whose elements are added in turn
  uint32_t mixed_bits; // of a row, of both elements of a word
  uint32_t log_mixed;  // of four bytes and more, how many bits are mixed
  // Of dealt bins, 32 of which have words side by side:
  uint32_t first_bin = 0; // of those that the table has some of
  uint32_t log_bins = 0;  // that share a row of all tables
  uint32_t step = 0;      // from one of them to the next, where all are 2^32
  uint32_t most = 0;      // what the table has of the row ends here
  uint32_t turn = 0;      // and begins there
  uint32_t nowhere;       // the address of what has no bin, or is another table's

  __device__ WideTable(const Columns& columns, const Binning& bins, uint32_t* shared, int lane)
      : in(columns), binning(bins), table(shared) {
    const int slot = lane & ((1 << in.log_row_words) - 1);
    const int turned = kPairsBins ? lane >> in.log_row_words & 1 : 0;
    address = address_of(shared) + 4 * (kPairsBins ? 2 * slot + turned : slot);
    second = kPairsBins ? address ^ 4 : address;
    order = turned ? 0x1032 : 0x3210;
    row_bytes = (kDealt ? kLineBytes : 4u) << in.log_row_words;
    no_rows = min(in.table_rows, 0xffffu) * 0x10001; // all of 16 bits may have a bin
    nowhere = address_of(shared) + 4 * in.table_rows;
    log_mixed = kLogWarp - min(in.log_row_words, kLogWarp);
    mixed_bits = (kWarp >> min(in.log_row_words, kLogWarp)) - 1;
    mixed_bits |= mixed_bits << 16;
  }

  /// The row of a bin; of both bins of a word, where they are 16 bits wide.
  __device__ __forceinline__ uint32_t row_of(uint32_t bin) const {
    if (kBins == Bins::kPlain || kPairsBins) {
      return bin;
    }
    if constexpr (sizeof(T) > 2) {
      return bin ^ (bin >> log_mixed) * kGoldenRatio >> (kWarp - log_mixed);
    }
    uint32_t mix = bin ^ bin >> 4 ^ bin >> 8;
    mix ^= mix >> 2;
    return (bin & ~mixed_bits) | (mix & mixed_bits);
  }
  /// Words that lie side by side, for one bin or two.
  __device__ __forceinline__ int log_slots() const {
    return static_cast<int>(in.log_row_words) + kPairsBins;
  }
  __device__ __forceinline__ int64_t channel_of_column(const Unit& unit, int64_t column) const {
    return channel_of(in, unit, column);
  }
  /// Of a word that lies `word` behind the first of a row, what its half counts.
  __device__ __forceinline__ int column_of_word(int word, int half) const {
    const int slot = word & ((1 << log_slots()) - 1);
    return kPairsBins ? slot : slot * kElements + half;
  }
  __device__ __forceinline__ int row_of_word(int word, int half) const {
    const int row = word >> log_slots();
    return kPairsBins ? 2 * row + half : row;
  }
  static __device__ __forceinline__ uint32_t count_of(uint32_t word, int half) {
    return !kPaired     ? word
           : half == 1  ? word >> 16
           : kPairsBins ? (word & 0xffff) - (word >> 16)
                        : word & 0xffff;
  }
  __device__ int place_of_row(int bin) const {
    return static_cast<int>(row_of(bin));
  }
  __device__ int64_t bin_of_row(int bin) const {
    return bin < num_bins() ? bin : kNoBin;
  }
  /// Bins that have a row; the others stay as they were cleared.
  __device__ int num_bins() const {
    return static_cast<int>(min(in.num_bins - first_bin, int64_t{in.table_rows}));
  }
  __device__ void clear() const {
    clear_words(table, in.table_words());
  }
  __device__ __forceinline__ void begin_unit(const Unit& unit) {
    if constexpr (kDealt) {
      const bool shares = (in.groups & (in.groups - 1)) == 0;
      const int log_groups = shares ? __ffs(static_cast<int>(in.groups)) - 1 : 0;
      first_bin = shares ? 0 : unit.group * in.table_rows;
      log_bins = kLogWarp + log_groups;
      step = 1u << (kWarp - log_bins);
      most = 0xffffffff >> log_groups;
      turn = shares ? 0u - unit.group * (most + 1) : 0;
    } else if constexpr (sizeof(T) == 2) {
      // It is 0, which ptxas does not know: so it leaves the loops of two bytes as they were measured.
      // int16 [2^29] takes 236 us, and 240 without this.
      first_bin = in.channels == 1 ? unit.group * in.table_rows : 0;
    }
  }
  /// By products, since it is shifts and comparisons that other additions wait for.
  __device__ __forceinline__ uint32_t address_of_dealt(Word value) const {
    const uint32_t bin = static_cast<uint32_t>(value) - first_bin;
    const uint32_t row = bin >> log_bins;
    const uint32_t place = bin * step + turn + row * kGoldenRatio;
    bool here = place <= most && row < in.table_rows / kWarp;
    if constexpr (sizeof(T) == 8) {
      here = here && value >> 32 == 0;
    }
    const uint32_t word = place >> (kWarp - 2 - log_bins) & (kLineBytes - 4);
    return here ? (row * row_bytes + address_of(table)) | word : nowhere;
  }

  /// A value without a bin has a row that nobody reads, perhaps the one behind the last:
  /// branches around them would cost more than all the rest.
  __device__ __forceinline__ void add(Word word) const {
    if constexpr (kPairsBins) {
      const uint32_t bins = __byte_perm(__vminu2(word, no_rows), 0, order);
      const uint32_t rows = bins & 0xfffefffe;
      add_shared(__dp2a_lo(rows, row_bytes, address), (bins * 0x10000 & 0x10000) | 1);
      add_shared(__dp2a_lo(rows, row_bytes << 8, second), (bins & 0x10000) | 1);
    } else if constexpr (sizeof(T) == 2) {
      // Both at once, in five instructions, which is what types of two bytes wait for: in
      // nine int16 [2^29] takes 251.3 us and not 247.4.
      const uint32_t rows = __vminu2(row_of(word), no_rows);
      add_shared(__dp2a_lo(rows, row_bytes, address), 1);
      add_shared(__dp2a_lo(rows, row_bytes << 8, address), kPaired ? 0x10000 : 1);
    } else if constexpr (kDealt) {
      add_shared(address_of_dealt(word), 1);
    } else {
      uint32_t row = row_of(static_cast<uint32_t>(word));
      if constexpr (sizeof(T) == 8) {
        row = word >> 32 != 0 ? 0xffffffff : row;
      }
      add_shared(address + min(row, in.table_rows) * row_bytes, 1);
    }
  }

  __device__ __forceinline__ void add(const LooseWord& word) const {
    add(word.bytes());
  }
  __device__ __forceinline__ void add(const uint4& v) const {
    if constexpr (sizeof(T) == 8) {
      add(uint64_t{v.y} << 32 | v.x);
      add(uint64_t{v.w} << 32 | v.z);
    } else {
      add(v.x);
      add(v.y);
      add(v.z);
      add(v.w);
    }
  }

  __device__ void add_one(int column, T value) const {
    if constexpr (sizeof(T) == 2) {
      value -= first_bin;
    }
    if constexpr (kDealt) {
      add_shared(address_of_dealt(value), 1);
    } else if (value < in.table_rows) {
      const uint32_t row = row_of(static_cast<uint32_t>(value));
      const int slot = (kPairsBins ? column : column / kElements) & ((1 << log_slots()) - 1);
      const uint32_t upper = (kPairsBins ? row : column) % kHalves * 0x10000;
      atomicAdd(&begin_of_row(row)[slot], kPairsBins || upper == 0 ? upper | 1 : upper);
    }
  }
  __device__ uint32_t* begin_of_row(uint32_t row) const {
    return table + ((kPairsBins ? row & ~1u : row) << in.log_row_words);
  }

  /// Thread after thread takes word after word, in the order of the bins. Neighbours take
  /// neighbouring bins of a column, to fill the sectors of its counts.
  template <class Use>
  __device__ __forceinline__ void for_words(const Use& use) const {
    constexpr int kRows = 4;
    const int rows = (num_bins() + kPairsBins) >> kPairsBins;
    const int padded = (rows + kRows - 1) / kRows * kRows;
    for (int i = threadIdx.x; i < padded << log_slots(); i += kColumnThreads) {
      const int row = (i / kRows >> log_slots()) * kRows + i % kRows;
      const int slot = i / kRows & ((1 << log_slots()) - 1);
      if (row < rows) {
        use((row << log_slots()) + slot, begin_of_row(row_of(row << kPairsBins))[slot]);
      }
    }
  }
  __device__ void put_counts(const Unit& unit, Counts counts) const {
    for_words([&](int word, uint32_t value) {
      in.adds ? put_word<true>(*this, unit, counts, word, value)
              : put_word<false>(*this, unit, counts, word, value);
    });
  }

  __device__ void add_channels(const Unit& unit, Counts counts, bool more) const {
    if constexpr (kDealt) {
      add_dealt(unit, counts);
    } else if (!kPaired && in.channels == 1) {
      add_one_channel(unit, counts);
    } else {
      for_words(
          [&](int word, uint32_t value) { put_word<true>(*this, unit, counts, word, value); });
    }
    if (!more) {
      return;
    }
    __syncthreads();
    clear();
    __syncthreads();
  }
  __device__ void add_dealt(const Unit& unit, Counts counts) const {
    for (unsigned i = threadIdx.x; i < in.table_rows; i += kColumnThreads) {
      const uint32_t row = i / kWarp;
      const uint32_t begin = (turn + row * kGoldenRatio) >> (kWarp - log_bins);
      const uint32_t of_row = (i % kWarp - begin) & ((1u << log_bins) - 1);
      const int64_t bin = int64_t{first_bin} + (row << log_bins | of_row);
      if (bin < in.num_bins) {
        put<true>(&counts[in.counter(unit.batch, 0, bin)], table[i]);
      }
    }
  }
  /// Thread after thread takes bin after bin, starting in different slots.
  __device__ void add_one_channel(const Unit& unit, Counts counts) const {
    const int slots = 1 << in.log_row_words;
    for (int bin = threadIdx.x; bin < num_bins(); bin += kColumnThreads) {
      const uint32_t* row = begin_of_row(row_of(bin));
      uint32_t sum = 0;
#pragma unroll 8
      for (int i = 0; i < slots; ++i) {
        sum += row[(i + threadIdx.x) & (slots - 1)];
      }
      int64_t counted = bin;
      if constexpr (sizeof(T) == 2) {
        counted = first_bin + bin;
      }
      put<true>(&counts[in.counter(unit.batch, 0, counted)], sum);
    }
  }
};

template <class T, Access kAccess, Bins kBins, class Binning>
using Table =
    std::conditional_t<sizeof(T) == 1, ByteTable<Binning>, WideTable<T, kAccess, kBins, Binning>>;

/// What a lane loads at once.
template <class T, Access kAccess>
struct Loaded {
  using type = std::conditional_t<
      kAccess == Access::kQuad,
      uint4,
      std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>>;
};
template <class T>
struct Loaded<T, Access::kLoose> {
  using type = LooseWord;
};

/// Rows of one run that a block counts without a stop.
struct Piece {
  unsigned index; // of the unit
  Unit unit;
  unsigned outer; // of the unit's runs
  const uint8_t* run;
  unsigned first_row; // of the run
  unsigned rows;
  bool ends_unit;
};

/// kFewChannels: a block sums the columns of each channel; otherwise they go to the counts
/// one by one, or to the fold. kInRuns: as Interleaved::in_runs.
///
/// One block an SM is not asked for in __launch_bounds__, though there is one: asked for it the
/// compiler orders the loops anew, and int32 [2^28] in 65,536 bins takes 333 us and not 304.
template <class T, Access kAccess, Bins kBins, bool kFewChannels, bool kInRuns, class Binning>
__global__ __launch_bounds__(kColumnThreads) void count_columns_kernel(
    const __grid_constant__ Interleaved in,
    const Binning binning,
    uint4* __restrict__ partials,
    unsigned long long* __restrict__ counts) {
  extern __shared__ __align__(1024) uint32_t table[];
  constexpr int kLoadBytes = bytes_of_load(kAccess, sizeof(T));
  constexpr int kElements = kLoadBytes / int{sizeof(T)};
  constexpr int kUnroll =
      kAccess == Access::kLoose
          ? kLooseUnroll
          : bytes_in_flight(sizeof(T), kAccess, kBins != Bins::kPlain) / kLoadBytes;
  constexpr int kWarps = kColumnThreads / kWarp;
  using Load = typename Loaded<T, kAccess>::type;
  using Cells = Table<T, kAccess, kBins, Binning>;
  constexpr bool kPaired = Cells::kHalves == 2;

  Cells cells(in, binning, table, threadIdx.x % kWarp);
  const int lane_of_row = threadIdx.x & ((1 << in.log_lanes) - 1);
  const int rows_of_load = kWarp >> in.log_lanes;
  const int rows_of_step = kWarps * rows_of_load;
  const int rows_of_round = kUnroll * rows_of_step;
  const int own_row = static_cast<int>(threadIdx.x) >> in.log_lanes;
  // Few loads a round take their steps from the parameters; of many the compiler works them
  // out in instructions that do not wait for the additions'.
  constexpr bool kFewLoads = kAccess == Access::kQuad;
  const int64_t step = kFewLoads ? in.load_step : rows_of_step * in.row_stride;
  const int64_t round_step = kFewLoads ? in.round_step : rows_of_round * in.row_stride;
  const Bounds bounds{in.data, in.data_end};
  const unsigned part = blockIdx.x % in.parts;
  const unsigned begin = part * in.part_rows + blockIdx.x / in.parts * in.share;
  const unsigned end = min(begin + in.share, (part + 1) * in.part_rows);

  const auto cut = [&](Piece& piece, unsigned row) { // to what the run and the block have of it
    piece.rows = min(in.rows - piece.first_row, end - row);
    piece.ends_unit = piece.outer + 1 == in.outer.size && piece.first_row + piece.rows == in.rows;
    piece.unit.head = head_of(in, piece.run, kLoadBytes, sizeof(T));
  };
  const auto first_piece = [&] {
    Piece piece;
    piece.index = in.part_rows == in.unit_rows ? part : begin / in.unit_rows;
    piece.unit = unit_at(in, piece.index);
    const unsigned row_of_unit = begin - piece.index * in.unit_rows;
    piece.outer = in.outer.size == 1 ? 0 : row_of_unit / in.rows;
    piece.first_row = row_of_unit - piece.outer * in.rows;
    piece.run = batch_of(in, piece.unit.batch) + piece.outer * in.outer.stride;
    cut(piece, begin);
    return piece;
  };
  // The next run, without the time of a division: few loads are on their way meanwhile.
  const auto advance = [&](Piece& piece, unsigned row) {
    piece.first_row = 0;
    piece.run += in.outer.stride;
    if (++piece.outer == in.outer.size) {
      piece.outer = 0;
      ++piece.index;
      if (++piece.unit.batch == in.batches) {
        piece.unit = unit_at(in, piece.index);
      }
      piece.run = batch_of(in, piece.unit.batch);
    }
    cut(piece, row);
  };
  const auto rounds_of = [&](unsigned rows) { // by a constant, which takes no division
    return static_cast<int>(rows >> (kLogWarp - in.log_lanes)) / (kUnroll * kWarps);
  };
  // Of words put together the last round is none of them: only it and the first one may lie where a
  // load would reach beyond the tensor.
  const auto rounds_in = [&](const Piece& piece) {
    const auto rows = static_cast<int>(piece.rows) - (kAccess == Access::kLoose ? kRowsAtEnd : 0);
    return rounds_of(static_cast<unsigned>(max(rows, 0)));
  };
  // A lane beyond the last column counts that one once more, for a column that is not there.
  const int64_t last_column = (in.columns - 1) / kElements * kElements;
  const auto column_of = [&](const Piece& piece) {
    return min(first_column_of(in, piece.unit) + lane_of_row * kElements, last_column);
  };
  // Of rows in runs, how far behind the first one they lie. Those of a block are less than 2^32 bytes
  // apart, so that loops work it out in 32 bits: 511 channels in runs take 55 us, and 66 in 64 bits.
  const auto place_of_row = [&](auto row) {
    using Int = decltype(row);
    const unsigned run = in.by_rows_of_run.quotient(static_cast<unsigned>(row));
    const unsigned set = in.by_runs_of_set.quotient(run);
    return row * static_cast<Int>(in.row_stride) + Int{run} * in.run_jump + Int{set} * in.set_jump;
  };
  const auto address_in = [&](const Piece& piece) {
    if constexpr (kInRuns) { // of the block's first row, from the start of its word on
      const uint8_t* first = piece.run + place_of_row(uint64_t{piece.first_row});
      return first - reinterpret_cast<uintptr_t>(first) % 4;
    }
    return piece.run + (piece.unit.head + column_of(piece)) * int64_t{sizeof(T)} +
           (piece.first_row + own_row) * in.row_stride;
  };
  // What the thread adds there to the place of a row.
  const auto place_in = [&](const Piece& piece, const uint8_t* address) {
    const auto first = static_cast<uint32_t>(
        reinterpret_cast<uintptr_t>(piece.run) - reinterpret_cast<uintptr_t>(address));
    return first + static_cast<uint32_t>(column_of(piece)) * unsigned{sizeof(T)};
  };
  const auto load_within = [&](auto at) -> Load {
    if constexpr (kAccess == Access::kLoose) {
      return load_inner_word(at);
    } else {
      const auto* address = reinterpret_cast<const Load*>(static_cast<const uint8_t*>(at));
      if constexpr (kAccess == Access::kWord && sizeof(T) <= 2) {
        return load_of_shared_line(address);
      } else {
        return load_once(address);
      }
    }
  };
  const auto load = [&](const uint8_t* address, int count) -> Load {
    if constexpr (kAccess == Access::kLoose) {
      return load_loose_word(address, count, bounds);
    } else {
      return load_within(address);
    }
  };
  const auto loaded_bytes = [&](const Piece& piece) { // of a loose word
    return static_cast<int>(min(in.columns - column_of(piece), int64_t{kElements})) *
           static_cast<int>(sizeof(T));
  };

  unsigned row = begin;
  Piece piece = first_piece();
  int rounds = rounds_in(piece);
  const uint8_t* address = address_in(piece);
  uint32_t place = kInRuns ? place_in(piece, address) : 0;
  unsigned next_row = piece.first_row + own_row; // which rows in runs are found by
  int count = loaded_bytes(piece);
  Load words[kUnroll];
  const auto ith_address = [&](int i) {
    if constexpr (kInRuns) {
      return WordPlace{address, place + place_of_row(next_row + i * rows_of_step)};
    } else {
      return address + i * step;
    }
  };
  const auto go_on = [&](int rows, int64_t bytes) {
    kInRuns ? void(next_row += rows) : void(address += bytes);
  };
  const auto load_first_round = [&] {
    if (rounds > 0) {
#pragma unroll
      for (int i = 0; i < kUnroll; ++i) {
        words[i] = load(ith_address(i), count);
      }
      go_on(rows_of_round, round_step);
    }
  };
  const auto add_words = [&] {
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      cells.add(words[i]);
    }
  };
  if (!in.cleared) {
    wait_for_previous(); // it may write what is counted
  }
  // Loads are on their way while the table is cleared.
  load_first_round();
  cells.clear();
  __syncthreads();

  int room = kMaxPairCount; // what the counters of a pair still hold
  cells.begin_unit(piece.unit);
  bool first_of_unit = row == piece.index * in.unit_rows;
  while (true) {
    // The whole block comes here together.
    const auto empty_pairs = [&] {
      wait_for_previous(); // it cleared the counts
      __syncthreads();
      spill(cells, piece.unit, counts);
      room = kRoomAfterSpill;
      __syncthreads();
    };
    // As many rounds at a time as the counters have room for; not the last one.
    for (int coming = rounds - 1; coming > 0;) {
      int now = coming;
      if constexpr (kPaired) {
        // From the parameter, and not rows_of_round: int16 [2^23, 64] takes 300 us and not 308.
        const int added = (kUnroll * kWarps * kWarp) >> in.log_lanes;
        if (room < added) {
          empty_pairs();
        }
        now = min(coming, rounds_of(room));
        room -= now * added;
      }
      coming -= now;
      do {
        constexpr int kBefore = added_before_loads(sizeof(T), kAccess);
        Load next[kUnroll];
        if constexpr (kBefore >= 0) {
          // No instruction passes the barriers, which take none themselves.
#pragma unroll
          for (int i = 0; i < kBefore; ++i) {
            cells.add(words[i]);
          }
          __syncwarp();
#pragma unroll
          for (int i = 0; i < kUnroll; ++i) {
            next[i] = load_within(ith_address(i));
          }
          __syncwarp();
#pragma unroll
          for (int i = kBefore; i < kUnroll; ++i) {
            cells.add(words[i]);
          }
        } else {
#pragma unroll
          for (int i = 0; i < kUnroll; ++i) {
            next[i] = load_within(ith_address(i));
            cells.add(words[i]);
          }
        }
#pragma unroll
        for (int i = 0; i < kUnroll; ++i) {
          words[i] = next[i];
        }
        go_on(rows_of_round, round_step);
      } while (--now > 0);
    }
    // What is left for the last round is loaded before the round in hand is counted, and
    // the first round of the next piece before that.
    const int rest = static_cast<int>(piece.rows) - rounds * rows_of_round;
    if constexpr (kPaired) {
      const int rows = rounds > 0 ? rest + rows_of_round : rest;
      const int added = rows + (kInRuns ? kRowsApart : in.is_stream() ? kRaggedRows : 0);
      if (room < added) {
        empty_pairs();
      }
      room -= added;
    }
    constexpr int kLast = kAccess == Access::kLoose ? kUnroll + 1 : kUnroll;
    static_assert(kWarps >= kRowsAtEnd);
    Load last[kLast];
    const auto is_left = [&](int i) { return own_row + i * rows_of_step < rest; };
#pragma unroll
    for (int i = 0; i < kLast; ++i) {
      if (is_left(i)) {
        last[i] = load(ith_address(i), count);
      }
    }
    if (rounds > 0) {
      add_words();
    }
    const Piece done = piece;
    row += done.rows;
    const bool more = row < end;
    if (more) {
      advance(piece, row);
      rounds = rounds_in(piece);
      address = address_in(piece);
      place = kInRuns ? place_in(piece, address) : 0;
      next_row = piece.first_row + own_row;
      count = loaded_bytes(piece);
      load_first_round();
    }
#pragma unroll
    for (int i = 0; i < kLast; ++i) {
      if (is_left(i)) {
        cells.add(last[i]);
      }
    }
    // Of a row that is not counted whole, the elements from `first` on and before `end`.
    const auto count_apart = [&](const uint8_t* elements, int64_t first, int64_t end) {
      constexpr unsigned kPasses = (kElements * kWarp + kColumnThreads - 1) / kColumnThreads;
#pragma unroll
      for (unsigned pass = 0; pass < kPasses; ++pass) {
        const unsigned own = threadIdx.x + pass * kColumnThreads;
        const int64_t column = first_column_of(in, done.unit) + own;
        const int64_t element = first + column;
        if (own < kElements << in.log_lanes && column < in.columns && element >= 0 &&
            element < end) {
          cells.add_one(static_cast<int>(own), reinterpret_cast<const T*>(elements)[element]);
        }
      }
    };
    if constexpr (kInRuns) {
      const int64_t gap = in.channels - in.counted;
      if (gap > 0 && done.ends_unit) { // there may be nothing behind the last row
        count_apart(done.run + place_of_row(uint64_t{in.rows}), 0, in.columns - gap);
      }
    } else if (in.is_stream()) {
      // Rows that are not whole: before the first word, and after the last whole row.
      const auto count_ragged = [&](int64_t ragged_row) {
        count_apart(done.run, done.unit.head + ragged_row * in.columns, in.run);
      };
      if (done.first_row == 0 && done.unit.head != 0) {
        count_ragged(-1);
      }
      if (done.first_row + done.rows == in.rows) {
        count_ragged(in.rows);
        count_ragged(int64_t{in.rows} + 1);
      }
    }
    if (more && piece.index == done.index) {
      continue;
    }
    if (!kFewChannels && !more) {
      let_next_start(); // the fold
    }
    wait_for_previous(); // it cleared the counts
    __syncthreads();
    if constexpr (kFewChannels) {
      cells.add_channels(done.unit, counts, more);
    } else if (first_of_unit && (done.ends_unit || done.index * in.unit_rows > begin)) {
      // All of the unit; or its first part, to which the fold adds the others.
      cells.put_counts(done.unit, counts);
    } else {
      const int64_t block = part * in.blocks_of_part + blockIdx.x / in.parts;
      uint4* partial = partials + block * (in.table_words() / 4);
      store_table(partial, table, in.table_words() / 4);
    }
    if (!more) {
      return;
    }
    if constexpr (!kFewChannels) {
      __syncthreads();
      cells.clear();
      __syncthreads();
    }
    cells.begin_unit(piece.unit);
    room = kMaxPairCount;
    first_of_unit = true;
  }
}

/// Sums a unit's tables, kWords words a block, and transposes [row][column] into
/// [channel][bin]. The tables are dealt to several threads, so that many loads are on
/// their way at once.
///
/// It starts when all else has ended, so what it does one after the other is waited for: 64 MiB of
/// 512 channels take 22.9 us, and 23.7 with loads in turns and places worked out after them.
template <class T, Access kAccess, Bins kBins, int kWords, class Binning>
__global__ __launch_bounds__(kFoldThreads, 2) void fold_columns_kernel(
    const __grid_constant__ Interleaved in,
    const Binning binning,
    const uint4* __restrict__ partials,
    unsigned long long* __restrict__ counts) {
  using Cells = Table<T, kAccess, kBins, Binning>;
  constexpr int kHalves = Cells::kHalves;
  constexpr int kQuads = kWords / 4;
  constexpr int kSplits = kFoldThreads / kQuads;
  constexpr int kUnroll = fold_unroll(kWords);
  constexpr int kSums = kHalves * kWords;
  constexpr int kSumsOfThread = (kSums + kFoldThreads - 1) / kFoldThreads;
  __shared__ __align__(16) uint32_t parts[kSplits][kHalves][kWords];
  // Rows of columns in turn, an odd number of words apart.
  __shared__ uint32_t sums[kHalves * 2 * kWords];
  const Cells cells(in, binning, nullptr, 0);

  const unsigned table_words = in.table_words();
  const unsigned index = blockIdx.x;
  const unsigned first_word = blockIdx.y * kWords;
  unsigned part = index;
  unsigned first_block = 0;
  unsigned last_block = in.blocks_of_part - 1;
  bool started = false;
  if (in.part_rows != in.unit_rows) { // a division takes as long as some loads
    part = index * in.unit_rows / in.part_rows;
    const unsigned unit_begin = index * in.unit_rows - part * in.part_rows;
    const unsigned unit_end = unit_begin + in.unit_rows;
    first_block = (unit_begin + in.share - 1) / in.share;
    last_block = (unit_end - 1) / in.share;
    // A unit that starts within a share has its first part in the counts; one that ends
    // in the same share is all there.
    started = unit_begin != first_block * in.share;
    if (started ? last_block < first_block : unit_end <= unit_begin + in.share) {
      return;
    }
  }

  const int quad = threadIdx.x % kQuads;
  const unsigned split = threadIdx.x / kQuads;
  const bool inside = first_word + 4 * quad < table_words; // a slice may be cut short
  const int64_t table_quads = table_words / 4;
  const uint4* table = partials +
                       int64_t{part * in.blocks_of_part + first_block + split} * table_quads +
                       first_word / 4 + quad;
  uint4 quads[kUnroll];
  const auto load = [&](unsigned block) { // all are on their way at once
#pragma unroll
    for (int k = 0; k < kUnroll; ++k) {
      quads[k] = inside && block + split + k * kSplits <= last_block
                     ? __ldcg(table + k * kSplits * table_quads)
                     : make_uint4(0, 0, 0, 0);
    }
    table += kUnroll * kSplits * table_quads;
  };
  wait_for_previous();
  load(first_block);

  // Meanwhile: where the thread's sums go.
  Unit unit = unit_at(in, index);
  unit.head = // the same for all its runs
      head_of(in, batch_of(in, unit.batch), bytes_of_load(kAccess, sizeof(T)), sizeof(T));
  const bool add = in.adds || started;
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
    const int64_t bin = cells.bin_of_row(row);
    // A bin's row lies within a group of rows that a slice has all of.
    const int place = cells.place_of_row(row) - first_row;
    places[k] = column_of_table * (rows | 1) + place;
    const int64_t channel = channel_of(in, unit, column);
    counters[k] = i < kSums && column < channels && channel < in.counted && bin != kNoBin
                      ? &counts[in.counter(unit.batch, channel, bin)]
                      : nullptr;
  }

  uint32_t low[4] = {0, 0, 0, 0}, high[4] = {0, 0, 0, 0};
  for (unsigned block = first_block;;) {
    __syncwarp(); // no load passes it, and no addition
#pragma unroll
    for (int k = 0; k < kUnroll; ++k) {
      const uint32_t words[4] = {quads[k].x, quads[k].y, quads[k].z, quads[k].w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        low[i] += Cells::count_of(words[i], 0);
        high[i] += Cells::count_of(words[i], kHalves - 1);
      }
    }
    block += kUnroll * kSplits;
    if (block > last_block) {
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
      sums[cells.column_of_word(word, half) * (rows | 1) + cells.row_of_word(word, half)] = sum;
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
  for (unsigned i = threadIdx.x; i < (last_block + 1 - first_block) * kLines; i += kFoldThreads) {
    const unsigned of = first_block + i / kLines;
    const unsigned word = first_word + i % kLines * kLineWords;
    if (word < table_words) {
      discard_line(partials + (int64_t{part * in.blocks_of_part + of} * table_quads + word / 4));
    }
  }
}

} // namespace

template <class Binning>
void count_columns(
    const Plan& plan, const Problem& problem, const Binning& binning, const Launch& launch) {
  const auto& in = std::get<Interleaved>(plan.layout);
  auto* counts = reinterpret_cast<unsigned long long*>(problem.counts);
  const bool folds = plan.fold_blocks > 0;
  const Prepared prepared = prepare(plan, problem, launch);
  const auto run = [&](auto tag, auto access, auto bins) {
    using T = typename decltype(tag)::type;
    constexpr Access kAccess = decltype(access)::value;
    constexpr Bins kBins = decltype(bins)::value;
    const auto count = [&](auto few_channels, auto in_runs) {
      start(
          launch, "count_columns",
          count_columns_kernel<T, kAccess, kBins, few_channels(), in_runs(), Binning>,
          Shape{grid_of(plan.blocks), kColumnThreads, plan.shared_bytes, 1, prepared.starts_early},
          in, binning, prepared.partials, counts);
    };
    constexpr bool kWide = sizeof(T) > 1;
    if constexpr (kBins == Bins::kDealt || (kWide && kAccess == Access::kQuad)) {
      count(std::true_type{}, std::false_type{}); // of one channel, with no fold
    } else {
      if (kWide && in.few_channels) {
        count(std::bool_constant<kWide>{}, std::false_type{});
      } else if (in.in_runs) {
        count(std::false_type{}, std::true_type{});
      } else {
        count(std::false_type{}, std::false_type{});
      }
      if (folds) {
        // It starts after the count has ended: waiting on the SMs it takes longer.
        start(
            launch, "fold_columns",
            plan.fold_words == kFewFoldWords
                ? fold_columns_kernel<T, kAccess, kBins, kFewFoldWords, Binning>
            : plan.fold_words == kManyFoldWords
                ? fold_columns_kernel<T, kAccess, kBins, kManyFoldWords, Binning>
                : fold_columns_kernel<T, kAccess, kBins, kFoldWords, Binning>,
            Shape{
                dim3(in.units(), static_cast<unsigned>(plan.fold_blocks) / in.units()),
                kFoldThreads, 0, 1, launch.limits.has_clusters()},
            in, binning, static_cast<const uint4*>(prepared.partials), counts);
      }
    }
  };
  // Signed or not, true or 1: the tables tell apart, not the loops.
  const auto with_access = [&](auto tag, auto bins) {
    switch (in.access) {
      case Access::kQuad:
        return run(tag, std::integral_constant<Access, Access::kQuad>{}, bins);
      case Access::kWord:
        return run(tag, std::integral_constant<Access, Access::kWord>{}, bins);
      case Access::kLoose:
        if constexpr (sizeof(typename decltype(tag)::type) <= 2) {
          return run(tag, std::integral_constant<Access, Access::kLoose>{}, bins);
        }
        return;
    }
  };
  constexpr std::integral_constant<Bins, Bins::kPlain> plain;
  visit_element_type(problem.type, [&](auto tag) {
    constexpr size_t kSize = sizeof(typename decltype(tag)::type);
    if constexpr (kSize == 1) {
      with_access(TypeTag<uint8_t>{}, plain);
    } else if constexpr (std::is_same_v<Binning, ValueBinning>) {
      using T = std::conditional_t<
          kSize == 2, uint16_t, std::conditional_t<kSize == 4, uint32_t, uint64_t>>;
      constexpr Bins kDealt = kSize > 2 ? Bins::kDealt : Bins::kMixed; // two bytes have one table
      in.log_row_words == kLogWarp ? with_access(TypeTag<T>{}, plain)
      : in.channels == 1 && in.groups > 1
          ? with_access(TypeTag<T>{}, std::integral_constant<Bins, kDealt>{})
          : with_access(TypeTag<T>{}, std::integral_constant<Bins, Bins::kMixed>{});
    }
  });
}

template void count_columns(const Plan&, const Problem&, const ValueBinning&, const Launch&);
template void count_columns(const Plan&, const Problem&, const LetterBinning&, const Launch&);

} // namespace histo::cuda
