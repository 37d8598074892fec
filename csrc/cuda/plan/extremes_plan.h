// How a GPU finds the extremes of channels.
#pragma once

#include "cuda/plan/channels.h"
#include "cuda/plan/vec16s.h"
#include "cuda/policy_edges.h"

namespace histo::cuda {

/// Loads of a thread in flight, if it takes whole channels. The last ones come in shorter rounds.
constexpr int kRowsOfLastRound = 8;
constexpr int rows_of_round(int64_t element_bytes) {
  return element_bytes == 8 ? kRowsOfLastRound : 2 * kRowsOfLastRound;
}

enum class ExtremesLayout {
  kVec16s,  // channels in runs
  kColumns, // channels side by side
  kShort,   // short channels: a thread takes one, or those of a word
  kCounted, // few channels of bytes that are no runs: all bytes are counted
  kStrided, // element by element
};

/// Chunks of channels, which teams take: blocks, or some lanes of a warp.
struct Chunks {
  int64_t of_channel;
  int64_t share; // of a chunk: vec16s or rows
  int64_t count;
  unsigned lanes; // 0: teams are blocks
};

/// Channels that lie side by side are read in words, any others element by element.
struct ChannelWords {
  Extent channels[2];
  Extent rows[3]; // the longest loop is the last one
  int64_t words;  // of a batch
  bool are_words;

  HISTO_HOST_DEVICE int64_t places() const {
    return rows[0].size * rows[1].size;
  }
};

/// Teams find the extremes of chunks of a channel. A second kernel reduces these, unless each
/// channel has one chunk.
struct ExtremesPlan {
  ExtremesLayout layout;
  ChannelVec16s vec16s;
  ChannelStreams streams; // kStrided
  ChannelColumns columns;
  ChannelWords words;
  Chunks chunks; // kVec16s and kStrided
  int64_t blocks;
  int threads;

  /// Parts of a channel whose extremes lie in memory; one: it is the result.
  int64_t parts() const {
    switch (layout) {
      case ExtremesLayout::kColumns:
        return columns.chunks * (columns.columns / columns.channels);
      case ExtremesLayout::kShort:
      case ExtremesLayout::kCounted:
        return 1;
      default:
        return chunks.of_channel;
    }
  }
  bool of_warps() const {
    return chunks.lanes > 0;
  }
};

ExtremesPlan plan_extremes(const Problem& problem, const DeviceLimits& limits);

} // namespace histo::cuda
