// How the rows of a geometry are dealt to blocks.
#pragma once

#include "cuda/plan/geometry.h"

namespace histo::cuda {

/// One table counts a segment: a group of columns of a batch, or some bins of its channel.
struct Segments {
  int64_t groups;
  int64_t batches;
  int64_t rows;      // of a segment
  int64_t row_bytes; // that are read for it

  int64_t count() const {
    return groups * batches;
  }
};

struct Partition {
  Segments segments;
  int threads; // of a block
  // The rows of all segments, one segment after the other, are cut into equal parts, and each part
  // into shares.
  int64_t parts;
  int64_t part_rows;
  int64_t blocks_of_part;
  int64_t share;

  int64_t blocks() const {
    return parts * blocks_of_part;
  }
  bool reduces() const {
    return share % segments.rows != 0;
  }
};

/// Returns none if a segment is too small, all are too large, or half tables do not suit them.
std::optional<Partition> partition_of(const Request& request, const Geometry& geometry);

} // namespace histo::cuda
