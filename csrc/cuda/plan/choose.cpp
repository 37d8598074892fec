// Which layout counts a problem.
#include "cuda/plan/facts.h"
#include "cuda/plan/interleaved.h"
#include "cuda/plan/planners.h"

namespace histo::cuda {
namespace {

/// Rows with small gaps. The gaps are read too, as channels without counts.
std::optional<CountPlan> plan_with_gaps(const Request& request, bool in_runs) {
  const Problem& problem = request.problem;
  const int64_t size = request.entries.bytes;
  const auto& [outer_channels, inner_channels] = problem.channels;
  const Extent& rows = problem.rows[2];
  const bool one = one_after_another(problem);
  const int64_t channels = one ? 1 : inner_channels.size;
  const int64_t gap = rows.stride - channels;
  const bool little =
      one ? size == 1 && rows.stride <= kMaxGapOfOneChannel : is_little(gap, channels, size);
  // Few channels of wider types are counted sooner in runs.
  if (rows.size == 1 || gap <= 0 || !little ||
      (size > 1 && rows.stride <= kMaxChannelsAddedByBlock) ||
      (one ? outer_channels.size > 1 : inner_channels.stride != 1)) {
    return std::nullopt;
  }
  Problem wider = problem;
  wider.channels[0] = one ? inner_channels : outer_channels;
  wider.channels[1] = {rows.stride, 1};
  return plan_interleaved({wider, request.entries, request.limits}, {in_runs, gap});
}

/// A plan that reads the gaps between rows too, if that is better.
std::optional<CountPlan> plan_with_or_without_gaps(const Request& request, bool in_runs) {
  const Problem& problem = request.problem;
  std::optional<CountPlan> plan = plan_interleaved(request, {in_runs, 0});
  const auto gains = [&] {
    const auto* in = std::get_if<Interleaved>(&plan->layout);
    return in != nullptr && in->access == Access::kLoose &&
           static_cast<double>(problem.rows[2].stride) <=
               kMostStrideWithGaps * static_cast<double>(problem.channels[1].size);
  };
  if (!plan || gains()) {
    if (std::optional<CountPlan> wider = plan_with_gaps(request, in_runs)) {
      return wider;
    }
  }
  return plan;
}

/// The same for gaps between rows and between runs of rows.
std::optional<CountPlan> plan_side_by_side(const Request& request) {
  const Extent& rows = request.problem.rows[2];
  std::optional<CountPlan> run_by_run = plan_with_or_without_gaps(request, false);
  if (request.problem.num_rows() == rows.size) {
    return run_by_run;
  }
  std::optional<CountPlan> in_runs = plan_with_or_without_gaps(request, true);
  if (!run_by_run || !in_runs) {
    return run_by_run ? run_by_run : in_runs;
  }
  const auto* one = std::get_if<Interleaved>(&run_by_run->layout);
  const auto& other = std::get<Interleaved>(in_runs->layout);
  const int64_t run_bytes = rows.size * rows.stride * request.entries.bytes;
  const int64_t tables_of_row = ceil_div(other.channels, other.group_columns);
  const bool short_runs = run_bytes < kLongRunOfRows * tables_of_row;
  return short_runs || (one != nullptr && one->access == Access::kLoose) ? in_runs : run_by_run;
}

/// A plan of columns that is faster than one of clusters.
bool prefer_columns_to_clusters(const CountPlan& plan, const Request& request) {
  const auto* in = std::get_if<WholeRows>(&plan.layout);
  return in != nullptr && in->group_columns == kHalfColumns &&
         (in->segments() <= kMostSegmentsOfRows || bytes_of(request) > kMaxBytesForClusters);
}

/// From this number of bytes on, runs are counted sooner by interleaved.cu and planar.cu, which
/// stop at the end of each.
int64_t long_run_of(const ColumnLayout& in, int64_t size) {
  return size > 1           ? kLongRunOfWiderTypes
         : in.channels == 1 ? kLongRunOfOneChannel
         : in.groups > 1    ? 2 * kLongRun
                            : kLongRun;
}

/// Whether runs or segments are so short that runs.cu counts them sooner.
bool prefer_runs(const Interleaved& in, const Request& request) {
  const int64_t size = request.entries.bytes;
  const bool one_channel = in.channels == 1;
  const int64_t run_bytes = in.is_stream() ? in.run * size : in.rows * in.row_stride;
  const bool has_copies = 2 * in.channels <= int64_t{in.packed16 ? 2 : 1} << in.log_entry_words;
  const bool short_segments =
      has_copies && in.batches > static_cast<unsigned>(request.limits.sm_count) &&
      in.outer.size * run_bytes <= (one_channel ? kLongSegmentOfOneChannel : kLongSegment);
  return (in.outer.size > 1 && run_bytes < long_run_of(in, size)) || short_segments ||
         (size > 1 && in.channels <= kMaxChannelsAddedByBlock && !one_channel);
}

bool prefer_runs(const CountPlan& plan, const Request& request) {
  if (const auto* in = std::get_if<Interleaved>(&plan.layout)) {
    return prefer_runs(*in, request);
  }
  const auto* in = std::get_if<Planar>(&plan.layout);
  return in != nullptr && in->outer.size > 1 && in->run < long_run_of(*in, 1);
}

/// Whether the plan is faster than one of generic.cu, which has no workspace.
bool prefer_runs_to_generic(const CountPlan& plan, const Request& request) {
  const auto& in = std::get<Runs>(plan.layout);
  return bytes_of(request) >= kMinBytesForRuns &&
         (in.tables > 0 || request.problem.num_rows() >= kMinRowsPerBinOfRuns * in.table_entries);
}

} // namespace

CountPlan make_plan(
    const Problem& problem, const TableEntries& entries, const DeviceLimits& limits) {
  const Request request{problem, entries, limits};
  // Elements side by side are counted fastest. generic.cu counts everything.
  const std::optional<CountPlan> columns = plan_side_by_side(request);
  if (columns && prefer_columns_to_clusters(*columns, request)) {
    return *columns;
  }
  if (const std::optional<CountPlan> clustered = plan_clustered(request)) {
    return *clustered;
  }
  if (!columns || prefer_runs(*columns, request)) {
    const std::optional<CountPlan> runs = plan_runs(request);
    if (runs && (columns || prefer_runs_to_generic(*runs, request))) {
      return *runs;
    }
  }
  if (columns) {
    return *columns;
  }
  const std::optional<CountPlan> partitioned = plan_partitioned(request);
  return partitioned ? *partitioned : plan_generic(request);
}

const char* name_of(Access access) {
  switch (access) {
    case Access::kVec16:
      return "16 bytes";
    case Access::kWord:
      return "words";
    case Access::kLoose:
      return "words put together";
  }
  throw InternalError("an access without a name");
}

PlanFacts facts_of(const CountPlan& plan, const Problem& problem) {
  LayoutFacts of_layout =
      std::visit([&](const auto& layout) { return facts_of(layout, problem); }, plan.layout);
  of_layout.table.emplace_back("shared_bytes", plan.shared_bytes);
  PlanFacts facts{{}, {}, plan.workspace_bytes, of_layout.bytes_of_gaps};
  if (plan.clears) {
    facts.steps.emplace_back("zeroing");
  }
  facts.steps.push_back(of_layout.kernel);
  if (plan.reduce_blocks > 0) {
    const bool of_rows = std::holds_alternative<WholeRows>(plan.layout);
    facts.steps.emplace_back(of_rows ? "reduce_rows" : "reduce_columns");
  }
  facts.groups = {
      {"layout", of_layout.layout},
      {"table", of_layout.table},
      {"grid", Facts{
                   {"blocks", plan.blocks},
                   {"threads", plan.threads},
                   {"cluster", plan.cluster},
                   {"reduce_blocks", plan.reduce_blocks},
                   {"clears_counts", plan.clears},
                   {"shares_lines", plan.shares_lines}}}};
  return facts;
}

} // namespace histo::cuda
