#include "cuda/plan/summary_plan.h"

#include <algorithm>

#include "cuda/plan/common.h"

namespace histo::cuda {
namespace {

SummaryPlan plan_columns(const Problem& problem, const DeviceLimits& limits) {
  const int64_t element_bytes = bytes_of_type(problem.type);
  ChannelColumns in = columns_of(
      problem, bytes_of_word(element_bytes), kLogWordsOfSummary, kSetupOfSummaryColumns, limits);
  const int64_t width = in.width(static_cast<unsigned>(element_bytes));
  // A block adds so many elements to a channel for each row that it reads.
  const int64_t rows_of_channel = in.places() * ceil_div(width, in.channels);
  in.set_share(std::min(in.share, kMostRowsOfSummaryBlock / rows_of_channel));
  set_steps(in, threads_of_summary_columns(element_bytes));
  return {in, 0, in.blocks(), true};
}

/// The runs of a channel, if they are worth it.
std::optional<ChannelRuns> runs_of(const Problem& problem, unsigned chunks) {
  const auto in = vec16s_of(problem);
  const bool takes = in && in->run < problem.num_rows() &&
                     in->run * bytes_of_type(problem.type) >= kLeastRunOfSummary &&
                     in->run <= kMostRunOfSummary && in->vec16s() < kMaxRows;
  return takes ? std::optional(ChannelRuns{*in, ceil_div(in->vec16s(), int64_t{chunks}), chunks})
               : std::nullopt;
}

} // namespace

SummaryPlan plan_summary(const Problem& problem, const DeviceLimits& limits) {
  const int64_t element_bytes = bytes_of_type(problem.type);
  const int64_t rows = problem.num_rows();
  if (are_columns(problem, bytes_of_word(element_bytes)) ||
      (element_bytes > 1 && are_general_columns(problem))) {
    return plan_columns(problem, limits);
  }
  DeviceLimits at_once = limits; // several blocks share an SM
  at_once.sm_count *= summary_blocks_of_sm(element_bytes);
  ChannelStreams in = streams_of(problem, 1, at_once);
  const int64_t least =
      std::min(kMostRowsOfSummaryBlock, kLeastBytesOfSummaryBlock / element_bytes);
  in.set_share(std::max(std::min(in.share, kMostRowsOfSummaryBlock), std::min(rows, least)));
  SummaryPlan plan{
      in, rows <= kMostRowsOfWarp ? kThreadsOfWarpSummary : kThreadsOfSummary,
      problem.num_channels() * in.chunks, in.chunks > 1};
  if (const auto runs = runs_of(problem, in.chunks)) {
    plan.layout = *runs;
  }
  return plan;
}

} // namespace histo::cuda
