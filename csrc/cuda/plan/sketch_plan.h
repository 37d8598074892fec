// How a GPU adds to a quantile sketch: the plan, made on the host.
#pragma once

#include <variant>

#include "core/sketch.h"
#include "cuda/plan/channels.h"
#include "cuda/plan/layouts.h"
#include "cuda/policy_select.h"

namespace histo::cuda {

/// Types of one byte: raw bytes are counted, and their sums added.
struct SketchBytes {};

/// A block of ChannelStreams has a table of all counts of its channel. Generic adds few rows, any
/// strides, or more counts than a table has.
struct SketchPlan {
  std::variant<SketchBytes, ChannelStreams, Generic> layout;
  int64_t blocks;
  int threads;
  int64_t shared_bytes;
};

SketchPlan plan_sketch(const Problem& problem, const SketchBins& bins, const DeviceLimits& limits);

} // namespace histo::cuda
