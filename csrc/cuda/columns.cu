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
#include "byte_table.cuh"
#include "clear.h"
#include "columns.h"
#include "fold.h"
#include "loads.cuh"
#include "overlap.cuh"
#include "wide_table.cuh"

namespace histo::cuda {
namespace {

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
        const uint32_t taken = std::is_base_of_v<BinPairs, Cells> ? words[k] : much;
        cells.table[4 * i + k] -= taken;
        put_word<true>(cells, unit, counts, static_cast<int>(4 * i + k), taken);
      }
    }
  }
}

template <class T, Access kAccess, Bins kBins>
using Table = std::conditional_t<sizeof(T) == 1, ByteTable, WideTable<T, kAccess, kBins>>;

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
template <class T, Access kAccess, Bins kBins, bool kFewChannels, bool kInRuns>
__global__ __launch_bounds__(kColumnThreads) void count_columns_kernel(
    const __grid_constant__ Interleaved in,
    const ByteAxis axis,
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
  using Cells = Table<T, kAccess, kBins>;
  constexpr bool kPaired = Cells::kHalves == 2;

  Cells cells(in, axis, table, threadIdx.x % kWarp);
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

} // namespace

void count_columns(
    const Plan& plan, const Problem& problem, const ByteAxis& axis, const Launch& launch) {
  const auto& in = std::get<Interleaved>(plan.layout);
  const Prepared prepared = prepare(plan, problem, launch);
  const auto count = [&](auto tag, auto access, auto bins, auto few_channels, auto in_runs) {
    start(
        launch, "count_columns",
        count_columns_kernel<
            typename decltype(tag)::type, access(), bins(), few_channels(), in_runs()>,
        Shape{grid_of(plan.blocks), kColumnThreads, plan.shared_bytes, 1, prepared.starts_early},
        in, axis, prepared.partials, reinterpret_cast<unsigned long long*>(problem.counts));
  };
  constexpr std::true_type kYes;
  constexpr std::false_type kNo;
  const auto with_bins = [&](auto tag, auto access, auto bins) {
    constexpr bool kWide = sizeof(typename decltype(tag)::type) > 1;
    if constexpr (kWide && (bins() == Bins::kDealt || access() == Access::kQuad)) {
      return count(tag, access, bins, kYes, kNo); // of one channel
    } else {
      if constexpr (kWide) {
        if (in.few_channels) {
          return count(tag, access, bins, kYes, kNo);
        }
      }
      in.in_runs ? count(tag, access, bins, kNo, kYes) : count(tag, access, bins, kNo, kNo);
    }
  };
  const auto with_access = [&](auto tag, auto access) {
    constexpr size_t kSize = sizeof(typename decltype(tag)::type);
    constexpr std::integral_constant<Bins, Bins::kPlain> kPlain;
    constexpr std::integral_constant<Bins, Bins::kMixed> kMixed;
    constexpr std::integral_constant<Bins, Bins::kDealt> kDealt;
    if constexpr (kSize == 1) {
      return with_bins(tag, access, kPlain);
    } else {
      if constexpr (kSize > 2) { // two bytes have one table
        if (in.channels == 1 && in.groups > 1) {
          return with_bins(tag, access, kDealt);
        }
      }
      in.log_row_words == kLogWarp ? with_bins(tag, access, kPlain)
                                   : with_bins(tag, access, kMixed);
    }
  };
  visit_unsigned_type(problem.type, [&](auto tag) {
    switch (in.access) {
      case Access::kQuad:
        return with_access(tag, std::integral_constant<Access, Access::kQuad>{});
      case Access::kWord:
        return with_access(tag, std::integral_constant<Access, Access::kWord>{});
      case Access::kLoose:
        if constexpr (sizeof(typename decltype(tag)::type) <= 2) {
          return with_access(tag, std::integral_constant<Access, Access::kLoose>{});
        }
    }
    no_kernel("count_columns");
  });
  if (plan.fold_blocks > 0) {
    fold_columns(plan, problem, axis, prepared.partials, launch);
  }
}

} // namespace histo::cuda
