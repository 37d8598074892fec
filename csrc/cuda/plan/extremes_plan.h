// How a GPU finds the extremes of channels.
#pragma once

#include <variant>

#include "cuda/plan/channels.h"
#include "cuda/plan/vec16s.h"
#include "cuda/policy_edges.h"

namespace histo::cuda {

/// Loads of a thread in flight, if it takes whole channels. The last ones come in shorter rounds.
constexpr int kRowsOfLastRound = 8;
constexpr int rows_of_round(int64_t element_bytes) {
  return element_bytes == 8 ? kRowsOfLastRound : 2 * kRowsOfLastRound;
}

/// Chunks of channels, which teams take: blocks, or some lanes of a warp.
struct Chunks {
  int64_t of_channel;
  int64_t share; // of a chunk: vec16s or rows
  int64_t count;
  unsigned lanes; // 0: teams are blocks

  bool of_warps() const {
    return lanes > 0;
  }
  int64_t blocks() const {
    return ceil_div(count, of_warps() ? kThreadsOfExtremes / lanes : 1);
  }
};

/// Channels in runs.
struct ChunkedVec16s {
  ChannelVec16s vec16s;
  Chunks chunks;
};

/// Channels of any strides, element by element.
struct ChunkedStreams {
  ChannelStreams streams;
  Chunks chunks;
};

/// Short channels: a thread takes one, or those of a word. Channels that lie side by side are read
/// in words, any others element by element.
struct ChannelWords {
  Extent channels[2];
  Extent rows[3]; // the longest loop is the last one
  int64_t words;  // of a batch
  bool are_words;

  HISTO_HOST_DEVICE int64_t places() const {
    return rows[0].size * rows[1].size;
  }
  int64_t blocks() const {
    return ceil_div(channels[0].size * words, kThreadsOfExtremes);
  }
};

/// Few channels of bytes that do not lie in runs: all bytes are counted.
struct CountedBytes {};

/// ChannelColumns are channels side by side. A kernel finds the extremes of parts of a channel, and
/// a second one reduces these, unless each channel is one part.
struct ExtremesPlan {
  std::variant<ChunkedVec16s, ChunkedStreams, ChannelColumns, ChannelWords, CountedBytes> layout;
  int64_t parts; // of a channel
};

ExtremesPlan plan_extremes(const Problem& problem, const DeviceLimits& limits);

} // namespace histo::cuda
