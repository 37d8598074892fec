// How a GPU counts numbers between edges: the plan, made on the host from the problem and the
// limits of the device alone.
#pragma once

#include "../../edges.h"
#include "../plan.h"

namespace histo::cuda {

/// A block counts rows of one channel, in all its bins, or in a part of them if they are too many
/// for one table.
struct ChannelStreams {
  Extent channels[2];
  Extent rows[3];
  int64_t num_rows;
  int64_t share;   // the rows of a block
  unsigned chunks; // of the rows of a channel; each has a block for each part of the bins
  unsigned parts;
  int64_t part_bins;
  bool has_runs;       // rows follow each other without gaps, in long runs
  unsigned log_copies; // of the table and of the thresholds, which lanes take in turns

  HISTO_HOST_DEVICE Edges part(const Edges& edges, unsigned index) const {
    const int64_t first_bin = index * part_bins, left = edges.bins - first_bin;
    return edges.part(first_bin, part_bins < left ? part_bins : left);
  }
};

/// The elements of a lane's word of a row.
constexpr int64_t elements_of_word(int64_t element_bytes) {
  return element_bytes < 4 ? 4 / element_bytes : 1;
}

/// Channels that lie side by side. A lane of a warp reads a word of each row, so that it has a
/// column, or two of 16 bits, of the table for itself.
struct ChannelColumns {
  int64_t batches;
  int64_t batch_stride; // elements
  int64_t channels;     // of a batch; column c belongs to channel c % channels
  int64_t columns;      // of a row
  int64_t rows;         // whole ones
  int64_t row_stride;
  int64_t left;       // elements behind the last row
  int64_t share;      // the rows of a block
  unsigned chunks;    // the blocks of a stripe of columns
  unsigned stripes;   // of a batch
  unsigned log_words; // of a stripe

  /// The channel of a column. Columns beyond the last, which fill the last stripe, have one, too.
  HISTO_HOST_DEVICE int64_t channel(int64_t batch, int64_t column) const {
    return batch * channels + column % channels;
  }
  /// The columns of a stripe.
  int64_t width(int64_t element_bytes) const {
    return elements_of_word(element_bytes) << log_words;
  }
};

/// Memory for the bins of all columns, which a kernel of its own finds. `parts` of the edges of a
/// column are checked by different blocks.
struct ColumnMemory {
  static constexpr int64_t kEdgesOfPart = 32;

  int64_t parts;
  int64_t line_bytes;
  int64_t threshold_bytes;
  int64_t check_bytes;

  int64_t bytes() const {
    return line_bytes + threshold_bytes + check_bytes;
  }
  static ColumnMemory of(const ChannelColumns& in, ElementType type, int64_t bins);
};

enum class EdgeLayout {
  kBytes, // types of one byte: raw bytes are counted, and their sums mapped to bins
  kStreams,
  kColumns,
  kScattered, // element by element, in the result itself
};

// Threads of a block of each layout. `element` is the size of an element in bytes.
constexpr int threads_of_streams(int64_t element) {
  return element == 8 ? 768 : 896;
}
constexpr int threads_of_columns(int64_t element, bool is_float) {
  return element == 2 && is_float ? 896 : 768;
}
constexpr int kThreadsOfBytes = 256; // each has a value
constexpr int kThreadsOfScattered = 1024;

struct EdgePlan {
  EdgeLayout layout;
  ChannelStreams streams;
  ChannelColumns columns;
  int64_t blocks;
  int threads;
  int64_t shared_bytes;
  bool clears;   // the counts are cleared by a kernel of their own, because blocks add to them
  bool overlaps; // the count starts before that kernel ends

  /// Whether a kernel of its own asks which channels have valid edges.
  bool checks_channels() const {
    return layout == EdgeLayout::kScattered || streams.parts > 1;
  }
};

EdgePlan plan_edges(const Problem& problem, const Edges& edges, const DeviceLimits& limits);

/// The same for the extremes of channels, which need no table.
EdgePlan plan_extremes(const Problem& problem, const DeviceLimits& limits);

} // namespace histo::cuda
