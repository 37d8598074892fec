// Quantile sketches on a GPU.
#pragma once

#include "core/sketch.h"
#include "cuda/launch.h"
#include "cuda/plan/sketch_plan.h"

namespace histo::cuda {

/// Adds counts and extremes to the state of a sketch.
void add_to_sketch(
    const Problem& input, const SketchBins& bins, const SketchState& to, const Launch& launch);

/// Writes the quantiles of a sketch.
void sketch_quantiles(const SketchQuantiles& call, const Launch& launch);

/// The counters of a sketch, as atomics take them.
struct SketchCounters {
  Count::Total* counts; // [channels, num_counts]
  long long* min_keys;  // [channels]
  long long* max_keys;
  int64_t num_counts;
};

/// An input that is added to a sketch.
struct SketchAdd {
  const SketchPlan& plan;
  const Problem& input;
  const SketchBins& bins;
  SketchCounters to;
};

// The layouts of SketchPlan.
void add_layout(const SketchBytes& in, const SketchAdd& call, const Launch& launch);
void add_layout(const ChannelStreams& in, const SketchAdd& call, const Launch& launch);
void add_layout(const Generic& in, const SketchAdd& call, const Launch& launch);

} // namespace histo::cuda
