// How a problem is counted on a GPU: decided here, on the host, from the problem and
// the limits of the device alone, so that it can be explained and tested without one.
#pragma once

#include <cstdint>
#include <variant>

#include "../problem.h"
#include "plan/keys.h"
#include "tuning.h"

namespace histo::cuda {

/// Fibonacci hashing: the highest bits of a product with it depend on all of the other factor's.
/// Odd, so the product can be undone.
constexpr uint32_t kGoldenRatio = 0x9e3779b1;

struct DeviceLimits {
  int sm_count;
  int64_t shared_per_block; // bytes that one block can have
  int64_t shared_per_sm;
  int capability; // 10 * major + minor, of the device or of the code where that is less

  /// Thread block clusters, and launches that overlap the one before.
  bool has_clusters() const {
    return capability >= 90;
  }
};

HISTO_HOST_DEVICE constexpr int bytes_of_load(Access access, int64_t element_bytes) {
  return access == Access::kVec16 ? 16 : element_bytes == 8 ? 8 : 4;
}

/// a * b + c, in one instruction: where b is an argument of the kernel the compiler adds upper
/// halves that are 0.
HISTO_HOST_DEVICE uint64_t multiply_add(uint32_t a, uint32_t b, uint64_t c) {
#ifdef __CUDA_ARCH__
  asm("mad.wide.u32 %0, %1, %2, %0;" : "+l"(c) : "r"(a), "r"(b));
  return c;
#else
  return uint64_t{a} * b + c;
#endif
}

/// Divides what is below 2^31 by a number that is known before: a product and a shift.
struct Divider {
  uint32_t divisor;
  uint32_t factor;
  unsigned shift;

  Divider() = default;
  explicit Divider(uint32_t by) : divisor(by), factor(0), shift(31) {
    while (uint64_t{1} << (shift - 31) < by) {
      ++shift;
    }
    factor = static_cast<uint32_t>(((uint64_t{1} << shift) + by - 1) / by);
  }
  HISTO_HOST_DEVICE uint32_t quotient(uint32_t n) const {
    return static_cast<uint32_t>(multiply_add(n, factor, 0) >> shift);
  }
  HISTO_HOST_DEVICE uint32_t remainder(uint32_t n) const {
    return n - quotient(n) * divisor;
  }
};

/// Elements that lie side by side, cut into columns: what all kernels for them read.
///
/// A segment is a set of channels (a batch) and a group of columns that one table holds; a
/// table has a row for every bin. All rows of all segments, one segment after the other, are
/// dealt to the blocks in equal shares.
struct Columns {
  const uint8_t* data;
  const uint8_t* data_end;
  Extent batch[2];    // outer, inner; strides in bytes
  int64_t row_stride; // bytes
  int64_t columns;    // elements of a row; column c counts for channel c % channels
  int64_t channels;   // of a batch, as they lie in memory
  int64_t counted;    // of those the first, which have counts; others lie between rows
  int64_t num_bins;
  // Rows and segments are fewer than 2^31: 32 bits divide much sooner than 64.
  unsigned rows;          // whole rows of a run
  unsigned groups;        // of columns; of one channel, tables that its bins are dealt to
  unsigned group_columns; // between the first of a group and of the next; 0: bins are dealt
  unsigned batches;
  unsigned log_lanes;     // neighbouring lanes that read one row
  unsigned log_key_words; // of a table
  unsigned table_keys;    // of bytes a row a value, of wider types a row a bin
  ElementType type;
  bool adds;    // the counts are zeroed, and all that is written is added
  bool cleared; // so they are, perhaps by a kernel that this one overlaps

