// How a GPU adds to a quantile sketch: the plan, made on the host.
#pragma once

#include "core/sketch.h"
#include "cuda/plan/channels.h"
#include "cuda/plan/layouts.h"

namespace histo::cuda {

// --- Quantile sketches (sketch.cu) -------------------------------------------------------

// A block that has a table of one channel. Several blocks share an SM, so that one counts while
// another clears or adds its table.
constexpr int kThreadsOfSketch = 384;
constexpr int64_t kBlocksOfSketch = 2;
// A block counts in a table if it has at least one element for so many counts, or else in the
// result.
constexpr int64_t kMostCountsPerElement = 4;
constexpr int kThreadsOfSketchQuantile = 1024;

enum class SketchLayout {
  kBytes,   // types of one byte: raw bytes are counted, and their sums added
  kStreams, // a block has rows of one channel, and a table of all its counts
  kTiles,   // of few rows, of any strides, or of more counts than a table has: in the result
};

struct SketchPlan {
  SketchLayout layout;
  ChannelStreams streams;
  CountPlan tiles; // its layout is Generic
  int64_t blocks;
  int64_t shared_bytes;
};

SketchPlan plan_sketch(const Problem& problem, const SketchBins& bins, const DeviceLimits& limits);

} // namespace histo::cuda
