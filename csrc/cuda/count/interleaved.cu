// Counts elements that lie side by side.
//
// A table in shared memory has a counter for every column and every bin. The lanes of a warp read
// neighbouring words of a row, so they add to different columns. These lie in different banks, so
// there are no bank conflicts, whatever the data look like.
//
// A column is a channel. Rows that follow each other without a gap may also be read as one stream
// and cut into longer rows, of a whole number of words that fills the tables. Then several columns
// belong to the same channel, and their sums are added. With one channel, all columns belong to it.
// Bytes of few channels are counted by planar.cu.
//
// A block counts an equal share of all rows. If it has all of a segment, its sums go straight to
// the counts. Otherwise its table goes to the workspace, and the reduction sums all tables.
#include "cuda/count/byte_table.cuh"
#include "cuda/count/reduce.h"
#include "cuda/count/row_reader.cuh"
#include "cuda/count/sweeps.h"
#include "cuda/count/wide_table.cuh"
#include "cuda/pdl.cuh"
#include "cuda/storage/clear.h"

namespace histo::cuda {
namespace {

/// The upper bits of both counters of a word. One of them is set if a counter is nearly full.
constexpr uint32_t kMuch = kRoomAfterSpill * 0x10001u;

/// Empties counters that are nearly full into the counts, so that none overflows.
template <class AnyTable>
__device__ void spill(const AnyTable& table, const Segment& segment, Counts counts) {
  for (unsigned i = threadIdx.x; i < table.in.table_words() / 4; i += kColumnThreads) {
    const uint4 vec16 = reinterpret_cast<const uint4*>(table.memory)[i];
    const uint32_t words[4] = {vec16.x, vec16.y, vec16.z, vec16.w};
    if (((vec16.x | vec16.y | vec16.z | vec16.w) & kMuch) == 0) {
      continue;
    }
    for (int k = 0; k < 4; ++k) {
      const uint32_t much = words[k] & kMuch;
      if (much != 0) {
        const uint32_t taken = AnyTable::kPacksBins ? words[k] : much;
        table.memory[4 * i + k] -= taken;
        put_word<true>(table, segment, counts, static_cast<int>(4 * i + k), taken);
      }
    }
  }
}

template <class T, Access kAccess, Bins kBins>
using Table = std::conditional_t<sizeof(T) == 1, ByteTable, WideTable<T, kAccess, kBins>>;

template <class T, Access kAccess, Bins kBins>
constexpr int kUnrollOf =
    kAccess == Access::kLoose ? kLooseUnroll
                              : bytes_in_flight(sizeof(T), kAccess, kBins != Bins::kPlain) /
                                    bytes_of_load(kAccess, sizeof(T));

/// The steps of a block, which all its threads take together.
///
/// kInRuns: as Interleaved::in_runs.
template <class T, Access kAccess, Bins kBins, bool kInRuns>
struct InterleavedBlock {
  static constexpr int kUnroll = kUnrollOf<T, kAccess, kBins>;
  using Reader = RowReader<T, kAccess, kUnroll, kInRuns>;
  using Load = typename Reader::Load;
  using TheTable = Table<T, kAccess, kBins>;
  static constexpr bool kPacked16 = TheTable::kHalves == 2;
  // Wider types are read in vec16s only if there is one channel. Then the block sums its columns.
  // Other sums go to the counts one by one, or to the reduction.
  static constexpr bool kOneChannel = sizeof(T) > 1 && kAccess == Access::kVec16;
  static constexpr int kElements = Reader::kElements;

  const Interleaved& in;
  uint4* partials;
  Counts counts;
  TheTable table;
  Reader reader;
  Share<Reader::kLoadBytes, sizeof(T)> share;
  Load words[kUnroll];   // of the round in hand
  int room;              // what packed16 counters still hold
  bool first_of_segment; // the block has the segment's first row

  __device__ __forceinline__ InterleavedBlock(
      const Interleaved& columns,
      const ByteAxis& axis,
      uint32_t* shared,
      uint4* tables,
      unsigned long long* result)
      : in(columns),
        partials(tables),
        counts(result),
        table(in, axis, shared, threadIdx.x % kWarp),
        reader(in),
        share(in) {
    reader.begin(share.piece);
  }

  __device__ __forceinline__ void begin_segment() {
    room = kMaxPacked16;
    table.begin_segment(share.piece.segment);
  }

