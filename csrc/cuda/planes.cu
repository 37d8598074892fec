// Counting bytes of few channels: of one channel after another, or of two, three or four in turn.
//
// What lies side by side is read as one stream, of which a warp takes 512 bytes at a time, each
// lane 16. A table has counters for each lane, as those of columns.cu have, but all are copies of
// the few channels, and a block sums them itself and adds the sums to the counts: where the next
// unit begins, and before a counter could overflow.
//
// While a warp counts its last rows of a unit the first of the next one are on their way.
#include "byte_table.cuh"
#include "clear.h"
#include "loads.cuh"
#include "overlap.cuh"
#include "planes.h"
#include "tables.cuh"

namespace histo::cuda {
namespace {

constexpr int kUnroll = kBytesInFlight / kQuadBytes;
constexpr unsigned kRowBytes = kQuadRow;

/// What a lane has of a row of the table, which is one for each value.
enum class Turns {
  kNone,  // one channel: a counter of 32 bits, in half of the row's place
  kThree, // three counters of 16 bits: six, five and five of its bytes add to them
  kEven,  // two channels or four: four counters of 16 bits, one for each byte of a word
};

template <Turns kTurns, int kThreads>
struct PlanesTable : ByteTable {
  using Base = ByteTable;
  using Base::address;
  using Base::in;
  using Base::offsets;
  using Base::table;
  uint32_t ones[3]; // of three channels, what one byte more of each is
  // Of a row: all its place, or the half that one counter a lane takes.
  static constexpr int kRowQuads = (kTurns == Turns::kNone ? kWarp : kByteRowWords) / 4;

  __device__ PlanesTable(const Columns& columns, const ByteAxis& bytes, uint32_t* shared, int lane)
      : Base(columns, bytes, shared, lane) {
    offsets[0] = 4 * lane;
  }

  /// The next row that the lane reads begins with that byte of its run.
  __device__ __forceinline__ void begin_rows(unsigned byte) {
    if constexpr (kTurns == Turns::kThree) {
      const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
      for (unsigned i = 0; i < 3; ++i) {
        const auto channel = static_cast<int>((byte + i) % 3);
        offsets[i] = 4 * Base::word_of(lane * kCountersOfLane + channel);
        ones[i] = Base::half_of(channel) ? 0x10000 : 1;
      }
    }
  }
  /// `row` rows after that one.
  __device__ __forceinline__ void add(const uint4& quad, int row) const {
    const uint32_t words[4] = {quad.x, quad.y, quad.z, quad.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (kTurns == Turns::kEven) {
        Base::add_word(words[i], offsets[0]);
      } else {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          const int of = kTurns == Turns::kNone ? 0 : (row * int{kRowBytes} + 4 * i + k) % 3;
          const uint32_t place = __byte_perm(words[i], offsets[of], 0x5504 + 0x10 * k);
          add_shared(address + place, kTurns == Turns::kNone ? 1 : ones[of]);
        }
      }
    }
  }
  /// The byte in that place of a row, which is that one of its run.
  __device__ __forceinline__ void add_one(unsigned place, int64_t byte, uint8_t value) const {
    const unsigned first_of_lane = place % kByteColumns / kCountersOfLane * kCountersOfLane;
    if constexpr (kTurns == Turns::kNone) { // a lane's four bytes of a word have one word
      add_shared(address + 4 * (value * kByteRowWords + first_of_lane / kCountersOfLane), 1);
    } else {
      const unsigned column =
          kTurns == Turns::kThree ? first_of_lane + static_cast<unsigned>(byte % 3) : place;
      Base::add_one(static_cast<int>(column), value);
    }
  }

  __device__ void clear() const {
    constexpr unsigned kQuads = 256 * kRowQuads;
#pragma unroll
    for (unsigned i = 0; i < kQuads; i += kThreads) {
      if (i + kThreads <= kQuads || i + threadIdx.x < kQuads) {
        quad_at((i + threadIdx.x) / kRowQuads, (i + threadIdx.x) % kRowQuads) =
            make_uint4(0, 0, 0, 0);
      }
    }
  }

