// How a GPU finds the extremes of channels.
#pragma once

#include "cuda/plan/channels.h"
#include "cuda/plan/vec16s.h"

namespace histo::cuda {

enum class ExtremesLayout {
  kVec16s,  // channels in runs
  kColumns, // channels side by side
  kStrided, // element by element
};

/// Blocks find the extremes of chunks of a channel. A second kernel reduces these, unless each
/// channel has one chunk.
struct ExtremesPlan {
  ExtremesLayout layout;
  ChannelVec16s vec16s;
  ChannelStreams streams; // kStrided
  ChannelColumns columns;
  bool of_warps; // a warp takes a channel
  int64_t chunks;
  int64_t share; // of a chunk: vec16s or rows
  int64_t blocks;
  int threads;

  /// Parts of a channel whose extremes lie in memory; one: it is the result.
  int64_t parts() const {
    return layout == ExtremesLayout::kColumns ? chunks * (columns.columns / columns.channels)
                                              : chunks;
  }
};

ExtremesPlan plan_extremes(const Problem& problem, const DeviceLimits& limits);

} // namespace histo::cuda
