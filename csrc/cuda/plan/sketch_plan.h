// How a GPU adds to a quantile sketch: the plan, made on the host.
#pragma once

#include "core/sketch.h"
#include "cuda/plan/channels.h"
#include "cuda/plan/layouts.h"
#include "cuda/policy_select.h"

namespace histo::cuda {

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
  int threads;
  int64_t shared_bytes;
};

SketchPlan plan_sketch(const Problem& problem, const SketchBins& bins, const DeviceLimits& limits);

} // namespace histo::cuda