  /// Counts all rounds of the piece but the last one, which is loaded then.
  __device__ __forceinline__ void count_rounds() {
    for (int coming = reader.rounds - 1; coming > 0;) {
      int now = coming; // at most as many as the counters have room for
      if constexpr (kPacked16) {
        // The parameter is read, not reader.rows_of_round. Workaround nvcc-13.0-read-parameter: see
        // docs/tuning.md.
        make_room((kUnroll * Reader::kWarps * kWarp) >> in.log_lanes);
        now = min(coming, reader.rounds_of(room));
        room -= now * ((kUnroll * Reader::kWarps * kWarp) >> in.log_lanes);
      }
      coming -= now;
      do {
        count_round();
      } while (--now > 0);
    }
  }
  /// Counts the round that is loaded, and the rest of the piece. The rest is loaded before that
  /// round is counted, and the first round of the next piece before the rest is counted. Returns
  /// whether there is a next piece.
  __device__ __forceinline__ bool count_rest() {
    constexpr int kLast = kAccess == Access::kLoose ? kUnroll + 1 : kUnroll;
    static_assert(Reader::kWarps >= kRowsAtEnd);
    const int rest = static_cast<int>(share.piece.rows) - reader.rounds * reader.rows_of_round;
    if constexpr (kPacked16) {
      const int rows = reader.rounds > 0 ? rest + reader.rows_of_round : rest;
      const int added = rows + (kInRuns ? kRowsApart : in.is_stream() ? kRaggedRows : 0);
      make_room(added);
      room -= added;
    }
    Load last[kLast];
    const auto is_left = [&](int i) { return reader.own_row + i * reader.rows_of_step < rest; };
#pragma unroll
    for (int i = 0; i < kLast; ++i) {
      if (is_left(i)) {
        last[i] = reader.load(i);
      }
    }
    if (reader.rounds > 0) {
#pragma unroll
      for (int i = 0; i < kUnroll; ++i) {
        table.add(words[i]);
      }
    }
    const bool more = share.advance();
    if (more) {
      reader.begin(share.piece);
      reader.load_first_round(words);
    }
#pragma unroll
    for (int i = 0; i < kLast; ++i) {
      if (is_left(i)) {
        table.add(last[i]);
      }
    }
    return more;
  }
  /// Counts the elements of a piece that make no whole row.
  __device__ __forceinline__ void count_ragged_rows(const Piece& done) {
    if constexpr (kInRuns) {
      const int64_t gap = in.channels - in.counted;
      if (gap > 0 && done.ends_segment) { // there may be nothing behind the last row
        const uint8_t* row = done.run + reader.distance_of_row(uint64_t{in.rows});
        count_elements(done.segment, row, 0, in.columns - gap);
      }
    } else if (in.is_stream()) {
      const auto count_row = [&](int64_t row) {
        count_elements(done.segment, done.run, done.segment.head + row * in.columns, in.run);
      };
      if (done.first_row == 0 && done.segment.head != 0) {
        count_row(-1);
      }
      if (done.first_row + done.rows == in.rows) {
        count_row(in.rows);
        count_row(int64_t{in.rows} + 1);
      }
    }
  }
  /// Writes the sums of a segment to the counts, or leaves the table to the reduction.
  __device__ __forceinline__ void end_segment(const Piece& done, bool more) {
    if (!kOneChannel && !more) {
      let_next_start(); // the reduction
    }
    wait_for_previous(); // it cleared the counts
    __syncthreads();
    if constexpr (kOneChannel) {
      table.add_channels(done.segment, counts, more);
    } else {
      if (first_of_segment && (done.ends_segment || share.has_begin_of(done))) {
        // The table has all of the segment, or its first part. The reduction adds the other parts.
        table.put_counts(done.segment, counts);
      } else {
        const unsigned vec16s = in.table_words() / 4;
        store_table(partials + share.index_of_table() * vec16s, table.memory, vec16s);
      }
      if (more) {
        __syncthreads();
        table.clear();
        __syncthreads();
      }
    }
  }

