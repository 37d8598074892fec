#include "cuda/plan/summary_plan.h"

#include <algorithm>

#include "cuda/plan/common.h"

namespace histo::cuda {

SummaryPlan plan_summary(const Problem& problem, const DeviceLimits& limits) {
  const int64_t element_bytes = bytes_of_type(problem.type);
  const int64_t rows = problem.num_rows();
  SummaryPlan plan{};
  if (are_columns(problem, bytes_of_word(element_bytes)) ||
      (element_bytes > 1 && are_general_columns(problem))) {
    plan.layout = SummaryLayout::kColumns;
    plan.adds = true;
    plan.columns = columns_of(
        problem, bytes_of_word(element_bytes), kLogWordsOfSummary, kSetupOfSummaryColumns, limits);
    ChannelColumns& in = plan.columns;
    const int64_t width = in.width(static_cast<unsigned>(element_bytes));
    // That a block adds to a channel for each row of its share.
    const int64_t rows_of_channel = in.places() * ceil_div(width, in.channels);
    in.set_share(std::min(in.share, kMostRowsOfSummaryBlock / rows_of_channel));
    set_steps(in, threads_of_summary_columns(element_bytes));
    plan.blocks = in.blocks();
    return plan;
  }
  DeviceLimits at_once = limits; // several blocks share an SM
  at_once.sm_count *= summary_blocks_of_sm(element_bytes);
  plan.threads = rows <= kMostRowsOfWarp ? kThreadsOfWarpSummary : kThreadsOfSummary;
  plan.streams = streams_of(problem, 1, at_once);
  ChannelStreams& in = plan.streams;
  const int64_t least =
      std::min(kMostRowsOfSummaryBlock, kLeastBytesOfSummaryBlock / element_bytes);
  in.set_share(std::max(std::min(in.share, kMostRowsOfSummaryBlock), std::min(rows, least)));
  const auto vec16s = vec16s_of(problem);
  if (vec16s && vec16s->run < rows && vec16s->run * element_bytes >= kLeastRunOfSummary &&
      vec16s->run <= kMostRunOfSummary && vec16s->vec16s() < kMaxRows) {
    plan.layout = SummaryLayout::kRuns;
    plan.runs = {*vec16s, ceil_div(vec16s->vec16s(), int64_t{in.chunks}), in.chunks};
  }
  plan.blocks = problem.num_channels() * in.chunks;
  plan.adds = in.chunks > 1;
  return plan;
}

} // namespace histo::cuda
