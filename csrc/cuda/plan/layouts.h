// The plan of a call: how a GPU counts a problem. It is made on the host, from the problem and the
// limits of the device alone. So it can be explained and tested without a GPU.
#pragma once

#include <cstdint>
#include <variant>

#include "core/problem.h"
#include "cuda/plan/table_entries.h"
#include "cuda/policy.h"

namespace histo::cuda {

/// Fibonacci hashing: the highest bits of a product with this number depend on all bits of the
/// other factor. The number is odd, so the product can be undone.
constexpr uint32_t kGoldenRatio = 0x9e3779b1;

struct DeviceLimits {
  int sm_count;
  int64_t shared_per_block; // bytes that one block can have
  int64_t shared_per_sm;
  int capability; // 10 * major + minor, of the device or of the code, whichever is lower

  /// Whether there are thread block clusters, and launches that overlap the one before.
  bool has_clusters() const {
    return capability >= 90;
  }
};

HISTO_HOST_DEVICE constexpr int bytes_of_load(Access access, int64_t element_bytes) {
  return access == Access::kVec16 ? 16 : element_bytes == 8 ? 8 : 4;
}

/// a * b + c, in one instruction. If b is an argument of the kernel, the compiler would add upper
/// halves, which are 0.
HISTO_HOST_DEVICE uint64_t multiply_add(uint32_t a, uint32_t b, uint64_t c) {
#ifdef __CUDA_ARCH__
  asm("mad.wide.u32 %0, %1, %2, %0;" : "+l"(c) : "r"(a), "r"(b));
  return c;
#else
  return uint64_t{a} * b + c;
#endif
}

/// Divides numbers below 2^31 by a number that the host knows: with a product and a shift.
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

/// Elements that lie side by side, cut into columns. All kernels for them read these fields.
///
/// A segment is a group of columns of one set of channels (a batch). One table counts it. The rows
/// of all segments, one segment after the other, are dealt to the blocks in equal shares.
struct ColumnLayout {
  const uint8_t* data;
  const uint8_t* data_end;
  Extent batch[2];    // outer, inner; strides in bytes
  int64_t row_stride; // bytes
  int64_t columns;    // elements of a row; column c counts for channel c % channels
  int64_t channels;   // of a batch, as they lie in memory
  int64_t counted;    // the first of these channels have counts; the others lie between rows
  int64_t num_bins;
  // Rows and segments are fewer than 2^31, because 32 bits divide much sooner than 64.
  unsigned rows;          // whole rows of a run
  unsigned groups;        // of columns; for one channel, tables that share its bins
  unsigned group_columns; // from one group to the next; 0 if bins are dealt to tables
  unsigned batches;
  unsigned log_lanes;       // log2 of the neighbouring lanes that read one row
  unsigned log_entry_words; // log2 of the words that a table has for each entry
  unsigned table_entries;   // an entry for each value of bytes, or for each bin of wider types
  ElementType type;
  bool adds;    // several blocks may add to one count, so counts are zeroed first
  bool cleared; // counts are zeroed, perhaps by a kernel that this one overlaps

  HISTO_HOST_DEVICE unsigned segments() const {
    return batches * groups;
  }
  /// A table is whole lines of memory: entries_of_table rounds the number of entries up.
  HISTO_HOST_DEVICE unsigned table_words() const {
    return table_entries << log_entry_words;
  }
  HISTO_HOST_DEVICE int64_t counter(int64_t batch_index, int64_t channel, int64_t bin) const {
    return (batch_index * counted + channel) * num_bins + bin;
  }
};

/// interleaved.cu counts any columns.
struct Interleaved : ColumnLayout {
  Extent outer;          // runs of rows that are counted together; stride in bytes
  int64_t run;           // elements of a run if it is a stream, else 0
  int64_t load_step;     // bytes between two loads of a thread, if these are vec16s
  int64_t round_step;    // bytes between two rounds of such loads
  unsigned segment_rows; // rows of all runs of a segment
  // The rows of all segments, one segment after the other, are cut into equal parts, and each part
  // into shares. Neighbouring blocks take shares of different parts.
  unsigned parts;
  unsigned part_rows;
  unsigned blocks_of_part;
  unsigned share; // rows of a block
  Access access;
  bool sums_columns; // the reduction sums the columns of each channel; a table has them all
  bool few_channels; // a block sums the columns of each channel
  bool packed16;     // a word of a table is two counters of 16 bits
  // Rows of several runs may be counted as rows of one. The jumps are the bytes that the next run,
  // or the next set of runs, is further away than a next row would be. They fit 32 bits.
  bool in_runs;
  Divider by_rows_of_run;
  Divider by_runs_of_set;
  uint32_t run_jump;
  uint32_t set_jump;

  /// The rows of a stream follow each other without a gap, so their length is a choice.
  HISTO_HOST_DEVICE bool is_stream() const {
    return run != 0;
  }
  /// The runs that are counted together.
  int64_t runs() const {
    const unsigned apart = counted < channels ? kRowsApart : 0;
    return in_runs ? (segment_rows + apart) / by_rows_of_run.divisor : outer.size;
  }
};

/// rows.cu counts whole rows of bytes in one run. Each column is a channel.
struct WholeRows : ColumnLayout {
  int64_t load_step; // bytes between two loads of a thread
  int64_t round_step;
  unsigned blocks_of_part; // of a segment
  // A block has this number of chunks of rows. The first blocks of a segment have one more, and the
  // last block has the rest of the rows.
  unsigned chunks;
  unsigned blocks_with_more;