  /// A thread sums half of a row, and clears it where more rows come: of two words a lane the even
  /// or the odd ones. Neighbours begin with different words, so that no two of a load meet in a
  /// bank, and add neighbouring bins.
  __device__ void add_channels(const Unit& unit, Counts counts, bool more) const {
    constexpr int kQuads = kRowQuads / 2;
    // Of four columns in turn an even word has the first and the third, an odd one the others.
    const bool apart = in.channels > 2;
    const uint32_t of_first = apart ? 0x0001 : 0x0101;
    for (int i = threadIdx.x; i < 2 * 256; i += kThreads) {
      const int row = i / 2;
      const int odd = i % 2;
      uint32_t first = 0, second = 0;
#pragma unroll 4
      for (int k = 0; k < kQuads; ++k) {
        const int begin = kTurns == Turns::kNone ? row : row + odd * kQuads / 2;
        uint4& quad = quad_at(row, odd * kQuads + (begin + k) % kQuads);
        const uint32_t words[4] = {quad.x, quad.y, quad.z, quad.w};
        // Asked of three channels too, their loops take 4 % longer.
        if (kTurns == Turns::kThree || more) {
          quad = make_uint4(0, 0, 0, 0);
        }
#pragma unroll
        for (uint32_t word : words) {
          if constexpr (kTurns == Turns::kNone) {
            first += word;
          } else {
            first = __dp2a_lo(word, of_first, first);
            if (apart) {
              second = __dp2a_lo(word, 0x0100u, second);
            }
          }
        }
      }
      const int64_t bin = Base::axis.bin_of(static_cast<uint8_t>(row));
      const auto add_to = [&](int column, uint32_t sum) {
        const int64_t channel = kTurns == Turns::kNone    ? 0
                                : kTurns == Turns::kThree ? column
                                                          : channel_of(in, unit, column);
        if (bin != kNoBin && channel < in.counted) {
          put<true>(&counts[in.counter(unit.batch, channel, bin)], sum);
        }
      };
      if constexpr (kTurns == Turns::kNone) {
        first += __shfl_sync(0xffffffff, first, (threadIdx.x ^ 1) % kWarp);
        if (odd) {
          continue;
        }
      }
      add_to(odd, first);
      if (kTurns != Turns::kNone && apart) {
        add_to(odd + 2, second);
      }
    }
    __syncthreads();
  }