 private:
  /// Counts the round that is loaded, and loads the next one.
  __device__ __forceinline__ void count_round() {
    Load next[kUnroll];
    if constexpr (loads_apart(sizeof(T), kAccess)) {
      // The compiler moves no instruction across these barriers. They take no instruction
      // themselves. Workaround nvcc-13.0-loads-apart: see docs/tuning.md.
      __syncwarp();
#pragma unroll
      for (int i = 0; i < kUnroll; ++i) {
        next[i] = reader.load_within(i);
      }
      __syncwarp();
#pragma unroll
      for (int i = 0; i < kUnroll; ++i) {
        table.add(words[i]);
      }
    } else {
#pragma unroll
      for (int i = 0; i < kUnroll; ++i) {
        next[i] = reader.load_within(i);
        table.add(words[i]);
      }
    }
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      words[i] = next[i];
    }
    reader.next_round();
  }
  /// Empties nearly full counters, if the table has no room for this number of rows.
  __device__ __forceinline__ void make_room(int rows) {
    if (room < rows) {
      wait_for_previous(); // it cleared the counts
      __syncthreads();
      spill(table, share.piece.segment, counts);
      room = kRoomAfterSpill;
      __syncthreads();
    }
  }
  /// Counts the elements of a ragged row, from `first` on and before `end`.
  __device__ __forceinline__ void count_elements(
      const Segment& segment, const uint8_t* elements, int64_t first, int64_t end) {
    constexpr unsigned kPasses = (kElements * kWarp + kColumnThreads - 1) / kColumnThreads;
#pragma unroll
    for (unsigned pass = 0; pass < kPasses; ++pass) {
      const unsigned own = threadIdx.x + pass * kColumnThreads;
      const int64_t column = first_column_of(in, segment) + own;
      const int64_t element = first + column;
      if (own < kElements << in.log_lanes && column < in.columns && element >= 0 && element < end) {
        table.add_one(static_cast<int>(own), reinterpret_cast<const T*>(elements)[element]);
      }
    }
  }
};

/// __launch_bounds__ does not say that an SM has one block. Workaround nvcc-13.0-launch-bounds: see
/// docs/tuning.md.
template <class T, Access kAccess, Bins kBins, bool kInRuns>
__global__ __launch_bounds__(kColumnThreads) void count_interleaved_kernel(
    const __grid_constant__ Interleaved in,
    const ByteAxis axis,
    uint4* __restrict__ partials,
    unsigned long long* __restrict__ counts) {
  extern __shared__ __align__(1024) uint32_t shared[];
  InterleavedBlock<T, kAccess, kBins, kInRuns> block(in, axis, shared, partials, counts);
  if (!in.cleared) {
    wait_for_previous(); // it may write what is counted
  }
  // Loads are on their way while the table is cleared.
  block.reader.load_first_round(block.words);
  block.table.clear();
  __syncthreads();
  block.begin_segment();
  block.first_of_segment = block.share.begins_segment();
  while (true) {
    block.count_rounds();
    const Piece done = block.share.piece;
    const bool more = block.count_rest();
    block.count_ragged_rows(done);
    if (more && block.share.piece.index == done.index) {
      continue;
    }
    block.end_segment(done, more);
    if (!more) {
      return;
    }
    block.begin_segment();
    block.first_of_segment = true;
  }
}

/// Calls f(type, access) with the unsigned type of the elements and with how they are loaded.
template <class F>
void visit_access(const Interleaved& in, ElementType type, const F& f) {
  visit_unsigned_type(type, [&](auto tag) {
    switch (in.access) {
      case Access::kVec16:
        return f(tag, std::integral_constant<Access, Access::kVec16>{});
      case Access::kWord:
        return f(tag, std::integral_constant<Access, Access::kWord>{});
      case Access::kLoose:
        if constexpr (sizeof(typename decltype(tag)::type) <= 2) {
          return f(tag, std::integral_constant<Access, Access::kLoose>{});
        }
    }
    no_kernel("count_interleaved");
  });
}

/// Calls f(bins) with how a table of elements of kSize bytes holds its bins.
template <size_t kSize, Access kAccess, class F>
void visit_bins(const Interleaved& in, const F& f) {
  constexpr std::integral_constant<Bins, Bins::kPlain> kPlain;
  constexpr std::integral_constant<Bins, Bins::kMixed> kMixed;
  constexpr std::integral_constant<Bins, Bins::kDealt> kDealt;
  if constexpr (kSize == 1) {
    return f(kPlain);
  } else {
    if constexpr (kSize > 2) { // two bytes have one table
      if (in.channels == 1 && in.groups > 1) {
        if constexpr (kAccess == Access::kVec16) { // as all of one channel
          return f(kDealt);
        }
        no_kernel("count_interleaved");
      }
    }
    in.log_entry_words == kLogWarp ? f(kPlain) : f(kMixed);
  }
}

} // namespace

void count_interleaved(
    const CountPlan& plan, const Problem& problem, const ByteAxis& axis, const Launch& launch) {
  const auto& in = std::get<Interleaved>(plan.layout);
  const Prepared prepared = prepare(plan, problem, launch);
  visit_access(in, problem.type, [&](auto tag, auto access) {
    using T = typename decltype(tag)::type;
    visit_bins<sizeof(T), access()>(in, [&](auto bins) {
      const auto count = [&](auto kernel) {
        start(
            launch, "count_interleaved", kernel,
            LaunchShape{
                grid_of(plan.blocks), kColumnThreads, plan.shared_bytes, 1, prepared.starts_early},
            in, axis, prepared.partials, reinterpret_cast<unsigned long long*>(problem.counts));
      };
      if constexpr (sizeof(T) == 1 || access() != Access::kVec16) {
        if (in.in_runs) {
          return count(count_interleaved_kernel<T, access(), bins(), true>);
        }
      }
      count(count_interleaved_kernel<T, access(), bins(), false>);
    });
  });
  if (plan.reduce_blocks > 0) {
    reduce_columns(plan, problem, axis, prepared.partials, launch);
  }
}

} // namespace histo::cuda
