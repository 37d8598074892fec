// The rows that a block of interleaved.cu counts.
#pragma once

#include "cuda/count/tables.cuh"

namespace histo::cuda {

/// Rows of one run that a block counts without a stop.
struct Piece {
  unsigned index; // of the segment
  Segment segment;
  unsigned outer; // of the segment's runs
  const uint8_t* run;
  unsigned first_row; // of the run
  unsigned rows;
  bool ends_segment;
};

/// A block's share of all rows of all segments, piece after piece.
template <int kLoadBytes, int kElementBytes>
struct Share {
  const Interleaved& in;
  unsigned part;
  unsigned begin;
  unsigned end;
  unsigned row; // the piece begins there
  Piece piece;

  __device__ __forceinline__ explicit Share(const Interleaved& columns)
      : in(columns),
        part(blockIdx.x % in.parts),
        begin(part * in.part_rows + blockIdx.x / in.parts * in.share),
        end(min(begin + in.share, (part + 1) * in.part_rows)),
        row(begin) {
    piece.index = in.part_rows == in.segment_rows ? part : begin / in.segment_rows;
    piece.segment = segment_at(in, piece.index);
    const unsigned row_of_segment = begin - piece.index * in.segment_rows;
    piece.outer = in.outer.size == 1 ? 0 : row_of_segment / in.rows;
    piece.first_row = row_of_segment - piece.outer * in.rows;
    piece.run = batch_of(in, piece.segment.batch) + piece.outer * in.outer.stride;
    cut();
  }
  /// Goes on to the next run. It takes no division, because few loads are in flight meanwhile.
  /// Returns whether the block has rows of that run.
  __device__ __forceinline__ bool advance() {
    row += piece.rows;
    if (row >= end) {
      return false;
    }
    piece.first_row = 0;
    piece.run += in.outer.stride;
    if (++piece.outer == in.outer.size) {
      piece.outer = 0;
      ++piece.index;
      if (++piece.segment.batch == in.batches) {
        piece.segment = segment_at(in, piece.index);
      }
      piece.run = batch_of(in, piece.segment.batch);
    }
    cut();
    return true;
  }
  __device__ __forceinline__ bool begins_segment() const {
    return row == piece.index * in.segment_rows;
  }
  /// Whether the segment began before the share did.
  __device__ __forceinline__ bool has_begin_of(const Piece& of) const {
    return of.index * in.segment_rows > begin;
  }
  /// The block's table in the workspace.
  __device__ __forceinline__ int64_t index_of_table() const {
    return part * in.blocks_of_part + blockIdx.x / in.parts;
  }

 private:
  /// Cuts the piece at the end of the run and of the block's share.
  __device__ __forceinline__ void cut() {
    piece.rows = min(in.rows - piece.first_row, end - row);
    piece.ends_segment =
        piece.outer + 1 == in.outer.size && piece.first_row + piece.rows == in.rows;
    piece.segment.head = head_of(in, piece.run, kLoadBytes, kElementBytes);
  }
};

} // namespace histo::cuda