  /// The rows of a block, at most.
  unsigned rows_of_block() const {
    const unsigned chunk = rows_of_chunk(group_columns);
    return chunks * chunk + (blocks_with_more > 0 ? chunk : rows % chunk);
  }
};

/// planar.cu counts bytes of few channels, in a stream whose rows are 512 bytes.
struct Planar : ColumnLayout {
  Extent outer;          // runs of a segment; stride in bytes
  int64_t run;           // elements of a run
  unsigned segment_rows; // rows of all runs of a segment
  unsigned part_rows;    // rows of all segments
  unsigned share;        // rows of a block
  bool in_turn;          // three channels: a lane has a column for each, for all that it reads

  HISTO_HOST_DEVICE bool is_stream() const {
    return true;
  }
};

/// clustered.cu counts some MiB of bytes.
struct Clustered : ColumnLayout {
  unsigned share; // rows of a block
  Access access;
};

/// runs.cu counts many short runs of elements, which may begin at any address.
///
/// A segment is a set of channels, which one table counts. Its runs are cut into aligned vec16s.
/// The first and the last vec16 of a run may have bytes that lie outside. All vec16s of a segment,
/// run after run, are dealt to threads. Element e of a run belongs to channel e % period of the
/// segment, if there is such a channel.
struct Runs {
  const uint8_t* data;
  uint64_t first_vec16; // the address of the first vec16 that lies in the tensor as a whole
  uint64_t last_vec16;  // the bytes from there to the last one
  Extent batch[2];      // segments: outer, inner; strides in bytes
  // Bytes between runs of a segment, loop by loop. The outermost is 0 if there are two loops.
  uint64_t set_step;
  uint32_t outer_step;
  uint32_t step;
  int64_t channels; // of a segment
  int64_t num_bins;
  unsigned segments;
  unsigned period;     // elements
  unsigned before_run; // added to the numbers of elements: whole periods, at least a vec16
  unsigned run_bytes;
  unsigned vec16s;        // of a segment
  unsigned chunks;        // blocks that share a segment
  unsigned share;         // vec16s of such a block
  unsigned log_segments;  // of a block
  unsigned tables;        // of a segment, one for each channel; 0 if channels are columns of one
  unsigned columns;       // the number of these tables, or columns
  unsigned log_copies;    // log2 of the copies of a counter
  unsigned table_entries; // as in ColumnLayout; one more entry counts values without a bin
  // Words from one entry to the next, from one column or table, and from one segment.
  unsigned entry_words;
  unsigned column_words;
  unsigned segment_words;
  Divider by_vec16s_of_run;
  Divider by_loop[2]; // of runs, the inner ones
  Divider by_period;
  Divider by_entries;
  Divider by_channels;
  ElementType type;
  bool adds; // as in ColumnLayout
  bool cleared;
  // A run of one channel may have several rows, with gaps between them. A period is then the
  // distance from one row to the next, in elements. These fields stand last. Workaround
  // nvcc-13.0-fields-last: see docs/tuning.md.
  unsigned run_bytes_between;
  uint64_t between; // a bit for each of 64 bytes, from a row's first one on

  HISTO_HOST_DEVICE unsigned segments_of_block() const {
    return 1u << log_segments;
  }
  int64_t runs() const {
    return vec16s / by_vec16s_of_run.divisor;
  }
  /// The elements between two rows, which are read too.
  int64_t gap_channels() const {
    return period - channels;
  }
};

/// generic.cu counts elements at any strides. A block takes a few channels and a chunk of rows.
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
  bool vec16s;       // and each thread reads 16 aligned bytes
  bool clustered;    // the blocks of a tile are a cluster, which reduces its tables
  bool sets;         // the rows have a third loop, around the others
  bool adds;         // counts hold numbers: those of other blocks, or of other calls
  int64_t set_stride;

  HISTO_HOST_DEVICE bool has_table() const {
    return table_stride > 0;
  }
  int cluster() const {
    return clustered ? static_cast<int>(chunks) : 1;
  }
};
// A larger argument makes the kernel slower. Workaround nvcc-13.0-small-argument: see
// docs/tuning.md.
static_assert(sizeof(Generic) <= 128);

/// partitioned.cu counts one channel without gaps. Every block owns some of the bins.
struct Partitioned {
  const uint8_t* data; // aligned
  int64_t vec16s;
  unsigned head;   // elements before the first vec16
  unsigned ragged; // elements before the first and after the last vec16
  int64_t num_bins;
  uint32_t limit; // elements below it have a bin
  unsigned rounds;
  int64_t vec16s_of_tile; // that a block reads in a round
  // The product of a bin and `mixer` has the owner in its highest bits. The next bits are the bin's
  // number among those of the owner.
  unsigned log_owners;
  unsigned log_owned;
  uint32_t mixer;
  uint32_t unmixer; // the factor that turns owner and number, as one number, into the bin again
  int element_bytes;
};

struct CountPlan {
  std::variant<Interleaved, WholeRows, Planar, Clustered, Runs, Generic, Partitioned> layout;
  int64_t blocks;
  int threads;
  int cluster = 1;         // blocks of a cluster; 1: no clusters
  int64_t shared_bytes;    // of a block, for its table
  int64_t workspace_bytes; // for tables that are reduced later, or for buckets of other blocks
  int64_t reduce_blocks;   // 0: no reduction
  int reduce_words;        // words of each table that a block of the reduction sums
  bool clears;             // counts, or the words that blocks meet at, are zeroed first
  bool shares_lines;       // neighbouring blocks of rows.cu or interleaved.cu read the same lines

  int launches() const {
    return 1 + (reduce_blocks > 0) + clears;
  }
};

/// Makes the plan of a problem that has channels and rows.
CountPlan make_plan(
    const Problem& problem, const TableEntries& entries, const DeviceLimits& limits);

} // namespace histo::cuda