  HISTO_HOST_DEVICE unsigned segments() const {
    return batches * groups;
  }
  /// Whole lines of memory: rows shorter than one come in groups (keys_of_table).
  HISTO_HOST_DEVICE unsigned table_words() const {
    return table_keys << log_key_words;
  }
  HISTO_HOST_DEVICE int64_t counter(int64_t batch_index, int64_t channel, int64_t bin) const {
    return (batch_index * counted + channel) * num_bins + bin;
  }
};

/// interleaved.cu: any of them.
struct Interleaved : Columns {
  Extent outer;          // runs of rows that are counted together; stride in bytes
  int64_t run;           // elements of a run that is a stream, or 0
  int64_t load_step;     // of whole vec16s: bytes between two loads of a thread
  int64_t round_step;    // and between two rounds of them
  unsigned segment_rows; // of all runs
  // The rows of all segments, one segment after the other, are cut into equal parts, and
  // each part into shares. Neighbouring blocks take different parts.
  unsigned parts;
  unsigned part_rows;
  unsigned blocks_of_part;
  unsigned share; // rows a block
  Access access;
  bool sums_columns; // the reduction sums the columns of each channel: a table has them all
  bool few_channels; // a block sums the columns of each channel
  bool packed16;     // a word of a table is two counters of 16 bits
  // Rows that lie in several runs count as rows of one; from run to run it is then so many bytes
  // further than rows alone, and from set of runs to set. In 32 bits, as is the stride of rows.
  bool in_runs;
  Divider by_rows_of_run;
  Divider by_runs_of_set;
  uint32_t run_jump;
  uint32_t set_jump;

  /// A stream's rows follow each other without a gap: their length is a choice.
  HISTO_HOST_DEVICE bool is_stream() const {
    return run != 0;
  }
  /// That are counted together.
  int64_t runs() const {
    const unsigned apart = counted < channels ? kRowsApart : 0;
    return in_runs ? (segment_rows + apart) / by_rows_of_run.divisor : outer.size;
  }
};

/// rows.cu: whole rows of bytes, a channel each, in one run.
struct WholeRows : Columns {
  int64_t load_step; // bytes between two loads of a thread
  int64_t round_step;
  unsigned blocks_of_part; // of a segment
  // A block has so many chunks of rows, the first blocks of a segment one more, and the last one
  // what is left.
  unsigned chunks;
  unsigned blocks_with_more;

  /// The rows of a block, at most.
  unsigned rows_of_block() const {
    const unsigned chunk = rows_of_chunk(group_columns);
    return chunks * chunk + (blocks_with_more > 0 ? chunk : rows % chunk);
  }
};

/// planar.cu: bytes of few channels, in a stream whose rows are 512 bytes.
struct Planar : Columns {
  Extent outer;          // runs of a segment; stride in bytes
  int64_t run;           // its elements
  unsigned segment_rows; // of all runs
  unsigned part_rows;    // of all segments
  unsigned share;        // rows a block
  bool in_turn;          // three channels: a lane has a column for each, whatever it reads

  HISTO_HOST_DEVICE bool is_stream() const {
    return true;
  }
};

/// clustered.cu: some MiB of bytes.
struct Clustered : Columns {
  unsigned share; // rows a block
  Access access;
};

/// Many short stretches of elements side by side, wherever they begin.
///
/// A segment is a set of channels, which one table holds. Its runs are cut into vec16s, aligned 16
/// bytes each, of which the first and the last may have bytes that lie outside; all vec16s of a
/// segment, run after run, are dealt to threads. Element e of a run counts for channel e % period
/// of the segment, if it has so many.
struct Runs {
  const uint8_t* data;
  uint64_t first_vec16; // the address of the first that is all in the tensor
  uint64_t last_vec16;  // so many bytes behind it
  Extent batch[2];      // segments: outer, inner; strides in bytes
  // Between runs of a segment, in bytes, loop by loop; the outermost is 0 where there are two.
  uint64_t set_step;
  uint32_t outer_step;
  uint32_t step;
  int64_t channels; // of a segment
  int64_t num_bins;
  unsigned segments;
  unsigned period;     // elements
  unsigned before_run; // whole periods, at least a vec16: elements are numbered from there on
  unsigned run_bytes;
  unsigned vec16s;       // of a segment
  unsigned chunks;       // blocks that share a segment
  unsigned share;        // vec16s of such a block
  unsigned log_segments; // of a block
  unsigned tables;       // of a segment, of one channel each; 0: its channels are columns of one
  unsigned columns;      // so many tables, or columns
  unsigned log_copies;   // of a counter
  unsigned table_keys;   // of bytes a row a value, of wider types a row a bin; and one behind them
  // From row to row, from column to column or table to table, and from segment to segment.
  unsigned key_words;
  unsigned column_words;
  unsigned segment_words;
  Divider by_vec16s_of_run;
  Divider by_loop[2]; // of runs, the inner ones
  Divider by_period;
  Divider by_keys;
  Divider by_channels;
  ElementType type;
  bool adds; // as in Columns
  bool cleared;
  // A run of one channel may have several rows, with gaps between them. A period is then the
  // distance from one row to the next, in elements. These fields stand last (docs/tuning.md,
  // compiler moods).
  unsigned run_bytes_between;
  uint64_t between; // a bit for each of 64 bytes, from a row's first one on

