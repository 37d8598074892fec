// Elements that lie side by side, as rows of columns. The plans of interleaved.cu, rows.cu and
// planar.cu begin with this.
#pragma once

#include "cuda/plan/common.h"

namespace histo::cuda {

/// How rows that do not simply follow each other are read.
struct Gaps {
  bool in_runs = false; // rows that lie in several runs count as rows of one
  int64_t channels = 0; // the last channels, this many, lie between rows and have no counts
};

struct Channels {
  bool planar;     // one after another
  int64_t size;    // of a batch, as they lie in memory
  int64_t counted; // the first of these, which have counts
  bool few;        // a block sums the columns of each: up to four of bytes, one of wider types
};

/// Strides in bytes.
struct ByteLoops {
  Extent batch[2];
  Extent outer; // runs of rows that are counted together
};

/// How tables hold the entries of a channel.
struct EntryShape {
  int64_t words;  // of an entry
  int64_t tables; // that the bins of one channel are dealt to
};

struct RowLayout {
  Access access;
  int64_t columns; // elements of a row
  int64_t stride;  // bytes
  int64_t run;     // elements of a run that is a stream, or 0
  int64_t of_run;  // whole rows of a run
};

/// Runs of rows that are counted one after another.
struct RowRuns {
  Extent outer; // stride in bytes
  int64_t rows; // the whole rows of each
  // Rows of several runs may be counted as rows of one. These are the rows and runs of the input,
  // and the bytes that a next run, or a next set of runs, is further away than a next row would be.
  bool in_one = false;
  int64_t rows_of_run = 0;
  int64_t runs_of_set = 0;
  int64_t run_jump = 0;
  int64_t set_jump = 0;
};

struct Geometry {
  Channels channels;
  bool in_turn; // bytes of three channels: a row has no whole number of them
  bool halved;  // half tables
  ByteLoops loops;
  RowLayout rows;
  RowRuns runs;
  int64_t tables; // that the bins of one channel are dealt to
  int64_t table_columns;
  unsigned log_entry_words;
  unsigned log_lanes;
};

/// Returns none if elements lie otherwise, or are too few for tables to pay. Tables are halved if
/// that is allowed and rows suit it.
std::optional<Geometry> geometry_of(const Request& request, const Gaps& gaps, bool may_halve);

} // namespace histo::cuda
