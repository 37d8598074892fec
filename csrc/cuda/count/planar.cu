// Counts bytes of few channels: of one channel after another, or of two, three or four in turn.
//
// Bytes that lie side by side are read as one stream, of which a warp takes 512 bytes at a time,
// each lane 16. A table has counters for each lane, as in interleaved.cu, but they are copies of
// the counters of few channels. A block sums the copies and adds the sums to the counts, when a
// segment ends or before a counter could overflow.
//
// While a warp counts its last rows of a segment, it loads its first rows of the next one.
#include "cuda/count/planar_table.cuh"
#include "cuda/count/sweeps.h"
#include "cuda/pdl.cuh"
#include "cuda/storage/clear.h"
#include "cuda/walk/loads.cuh"

namespace histo::cuda {
namespace {

constexpr int kUnroll = kBytesInFlight / kVec16Bytes;

/// The blocks of an SM, for __launch_bounds__.
template <int kThreads>
constexpr int kBlocksOfSm = kColumnThreads / kThreads;

/// Rows of one run that a block counts without a stop.
struct PlanarPiece {
  unsigned segment;
  unsigned outer; // of the segment's runs
  const uint8_t* run;
  unsigned head; // bytes of the run before its first row
  unsigned first_row;
  unsigned rows;
};

/// The steps of a block, which all its threads take together.
///
/// A chunk is kUnroll neighbouring rows. The warps take the chunks of a piece in turn.
template <ChannelTurns kTurns, int kThreads>
struct PlanarBlock {
  static constexpr unsigned kRowBytes = PlanarTable<kTurns, kThreads>::kRowBytes;
  static constexpr unsigned kWarps = kThreads / kWarp;
  static constexpr unsigned kRowsOfRound = kWarps * kUnroll;
  static constexpr unsigned kRagged = kRaggedRows;
  static constexpr unsigned kRoom =
      rows_of_planar(kTurns != ChannelTurns::kNone, kTurns == ChannelTurns::kThree);
  // A lane keeps its channels from round to round.
  static_assert(kTurns != ChannelTurns::kThree || kRowsOfRound % 3 == 0);

  const Planar& in;
  Counts counts;
  unsigned lane;
  unsigned warp; // the same for all its lanes, and known to be
  unsigned row;  // the piece begins there
  unsigned end;  // of the block's rows
  unsigned room; // rows that the counters still hold
  PlanarPiece piece;
  unsigned rounds = 0;    // chunks of the piece that the warp still has
  const uint8_t* address; // of the next one
  const uint8_t* idle;    // bytes of no use
  PlanarTable<kTurns, kThreads> table;
  uint4 vec16s[kUnroll]; // of the chunk in hand
  uint4 next[kUnroll];

  __device__ __forceinline__ PlanarBlock(
      const Planar& columns, const ByteAxis& axis, uint32_t* shared, unsigned long long* result)
      : in(columns),
        counts(result),
        lane(threadIdx.x % kWarp),
        warp(__shfl_sync(0xffffffff, threadIdx.x / kWarp, 0)),
        row(blockIdx.x * in.share),
        end(min(row + in.share, in.part_rows)),
        room(kRoom),
        table(in, axis, shared, static_cast<int>(lane)) {
    piece.segment = in.batches == 1 ? 0 : row / in.segment_rows;
    const unsigned row_of_segment = row - piece.segment * in.segment_rows;
    piece.outer = in.outer.size == 1 ? 0 : row_of_segment / in.rows;
    piece.first_row = row_of_segment - piece.outer * in.rows;
    piece.run = batch_of(in, piece.segment) + piece.outer * in.outer.stride;
    begin_piece();
    idle = piece.run + piece.head;
  }

  /// Loads the warp's first chunk of the piece, or any bytes if the warp has none. With branches
  /// around the loads, the compiler would copy all registers. Workaround nvcc-13.0-no-branch: see
  /// docs/tuning.md.
  __device__ __forceinline__ void load_first(uint4 (&to)[kUnroll]) {
    load(to, rounds > 0 ? address : idle, rounds > 0 ? kRowBytes : 0);
    address += kRowsOfRound * kRowBytes;
  }
  /// Prepares the table for this row of the warp in a piece.
  __device__ __forceinline__ void begin_rows(const PlanarPiece& of, unsigned its_row) {
    table.begin_rows(of.head + (of.first_row + its_row) % 3 * kRowBytes + lane * kVec16Bytes);
  }
  __device__ __forceinline__ void begin_chunks() {
    begin_rows(piece, warp * kUnroll);
  }

