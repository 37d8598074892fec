// How blocks share the elements of channels, whatever they do with them.
#pragma once

#include <algorithm>

#include "cuda/plan/layouts.h"

namespace histo::cuda {

/// A block has rows of one channel.
struct ChannelStreams {
  Extent channels[2];
  Extent rows[3];
  int64_t num_rows;
  int64_t share;   // the rows of a block
  unsigned chunks; // of the rows of a channel
  bool has_runs;   // rows follow each other without gaps, in long runs

  void set_share(int64_t rows_of_block) {
    share = rows_of_block;
    chunks = static_cast<unsigned>(ceil_div(num_rows, share));
  }
};

/// Blocks take the items of a channel in turns: vec16s, or else elements. They lie in spans, the
/// innermost loops of its rows.
struct ChannelSpans {
  Extent channels[2];
  Extent outer[2];       // loops over spans
  int64_t stride;        // of elements
  unsigned rows_of_span; // elements
  unsigned spans;        // of a channel
  unsigned length;       // items of a span
  unsigned items;        // of a channel. A single span may begin within a vec16, and have one less
  unsigned chunks;       // the blocks of a channel
  bool has_vec16s;
};

/// The bytes that a lane reads of a row: those of one element, or of several small ones.
constexpr int64_t bytes_of_word(int64_t element_bytes) {
  return element_bytes < 4 ? 4 : element_bytes;
}
/// Channels that lie side by side. A lane of a warp reads a word of each row, so that it has the
/// columns of this word for itself.
struct ChannelColumns {
  int64_t batches;
  int64_t batch_stride; // elements
  int64_t channels;     // of a batch; column c belongs to channel c % channels
  int64_t columns;      // of a row
  int64_t rows;         // whole ones
  int64_t row_stride;
  int64_t left;        // elements behind the last row
  int64_t share;       // the rows of a block
  unsigned chunks;     // the blocks of a stripe of columns
  unsigned stripes;    // of a batch
  unsigned log_words;  // of a stripe
  unsigned word_bytes; // `bytes_of_word`, or more

  // If rows lie in several loops, `rows` are those of the longest one. At each place in the other
  // loops a block has items: every `steps`th of its rows.
  Extent runs[2];
  unsigned steps;
  bool loose; // words need not be aligned, and the last one of a row need not be whole

  /// Whether walk/general_columns.cuh reads them.
  HISTO_HOST_DEVICE bool are_general() const {
    return loose || places() > 1;
  }
  HISTO_HOST_DEVICE unsigned places() const {
    return static_cast<unsigned>(runs[0].size * runs[1].size);
  }
  HISTO_HOST_DEVICE unsigned items() const {
    return places() * steps;
  }
  int64_t blocks() const {
    return batches * stripes * chunks;
  }
  /// Sets the rows of a block. If there are no whole rows, one block counts the elements left.
  void set_share(int64_t rows_of_block) {
    share = std::max<int64_t>(rows_of_block, 1);
    chunks = static_cast<unsigned>(std::max<int64_t>(ceil_div(rows, share), 1));
  }
  /// The channel of a column. Columns beyond the last, which fill the last stripe, have one, too.
  HISTO_HOST_DEVICE int64_t channel(int64_t batch, int64_t column) const {
    return batch * channels + column % channels;
  }
  /// The columns of a stripe.
  HISTO_HOST_DEVICE unsigned width(unsigned element_bytes) const {
    return word_bytes / element_bytes << log_words;
  }
  /// How full stripes are: the columns divided by those that they have room for.
  double fill(int64_t element_bytes) const {
    const int64_t room = int64_t{stripes} * width(static_cast<unsigned>(element_bytes));
    return static_cast<double>(columns) / static_cast<double>(room);
  }
};

/// `others`: how many blocks share the same rows. Setting a block out takes as long as reading
/// `setup_bytes`.
ChannelStreams streams_of(
    const Problem& problem,
    int64_t others,
    const DeviceLimits& limits,
    int64_t setup_bytes = kSetupBytes);

/// For channels of fewer than 2^31 rows, `chunks` blocks each.
ChannelSpans spans_of(const Problem& problem, unsigned chunks);

/// Whether channels lie side by side, in rows of one loop that consist of words.
bool are_columns(const Problem& problem, int64_t word_bytes);

/// Whether channels lie side by side in rows of any loops, in words that need not be aligned.
bool are_general_columns(const Problem& problem);

/// Sets the steps of general columns that a block reads with `threads`.
void set_steps(ChannelColumns& in, int64_t threads);

/// Stripes of 2^log_words words of columns that are not joined, without shares of their rows.
ChannelColumns stripes_of(const Problem& problem, int64_t word_bytes, unsigned log_words);

/// Stripes of 2^log_words words. Setting a block out takes as long as reading `setup_bytes`. `joins`:
/// dense rows may be joined.
ChannelColumns columns_of(
    const Problem& problem,
    int64_t word_bytes,
    unsigned log_words,
    int64_t setup_bytes,
    const DeviceLimits& limits,
    bool joins = true);

} // namespace histo::cuda