  HISTO_HOST_DEVICE unsigned segments_of_block() const {
    return 1u << log_segments;
  }
  int64_t runs() const {
    return vec16s / by_vec16s_of_run.divisor;
  }
  /// Behind the channels of a row that is read with what lies between it and the next.
  int64_t gap_channels() const {
    return period - channels;
  }
};

/// Any strides: a block takes a few channels and a chunk of rows.
struct Generic {
  Extent channels[2]; // outer, inner; strides in elements
  Extent rows[2];     // outer, inner
  int64_t num_channels;
  int64_t num_rows;
  int64_t tiles;  // of channels
  int64_t chunks; // of rows
  int64_t rows_per_chunk;
  int tile_channels; // a power of two
  int table_stride;  // counters between channels of a table; 0: no table, atomics in memory
  bool along_rows;   // neighbouring threads take neighbouring rows
  bool vec16s;       // and 16 aligned bytes each
  bool clustered;    // the blocks of a tile are a cluster, which reduces its tables
  bool sets;         // of rows: a third loop, around the others
  int64_t set_stride;
};
// With a larger one as its argument, generic.cu takes 20 % longer for [2^20, 512] every 2nd
// channel.
static_assert(sizeof(Generic) <= 128);

/// One channel without gaps: every block owns some of the bins.
struct Partitioned {
  const uint8_t* data; // aligned
  int64_t vec16s;      // of 16 bytes
  unsigned head;       // elements before the first of them
  unsigned ragged;     // and after the last, together
  int64_t num_bins;
  uint32_t limit; // elements below it have a bin
  unsigned rounds;
  int64_t vec16s_of_tile; // what a block reads in a round
  // A bin times `mixer` has the owner in its highest bits and then the owner's bin.
  unsigned log_owners;
  unsigned log_owned;
  uint32_t mixer;
  uint32_t unmixer; // undoes it, of the two together as one number
  int element_bytes;
};

struct Plan {
  std::variant<Interleaved, WholeRows, Planar, Clustered, Runs, Generic, Partitioned> layout;
  int64_t blocks;
  int threads;
  int cluster;          // blocks of a cluster; 1: no clusters
  int64_t shared_bytes; // of a block, for its table
  int64_t
      workspace_bytes;   // tables that the blocks leave to the reduction, or buckets to each other
  int64_t reduce_blocks; // 0: no reduction
  int reduce_words;      // of a table, a block of the reduction
  bool clears;           // the counts, or what the blocks meet at, are zeroed first
  bool shares_lines;     // neighbouring blocks of rows.cu or interleaved.cu read the same lines

  int launches() const {
    return 1 + (reduce_blocks > 0) + clears;
  }
};

/// The problem has channels and rows.
Plan make_plan(const Problem& problem, const Keys& keys, const DeviceLimits& limits);

} // namespace histo::cuda
