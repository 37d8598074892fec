#include "cuda/plan/sketch_plan.h"

#include <algorithm>

#include "cuda/plan/edge_plan.h"
#include "cuda/plan/planners.h"

namespace histo::cuda {
namespace {

/// Tables of whole channels, if rows lie in runs and are enough for the counts.
std::optional<SketchPlan> plan_streams(
    const Problem& problem, int64_t counts, const DeviceLimits& limits) {
  const int64_t rows = problem.num_rows();
  const int64_t least = std::max(counts / kMostCountsPerElement, kMinRowsOfStream);
  const int64_t shared_bytes = words_of(counts, 0) * kCounterBytes;
  if (shared_bytes + kReservedBytes > limits.shared_per_block || rows < least) {
    return std::nullopt;
  }
  ChannelStreams in = streams_of(problem, 1, limits);
  const bool is_one_run = in.has_runs && problem.rows[2].size == rows;
  const bool is_long = is_one_run && in.share >= kElementsPerCountOfLong * counts;
  const int64_t fitting = limits.shared_per_sm / (shared_bytes + kReservedBytes);
  const bool is_short = !is_long && fitting >= kBlocksOfShortSketch;
  if (is_short) {
    DeviceLimits at_once = limits; // blocks, in place of SMs
    at_once.sm_count *= kBlocksOfShortSketch;
    in = streams_of(problem, 1, at_once);
  }
  in.set_share(std::max(in.share, least));
  const SketchPlan plan{
      in, problem.num_channels() * in.chunks,
      is_short ? kThreadsOfShortSketch : kThreadsOfLongSketch, shared_bytes};
  return in.has_runs ? std::optional(plan) : std::nullopt;
}

/// Tiles of channels that lie side by side have tables if these fit and are worth it.
CountPlan plan_tiles(const Request& request) {
  DeviceLimits limits = request.limits;
  limits.capability = std::min(limits.capability, 80); // clusters add nothing to other counts
  const CountPlan plan = plan_generic_in_large_tables({request.problem, request.entries, limits});
  const auto& in = std::get<Generic>(plan.layout);
  const bool is_worth = in.rows_per_chunk * kMostCountsPerElementOfTile >= request.problem.num_bins;
  return in.has_table() && !in.along_rows && is_worth && request.entries.bytes > 1
             ? plan
             : plan_generic_in_result(request);
}

} // namespace

SketchPlan plan_sketch(const Problem& problem, const SketchBins& bins, const DeviceLimits& limits) {
  const int64_t element_bytes = bytes_of_type(problem.type);
  if (element_bytes == 1 && problem.num_rows() >= kMinRowsOfByteTable) {
    return {SketchBytes{}, problem.num_channels(), kThreadsOfBytes, 0};
  }
  if (element_bytes > 1) {
    if (const auto streams = plan_streams(problem, bins.num_counts(), limits)) {
      return *streams;
    }
  }
  const TableEntries entries{element_bytes, bins.num_counts(), false};
  Problem adds = problem;
  adds.num_bins = bins.num_counts();
  adds.adds = true; // to the state of the sketch
  const CountPlan tiles = plan_tiles({adds, entries, limits});
  return {std::get<Generic>(tiles.layout), tiles.blocks, tiles.threads, tiles.shared_bytes};
}

} // namespace histo::cuda
