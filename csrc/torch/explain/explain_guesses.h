// How the bins of a histogram are found: what the checks of its edges find on the CPU, or would
// find on a GPU.
#pragma once

#include <cstdint>
#include <vector>

#include "core/locate.h"
#include "cuda/plan/edge_plan.h"

namespace histo {

/// The first edge at which a guess is wrong.
struct WrongEdge {
  int64_t channel = -1; // -1: there is none
  int64_t edge = -1;
};

/// The bins of channels, parts of a channel or stripes of columns, which are all found alike.
struct FoundBins {
  const char* how; // "formula", "comparison", "cells", "search" or "nothing"
  int64_t count;   // how many they are
  WrongEdge affine;
  WrongEdge then_compare;
  int32_t buckets = 0;    // 0: not found by buckets
  bool over_bits = false; // the buckets are those of bits
  int64_t fullest = 0;    // thresholds in the fullest of all
};

/// The ways in which bins are found, and how many channels have no bins: their edges decrease or
/// hold NaN.
struct Findings {
  std::vector<FoundBins> ways;
  int64_t invalid_channels = 0;
};

/// On the CPU. `input` is the problem, with any number of counts.
Findings find_on_cpu(const Problem& input, const Edges& edges);

/// On a GPU, with this plan.
Findings find_on_gpu(const Problem& input, const Edges& edges, const cuda::EdgePlan& plan);

/// On a GPU, in short channels that share the edges.
Findings find_in_short_channels(const Problem& input, const Edges& edges);

} // namespace histo