  /// Counts all chunks of the piece but the last one, which is loaded then.
  ///
  /// No vec16 is counted between the loads. A load would have to wait until the additions have read
  /// the registers that it writes. Workaround nvcc-13.0-chunk-apart: see docs/tuning.md.
  __device__ __forceinline__ void count_rounds() {
#pragma unroll 1
    for (; rounds > 1; --rounds) {
      load(next, address, kRowBytes);
      address += kRowsOfRound * kRowBytes;
      add_chunk();
      take_next();
    }
  }
  /// Counts the chunk that is loaded, and the rest of the piece. The rest and the first chunk of
  /// the next piece are loaded before. Returns whether the table ends with the piece.
  __device__ __forceinline__ bool count_rest() {
    const PlanarPiece done = piece;
    const bool has_chunk = rounds > 0;
    // Rows that make no chunk go to the last warps, which have the fewest rows.
    const unsigned row_left = piece.rows / kUnroll * kUnroll + (kWarps - 1 - warp);
    uint4 left = make_uint4(0, 0, 0, 0);
    if (row_left < piece.rows) {
      left = load_once(reinterpret_cast<const uint4*>(piece.run + first_byte(piece, row_left)));
    }
    const bool ends_table = advance();
    load_first(next);
    if (has_chunk) {
      add_chunk();
    }
    take_next();
    if (row_left < done.rows) {
      begin_rows(done, row_left);
      table.add(left, 0);
    }
    return ends_table;
  }
  /// Counts the bytes of a piece before its first row and after its last one.
  __device__ __forceinline__ void count_ragged_rows(const PlanarPiece& done) {
    const auto count_row = [&](int64_t ragged_row) {
      for (unsigned own = threadIdx.x; own < kRowBytes; own += kThreads) {
        const int64_t byte = done.head + ragged_row * kRowBytes + own;
        if (byte >= 0 && byte < in.run) {
          table.add_one(own, byte, done.run[byte]);
        }
      }
    };
    if (done.first_row == 0 && done.head != 0) {
      count_row(-1);
    }
    if (done.first_row + done.rows == in.rows) {
      count_row(in.rows);
      count_row(int64_t{in.rows} + 1);
    }
  }
  /// Adds the table to the counts, and clears it if more rows come. Returns whether they do.
  __device__ __forceinline__ bool end_table(const PlanarPiece& done) {
    const bool more = row < end;
    wait_for_previous(); // it cleared the counts
    __syncthreads();
    table.add_channels(Segment{done.segment, 0, done.head}, counts, more);
    return more;
  }

 private:
  __device__ __forceinline__ int64_t first_byte(const PlanarPiece& of, unsigned its_row) const {
    return of.head + int64_t{of.first_row + its_row} * kRowBytes + lane * kVec16Bytes;
  }
  /// Cuts the piece at the end of the run, of the block's share, and of the table's room.
  __device__ __forceinline__ void begin_piece() {
    piece.rows = min(min(in.rows - piece.first_row, end - row), room - kRagged);
    piece.head = head_of(in, piece.run, kVec16Bytes, 1);
    room -= piece.rows + kRagged;
    rounds = (piece.rows / kUnroll + kWarps - 1 - warp) / kWarps;
    address = piece.run + first_byte(piece, warp * kUnroll);
  }
  /// Goes on to the next piece, if there is one. Returns whether it needs a new table.
  __device__ __forceinline__ bool advance() {
    const unsigned segment = piece.segment;
    row += piece.rows;
    piece.first_row += piece.rows;
    if (piece.first_row == in.rows) {
      piece.first_row = 0;
      piece.run += in.outer.stride;
      if (++piece.outer == in.outer.size) {
        piece.outer = 0;
        ++piece.segment;
      }
    }
    const bool more = row < end;
    const bool ends_table = !more || piece.segment != segment || room < kRagged + kRowsOfRound;
    if (ends_table) {
      room = kRoom;
    }
    rounds = 0;
    if (more) {
      if (piece.segment != segment) {
        piece.run = batch_of(in, piece.segment);
      }
      begin_piece();
    }
    return ends_table;
  }
  __device__ __forceinline__ void load(
      uint4 (&to)[kUnroll], const uint8_t* from, unsigned step) const {
    __syncwarp(); // no instruction passes it, and it takes none itself
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      to[i] = load_once(reinterpret_cast<const uint4*>(from + i * step));
    }
    __syncwarp();
  }
  __device__ __forceinline__ void add_chunk() const {
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      table.add(vec16s[i], i);
    }
  }
  __device__ __forceinline__ void take_next() {
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      vec16s[i] = next[i];
    }
  }
};

template <ChannelTurns kTurns, int kThreads>
__global__ __launch_bounds__(kThreads, kBlocksOfSm<kThreads>) void count_planar_kernel(
    const __grid_constant__ Planar in,
    const ByteAxis axis,
    unsigned long long* __restrict__ counts) {
  extern __shared__ __align__(1024) uint32_t shared[];
  PlanarBlock<kTurns, kThreads> block(in, axis, shared, counts);
  if (!in.cleared) {
    wait_for_previous(); // it may write what is counted
  }
  block.load_first(block.vec16s); // and the table is cleared meanwhile
  block.table.clear();
  __syncthreads();
  block.begin_chunks();
  while (true) {
    block.count_rounds();
    const PlanarPiece done = block.piece;
    const bool ends_table = block.count_rest();
    block.count_ragged_rows(done);
    block.begin_chunks();
    if (ends_table && !block.end_table(done)) {
      return;
    }
  }
}

} // namespace

void count_planar(
    const CountPlan& plan, const Problem& problem, const ByteAxis& axis, const Launch& launch) {
  const auto& in = std::get<Planar>(plan.layout);
  const Prepared prepared = prepare(plan, problem, launch);
  const auto count = [&](auto turns, auto threads) {
    start(
        launch, "count_planar", count_planar_kernel<turns(), threads()>,
        LaunchShape{
            grid_of(plan.blocks), dim3(threads()), plan.shared_bytes, 1, prepared.starts_early},
        in, axis, reinterpret_cast<unsigned long long*>(problem.counts));
  };
  const auto with_threads = [&](auto turns) {
    constexpr int kFew = threads_of_short_segments(turns() == ChannelTurns::kThree);
    switch (plan.threads) {
      case kFew:
        return count(turns, std::integral_constant<int, kFew>{});
      case kColumnThreads:
        return count(turns, std::integral_constant<int, kColumnThreads>{});
      default:
        no_kernel("count_planar");
    }
  };
  in.channels == 1 ? with_threads(std::integral_constant<ChannelTurns, ChannelTurns::kNone>{})
  : in.in_turn     ? with_threads(std::integral_constant<ChannelTurns, ChannelTurns::kThree>{})
                   : with_threads(std::integral_constant<ChannelTurns, ChannelTurns::kEven>{});
}

} // namespace histo::cuda