 private:
  __device__ __forceinline__ uint4& quad_at(unsigned row, unsigned quad) const {
    return reinterpret_cast<uint4*>(table)[row * (kByteRowWords / 4) + quad];
  }
};

/// For __launch_bounds__.
template <int kThreads>
constexpr int kBlocksOfSm = kColumnThreads / kThreads;

/// Rows of one run that a block counts without a stop.
struct Piece {
  unsigned unit;
  unsigned outer; // of the unit's runs
  const uint8_t* run;
  unsigned head; // bytes of the run before its first row
  unsigned first_row;
  unsigned rows;
};

template <Turns kTurns, int kThreads>
__global__ __launch_bounds__(kThreads, kBlocksOfSm<kThreads>) void count_planes_kernel(
    const __grid_constant__ Planar in,
    const ByteAxis axis,
    unsigned long long* __restrict__ counts) {
  extern __shared__ __align__(1024) uint32_t table[];
  constexpr unsigned kWarps = kThreads / kWarp;
  constexpr unsigned kRowsOfRound = kWarps * kUnroll;
  // A lane keeps its channels from round to round.
  static_assert(kTurns != Turns::kThree || kRowsOfRound % 3 == 0);
  constexpr unsigned kRagged = kRaggedRows;
  const unsigned lane = threadIdx.x % kWarp;
  // The same for all its lanes, and known to be.
  const unsigned warp = __shfl_sync(0xffffffff, threadIdx.x / kWarp, 0);
  const unsigned own_row = warp * kUnroll;

  unsigned row = blockIdx.x * in.share;
  const unsigned end = min(row + in.share, in.part_rows);

  Piece piece{};
  constexpr unsigned kRoom = rows_of_planes(kTurns != Turns::kNone, kTurns == Turns::kThree);
  unsigned room = kRoom;
  const auto cut = [&] { // to what the run, the block and the table have of it
    piece.rows = min(min(in.rows - piece.first_row, end - row), room - kRagged);
    piece.head = head_of(in, piece.run, kQuadBytes, 1);
    room -= piece.rows + kRagged;
  };
  const auto first_byte = [&](const Piece& of, unsigned its_row) {
    return of.head + int64_t{of.first_row + its_row} * kRowBytes + lane * kQuadBytes;
  };
  // Of the piece's chunks every kWarps-th is the warp's.
  unsigned rounds = 0;
  const uint8_t* address = nullptr;
  const auto begin_piece = [&] {
    rounds = (piece.rows / kUnroll + kWarps - 1 - warp) / kWarps;
    address = piece.run + first_byte(piece, own_row);
  };
  piece.unit = in.batches == 1 ? 0 : row / in.unit_rows;
  const unsigned row_of_unit = row - piece.unit * in.unit_rows;
  piece.outer = in.outer.size == 1 ? 0 : row_of_unit / in.rows;
  piece.first_row = row_of_unit - piece.outer * in.rows;
  piece.run = batch_of(in, piece.unit) + piece.outer * in.outer.stride;
  cut();
  begin_piece();

  PlanesTable<kTurns, kThreads> cells(in, axis, table, static_cast<int>(lane));
  const auto begin_rows = [&](const Piece& of, unsigned its_row) {
    cells.begin_rows(of.head + (of.first_row + its_row) % 3 * kRowBytes + lane * kQuadBytes);
  };
  uint4 quads[kUnroll];
  uint4 next[kUnroll];
  const auto load = [&](uint4(&to)[kUnroll], const uint8_t* from, unsigned step) {
    __syncwarp(); // no instruction passes it, and it takes none itself
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      to[i] = load_once(reinterpret_cast<const uint4*>(from + i * step));
    }
    __syncwarp();
  };
  // Where the warp has no rows, bytes of no use: branches around loads would make copies of all
  // registers.
  const uint8_t* idle = piece.run + piece.head;
  const auto load_first = [&](uint4(&to)[kUnroll]) {
    load(to, rounds > 0 ? address : idle, rounds > 0 ? kRowBytes : 0);
    address += kRowsOfRound * kRowBytes;
  };
  const auto add_chunk = [&] {
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      cells.add(quads[i], i);
    }
  };
  const auto take_next = [&] {
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      quads[i] = next[i];
    }
  };

  if (!in.cleared) {
    wait_for_previous(); // it may write what is counted
  }
  load_first(quads); // and the table is cleared meanwhile
  cells.clear();
  __syncthreads();
  begin_rows(piece, own_row);
  while (true) {
    // A quad counted before these loads may leave them waiting for its additions, which still have
    // to read registers that are loaded: [2^29] then took 129 us and not 122.
#pragma unroll 1
    for (; rounds > 1; --rounds) {
      load(next, address, kRowBytes);
      address += kRowsOfRound * kRowBytes;
      add_chunk();
      take_next();
    }

    // Before the last chunk is counted the rest is loaded, and the first chunk of the next piece.
    const Piece done = piece;
    const bool has_chunk = rounds > 0;
    // Rows that make no chunk are for the last warps, which have fewest.
    const unsigned row_left = piece.rows / kUnroll * kUnroll + (kWarps - 1 - warp);
    uint4 left = make_uint4(0, 0, 0, 0);
    if (row_left < piece.rows) {
      left = load_once(reinterpret_cast<const uint4*>(piece.run + first_byte(piece, row_left)));
    }
    row += piece.rows;
    piece.first_row += piece.rows;
    if (piece.first_row == in.rows) {
      piece.first_row = 0;
      piece.run += in.outer.stride;
      if (++piece.outer == in.outer.size) {
        piece.outer = 0;
        ++piece.unit;
      }
    }
    const bool more = row < end;
    const bool ends_table = !more || piece.unit != done.unit || room < kRagged + kRowsOfRound;
    if (ends_table) {
      room = kRoom;
    }
    rounds = 0;
    if (more) {
      if (piece.unit != done.unit) {
        piece.run = batch_of(in, piece.unit);
      }
      cut();
      begin_piece();
    }
    load_first(next);
    if (has_chunk) {
      add_chunk();
    }
    take_next();
    if (row_left < done.rows) {
      begin_rows(done, row_left);
      cells.add(left, 0);
    }
    // Bytes that make no row: before the first one, and after the last one.
    const auto count_ragged = [&](int64_t ragged_row) {
      for (unsigned own = threadIdx.x; own < kRowBytes; own += kThreads) {
        const int64_t byte = done.head + ragged_row * kRowBytes + own;
        if (byte >= 0 && byte < in.run) {
          cells.add_one(own, byte, done.run[byte]);
        }
      }
    };
    if (done.first_row == 0 && done.head != 0) {
      count_ragged(-1);
    }
    if (done.first_row + done.rows == in.rows) {
      count_ragged(in.rows);
      count_ragged(int64_t{in.rows} + 1);
    }
    begin_rows(piece, own_row);
    if (!ends_table) {
      continue;
    }
    wait_for_previous(); // it cleared the counts
    __syncthreads();
    cells.add_channels(Unit{done.unit, 0, done.head}, counts, more);
    if (!more) {
      return;
    }
  }
}

} // namespace

void count_planes(
    const Plan& plan, const Problem& problem, const ByteAxis& axis, const Launch& launch) {
  const auto& in = std::get<Planar>(plan.layout);
  const Prepared prepared = prepare(plan, problem, launch);
  const auto count = [&](auto turns, auto threads) {
    start(
        launch, "count_planes", count_planes_kernel<turns(), threads()>,
        Shape{grid_of(plan.blocks), dim3(threads()), plan.shared_bytes, 1, prepared.starts_early},
        in, axis, reinterpret_cast<unsigned long long*>(problem.counts));
  };
  const auto with_threads = [&](auto turns) {
    constexpr int kFew = threads_of_short_units(turns() == Turns::kThree);
    switch (plan.threads) {
      case kFew:
        return count(turns, std::integral_constant<int, kFew>{});
      case kColumnThreads:
        return count(turns, std::integral_constant<int, kColumnThreads>{});
      default:
        no_kernel("count_planes");
    }
  };
  in.channels == 1 ? with_threads(std::integral_constant<Turns, Turns::kNone>{})
  : in.in_turn     ? with_threads(std::integral_constant<Turns, Turns::kThree>{})
                   : with_threads(std::integral_constant<Turns, Turns::kEven>{});
}

} // namespace histo::cuda
