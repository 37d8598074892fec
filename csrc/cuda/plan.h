// How a problem is counted on a GPU: decided here, on the host, from the problem and
// the limits of the device alone, so that it can be explained and tested without one.
#pragma once

#include <cstdint>
#include <variant>

#include "../binning.h"
#include "../problem.h"
#include "tuning.h"

namespace histo::cuda {

/// Fibonacci hashing: the highest bits of a product with it depend on all of the other factor's.
/// Odd, so the product can be undone.
constexpr uint32_t kGoldenRatio = 0x9e3779b1;

struct DeviceLimits {
  int sm_count;
  int64_t shared_per_block; // bytes that one block can have
  int64_t shared_per_sm;
  int64_t l2_bytes;
  int capability; // 10 * major + minor, of the device or of the code where that is less

  /// Thread block clusters, and launches that overlap the one before.
  bool has_clusters() const {
    return capability >= 90;
  }
};

HISTO_HOST_DEVICE constexpr int bytes_of_load(Access access, int64_t element_bytes) {
  return access == Access::kQuad ? 16 : element_bytes == 8 ? 8 : 4;
}

/// The kernels for Columns.
enum class CountedBy { kColumns, kRows, kPlanes, kClustered };

/// Elements that lie side by side, cut into columns.
///
/// A unit is a set of channels (a batch) and a group of columns that one table holds; a
/// table has a row for every bin. All rows of all units, one unit after the other, are
/// dealt to the blocks in equal shares.
struct Columns {
  const uint8_t* data;
  const uint8_t* data_end;
  Extent batch[2];    // outer, inner; strides in bytes
  Extent outer;       // runs of rows that are counted together; stride in bytes
  int64_t run;        // elements of a run that is a stream, or 0
  int64_t row_stride; // bytes
  int64_t load_step;  // of whole quads: bytes between two loads of a thread
  int64_t round_step; // and between two rounds of them
  int64_t columns;    // elements of a row; column c counts for channel c % channels
  int64_t channels;   // of a batch
  int64_t num_bins;
  // Rows and units are fewer than 2^31: 32 bits divide much sooner than 64.
  unsigned rows;      // whole rows of a run
  unsigned unit_rows; // of all runs
  // The rows of all units, one unit after the other, are cut into equal parts, and
  // each part into shares. Neighbouring blocks take different parts.
  unsigned parts;
  unsigned part_rows;
  unsigned blocks_of_part;
  unsigned share;         // rows a block
  unsigned groups;        // of columns; of one channel, tables that its bins are dealt to
  unsigned group_columns; // between the first of a group and of the next; 0: bins are dealt
  unsigned batches;
  unsigned log_lanes;     // neighbouring lanes that read one row
  unsigned log_row_words; // of a table
  unsigned table_rows;    // of bytes a row a value, of wider types a row a bin
  ElementType type;
  Access access;
  CountedBy by;
  bool adds;         // the counts are zeroed, and all that is written is added
  bool cleared;      // so they are, perhaps by a kernel that this one overlaps
  bool sums_columns; // the fold sums the columns of each channel: a table has them all
  bool few_channels; // a block sums the columns of each channel
  bool paired;       // a word of a table is two counters of 16 bits
  bool carries;      // what counters of 16 bits do not hold is in an upper table, until a unit ends
  bool warps_apart;  // of a round each warp reads neighbouring rows
  bool one_piece;    // in planes.cu: a block has rows of one run, and its table has room for them
  bool in_turn;      // bytes of three channels: a lane has a column for each, whatever it reads
  unsigned unit_gap; // rows between two units, which take as long as the end of one does
  // In rows.cu a block has so many chunks of rows, the first blocks of a unit one more, and the last
  // one what is left.
  unsigned chunks;
  unsigned blocks_with_more;

  HISTO_HOST_DEVICE unsigned units() const {
    return batches * groups;
  }
  /// A stream's rows follow each other without a gap: their length is a choice.
  HISTO_HOST_DEVICE bool is_stream() const {
    return run != 0;
  }
  /// Whole lines of memory: rows shorter than one come in groups (rows_of_table).
  HISTO_HOST_DEVICE unsigned table_words() const {
    return table_rows << log_row_words;
  }
  /// What a block leaves to the fold; a kernel knows its access when it is compiled.
  HISTO_HOST_DEVICE unsigned partial_words(Access known) const {
    return table_words() + (known == Access::kSplit ? kEarlyWords : 0);
  }
  HISTO_HOST_DEVICE int64_t counter(int64_t batch_index, int64_t channel, int64_t bin) const {
    return (batch_index * channels + channel) * num_bins + bin;
  }
};

/// Any strides: a block takes a few channels and a chunk of rows.
struct Tiles {
  Extent channels[2]; // outer, inner; strides in elements
  Extent rows[2];
  int64_t num_channels;
  int64_t num_rows;
  int64_t tiles;  // of channels
  int64_t chunks; // of rows
  int64_t rows_per_chunk;
  int tile_channels; // a power of two
  int table_stride;  // counters between channels of a table; 0: no table, atomics in memory
  bool along_rows;   // neighbouring threads take neighbouring rows
  bool quads;        // and 16 aligned bytes each
  bool clustered;    // the blocks of a tile are a cluster, which folds its tables
};

/// One channel without gaps: every block owns some of the bins.
struct Exchange {
  const uint8_t* data; // aligned
  int64_t quads;       // of 16 bytes
  unsigned head;       // elements before the first of them
  unsigned ragged;     // and after the last, together
  int64_t num_bins;
  uint32_t limit; // elements below it have a bin
  unsigned rounds;
  int64_t quads_of_tile; // what a block reads in a round
  // A bin times `mixer` has the owner in its highest bits and then the owner's bin.
  unsigned log_owners;
  unsigned log_owned;
  uint32_t mixer;
  uint32_t unmixer; // undoes it, of the two together as one number
  int element_bytes;
};

struct Plan {
  std::variant<Columns, Tiles, Exchange> layout;
  int64_t blocks;
  int threads;
  int cluster;             // blocks of a cluster; 1: no clusters
  int64_t shared_bytes;    // of a block, for its table
  int64_t workspace_bytes; // tables that the blocks leave to the fold, or segments to each other
  int64_t fold_blocks;     // 0: no fold
  int fold_words;          // of a table, a block of the fold
  bool clears;             // the counts, or what the blocks meet at, are zeroed first
  bool shares_lines;       // neighbouring blocks of rows.cu or columns.cu read the same lines

  int launches() const {
    return 1 + (fold_blocks > 0) + clears;
  }
};

/// The problem has channels and rows.
template <class Binning>
Plan make_plan(const Problem& problem, const Binning& binning, const DeviceLimits& limits);

} // namespace histo::cuda
