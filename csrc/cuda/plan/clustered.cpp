#include "cuda/plan/interleaved.h"
#include "cuda/plan/planners.h"

namespace histo::cuda {
namespace {

bool lies_in_rows(const Request& request) {
  const auto& [problem, entries, limits] = request;
  const Extent& channels = problem.channels[1];
  const auto& [sets, outer, rows] = problem.rows;
  return entries.bytes == 1 && channels.stride == 1 && sets.size * outer.size == 1 &&
         rows.stride >= channels.size && rows.stride <= kMaxRowStride;
}

struct Clusters {
  int64_t groups;     // of columns
  int64_t segments;   // groups of all batches
  int64_t cluster;    // blocks of one
  int64_t of_segment; // clusters that share a segment
  int64_t share;      // rows of a block

  int64_t blocks() const {
    return segments * cluster * of_segment;
  }
};

/// Returns none if a block would read much more than with all SMs in use.
std::optional<Clusters> clusters_of(const Request& request) {
  const auto& [problem, entries, limits] = request;
  const auto& [batches, channels] = problem.channels;
  const int64_t rows = problem.rows[2].size;
  const int64_t groups = ceil_div(channels.size, kHalfColumns);
  const int64_t segments = groups * batches.size;
  const auto most = static_cast<int64_t>(kSmsInClusters * limits.sm_count);
  const int64_t cluster = power_of_two_below(std::clamp(most / segments, int64_t{1}, kMaxCluster));
  const int64_t bytes = bytes_of(request);
  const bool fills_tables = static_cast<double>(channels.size) >=
                            kEnoughFill * static_cast<double>(groups * kHalfColumns);
  if (!fills_tables || cluster == 1 || bytes < kMinBytesForClusters) {
    return std::nullopt;
  }
  const int64_t wanted = ceil_div(bytes, segments * cluster * kEnoughBytesOfClusteredBlock);
  const int64_t of_segment = std::min(wanted, most / (segments * cluster));
  const int64_t share = ceil_div(rows, cluster * of_segment * kClusteredRows) * kClusteredRows;
  const Clusters found{groups, segments, cluster, of_segment, share};
  const int64_t most_excess =
      of_segment == 1 || groups == 1 ? kMaxExcessOfClusteredBlock : kMaxExcessWhereItAdds;
  const bool is_balanced = bytes / found.blocks() - bytes / limits.sm_count <= most_excess;
  return is_balanced && share + 2 <= kMaxPacked16 ? std::optional(found) : std::nullopt;
}

Clustered layout_of(const Request& request, const Clusters& clusters) {
  const auto& [problem, entries, limits] = request;
  const auto& [batches, channels] = problem.channels;
  const Extent& rows = problem.rows[2];
  Clustered in{};
  in.data = static_cast<const uint8_t*>(problem.data);
  in.data_end = end_of(problem, entries.bytes);
  in.batch[0] = {1, 0};
  in.batch[1] = batches;
  in.row_stride = rows.stride;
  in.columns = in.channels = in.counted = channels.size;
  in.num_bins = problem.num_bins;
  in.rows = static_cast<unsigned>(rows.size);
  in.groups = static_cast<unsigned>(clusters.groups);
  in.batches = static_cast<unsigned>(batches.size);
  in.log_entry_words = log2_of(kHalfColumns / 2);
  in.table_entries = static_cast<unsigned>(entries.values);
  in.type = problem.type;
  in.adds = clusters.of_segment > 1 || !entries.are_bins;
  in.cleared = in.adds || problem.num_bins > in.table_entries;
  in.share = static_cast<unsigned>(clusters.share);
  const int64_t offsets = address_of(problem) | batches.stride | rows.stride | channels.size;
  in.access = offsets % 4 == 0 ? Access::kWord : Access::kLoose;
  return in;
}

} // namespace

std::optional<CountPlan> plan_clustered(const Request& request) {
  if (!request.limits.has_clusters() || !lies_in_rows(request)) {
    return std::nullopt;
  }
  const std::optional<Clusters> clusters = clusters_of(request);
  if (!clusters) {
    return std::nullopt;
  }
  const Clustered in = layout_of(request, *clusters);
  CountPlan plan{};
  plan.layout = in;
  plan.blocks = clusters->blocks();
  plan.threads = kClusteredThreads;
  plan.cluster = static_cast<int>(clusters->cluster);
  plan.shared_bytes = kHalfTableBytes;
  plan.clears = in.cleared;
  return plan;
}

LayoutFacts facts_of(const Clustered& in, const Problem& problem) {
  return facts_of_columns(in, {"clustered", in.access, false, 1, in.share, true}, problem);
}

} // namespace histo::cuda
