// How the threads of a block of interleaved.cu read the rows of a piece.
#pragma once

#include <type_traits>

#include "cuda/count/bytes.cuh"
#include "cuda/count/pieces.cuh"
#include "cuda/walk/loads.cuh"

namespace histo::cuda {

/// A lane's load.
template <size_t kElementBytes, Access kAccess>
using LoadOf = std::conditional_t<
    kAccess == Access::kLoose,
    LooseWord,
    std::conditional_t<
        kAccess == Access::kVec16,
        uint4,
        std::conditional_t<kElementBytes == 8, uint64_t, uint32_t>>>;

/// Neighbouring lanes load neighbouring parts of a row, and the threads of a block load
/// neighbouring rows. One load of each thread is a step, and kUnroll steps are a round.
///
/// kInRuns: as Interleaved::in_runs.
template <class T, Access kAccess, int kUnroll, bool kInRuns>
struct RowReader {
  using Load = LoadOf<sizeof(T), kAccess>;
  static constexpr int kLoadBytes = bytes_of_load(kAccess, sizeof(T));
  static constexpr int kElements = kLoadBytes / int{sizeof(T)};
  static constexpr int kWarps = kColumnThreads / kWarp;
  // With few loads in a round, their steps are read from the parameters. With many, the compiler
  // computes the steps while additions are busy elsewhere.
  static constexpr bool kFewLoads = kAccess == Access::kVec16;

  const Interleaved& in;
  int lane_of_row;
  int rows_of_step;
  int rows_of_round;
  int own_row; // of a step
  int64_t step;
  int64_t round_step;
  int64_t last_column;
  int rounds;             // of the piece
  const uint8_t* address; // of the next load; in runs, of the piece's first word
  uint32_t byte_offset;   // in runs: what the thread adds to the distance of a row
  unsigned next_row;      // in runs: the row of the next load
  int count;              // bytes of a loose word that count

  __device__ __forceinline__ explicit RowReader(const Interleaved& columns)
      : in(columns),
        lane_of_row(threadIdx.x & ((1 << in.log_lanes) - 1)),
        rows_of_step(kWarps * (kWarp >> in.log_lanes)),
        rows_of_round(kUnroll * rows_of_step),
        own_row(static_cast<int>(threadIdx.x) >> in.log_lanes),
        step(kFewLoads ? in.load_step : rows_of_step * in.row_stride),
        round_step(kFewLoads ? in.round_step : rows_of_round * in.row_stride),
        // A lane beyond the last column reads that column again, and counts it where nobody reads.
        last_column((in.columns - 1) / kElements * kElements) {
  }

  __device__ __forceinline__ void begin(const Piece& piece) {
    // Only the first and the last round of loose words may have loads that reach beyond the tensor.
    // So the last round is never a whole one.
    const auto rows = static_cast<int>(piece.rows) - (kAccess == Access::kLoose ? kRowsAtEnd : 0);
    rounds = rounds_of(static_cast<unsigned>(max(rows, 0)));
    const int64_t column =
        min(first_column_of(in, piece.segment) + lane_of_row * kElements, last_column);
    if constexpr (kInRuns) {
      const uint8_t* first = piece.run + distance_of_row(uint64_t{piece.first_row});
      address = first - reinterpret_cast<uintptr_t>(first) % 4;
      const auto beyond = static_cast<uint32_t>(
          reinterpret_cast<uintptr_t>(piece.run) - reinterpret_cast<uintptr_t>(address));
      byte_offset = beyond + static_cast<uint32_t>(column) * unsigned{sizeof(T)};
      next_row = piece.first_row + own_row;
    } else {
      address = piece.run + (piece.segment.head + column) * int64_t{sizeof(T)} +
                (piece.first_row + own_row) * in.row_stride;
    }
    count = static_cast<int>(min(in.columns - column, int64_t{kElements})) *
            static_cast<int>(sizeof(T));
  }
  /// The rounds that make this number of rows. The divisor is a constant, so there is no division.
  __device__ __forceinline__ int rounds_of(unsigned rows) const {
    return static_cast<int>(rows >> (kLogWarp - in.log_lanes)) / (kUnroll * kWarps);
  }
  /// The distance in bytes from the first row to another one, in runs. Rows of a block are less
  /// than 2^32 bytes apart, so 32 bits suffice in loops.
  template <class Int>
  __device__ __forceinline__ Int distance_of_row(Int row) const {
    const unsigned run = in.by_rows_of_run.quotient(static_cast<unsigned>(row));
    const unsigned set = in.by_runs_of_set.quotient(run);
    return row * static_cast<Int>(in.row_stride) + Int{run} * in.run_jump + Int{set} * in.set_jump;
  }

  /// The i-th load of a round that neither begins nor ends a piece.
  __device__ __forceinline__ Load load_within(int i) const {
    return load_at(ith_address(i));
  }
  /// The i-th load of any other round.
  __device__ __forceinline__ Load load(int i) const {
    if constexpr (kAccess == Access::kLoose) {
      return load_loose_word(ith_address(i), count, {in.data, in.data_end});
    } else {
      return load_within(i);
    }
  }
  __device__ __forceinline__ void next_round() {
    if constexpr (kInRuns) {
      next_row += rows_of_round;
    } else {
      address += round_step;
    }
  }
  __device__ __forceinline__ void load_first_round(Load (&words)[kUnroll]) {
    if (rounds > 0) {
#pragma unroll
      for (int i = 0; i < kUnroll; ++i) {
        words[i] = load(i);
      }
      next_round();
    }
  }

 private:
  __device__ __forceinline__ auto ith_address(int i) const {
    if constexpr (kInRuns) {
      return WordAddress{address, byte_offset + distance_of_row(next_row + i * rows_of_step)};
    } else {
      return address + i * step;
    }
  }
  template <class Address>
  static __device__ __forceinline__ Load load_at(const Address& at) {
    if constexpr (kAccess == Access::kLoose) {
      return load_inner_word(at);
    } else {
      const auto* loads = reinterpret_cast<const Load*>(static_cast<const uint8_t*>(at));
      if constexpr (kAccess == Access::kWord && sizeof(T) <= 2) {
        return load_of_shared_line(loads);
      } else {
        return load_once(loads);
      }
    }
  }
};

} // namespace histo::cuda
