#include "cuda/plan/sketch_plan.h"

#include <algorithm>

#include "cuda/plan/edge_plan.h"
#include "cuda/plan/planners.h"

namespace histo::cuda {
namespace {

/// Tables of whole channels, if rows lie in runs and are enough for the counts.
bool plan_streams(
    const Problem& problem, int64_t counts, const DeviceLimits& limits, SketchPlan& plan) {
  const int64_t least = std::max(counts / kMostCountsPerElement, kMinRowsOfStream);
  const int64_t rows = problem.num_rows();
  plan.shared_bytes = words_of(counts, 0) * kCounterBytes;
  if (plan.shared_bytes + kReservedBytes > limits.shared_per_block || rows < least) {
    return false;
  }
  DeviceLimits at_once = limits; // blocks, in place of SMs
  at_once.sm_count *= static_cast<int>(std::clamp<int64_t>(
      limits.shared_per_sm / (plan.shared_bytes + kReservedBytes), 1, kBlocksOfSketch));
  plan.streams = streams_of(problem, 1, at_once);
  if (plan.streams.share < least) {
    plan.streams.share = least;
    plan.streams.chunks = static_cast<unsigned>(ceil_div(rows, least));
  }
  plan.layout = SketchLayout::kStreams;
  plan.blocks = problem.num_channels() * plan.streams.chunks;
  return plan.streams.has_runs;
}

} // namespace

SketchPlan plan_sketch(const Problem& problem, const SketchBins& bins, const DeviceLimits& limits) {
  SketchPlan plan{};
  const int64_t element_bytes = bytes_of_type(problem.type);
  if (element_bytes == 1 && problem.num_rows() >= kMinRowsOfByteTable) {
    plan.layout = SketchLayout::kBytes;
    plan.blocks = problem.num_channels();
    return plan;
  }
  if (element_bytes > 1 && plan_streams(problem, bins.num_counts(), limits, plan)) {
    return plan;
  }
  plan = SketchPlan{};
  plan.layout = SketchLayout::kTiles;
  const TableEntries entries{element_bytes, bins.num_counts(), false};
  plan.tiles = plan_generic_in_result({problem, entries, limits});
  plan.blocks = plan.tiles.blocks;
  plan.shared_bytes = plan.tiles.shared_bytes;
  return plan;
}

} // namespace histo::cuda
