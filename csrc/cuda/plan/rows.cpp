#include "cuda/plan/interleaved.h"

namespace histo::cuda {
namespace {

/// A block counts rows of one segment and one run. A column is a channel, and an entry is a bin.
bool are_whole_rows(const Request& request, const Geometry& geometry, const Partition& partition) {
  const RowLayout& rows = geometry.rows;
  return request.entries.bytes == 1 && request.entries.are_bins && rows.access == Access::kVec16 &&
         rows.run == 0 && rows.columns == geometry.channels.size && geometry.runs.outer.size == 1 &&
         !geometry.runs.in_one && partition.parts == partition.segments.count();
}

} // namespace

std::optional<CountPlan> plan_whole_rows(
    const Request& request, const Geometry& geometry, const Partition& partition) {
  if (!are_whole_rows(request, geometry, partition)) {
    return std::nullopt;
  }
  WholeRows in{};
  set_columns(in, request, geometry, partition, false);
  const unsigned chunk = rows_of_chunk(static_cast<unsigned>(geometry.table_columns));
  in.load_step = (kBanks >> in.log_lanes) * in.row_stride; // a warp reads neighbouring rows
  in.round_step =
      kBytesInFlight / kVec16Bytes * (partition.threads >> in.log_lanes) * in.row_stride;
  in.blocks_of_part = static_cast<unsigned>(partition.blocks_of_part);
  in.chunks = in.rows / chunk / in.blocks_of_part;
  in.blocks_with_more = in.rows / chunk % in.blocks_of_part;
  if (in.rows_of_block() > kMaxPacked16) {
    return std::nullopt;
  }
  CountPlan plan = plan_without_layout(
      request, geometry, partition, in, geometry.halved ? kHalfTableBytes : kByteTableBytes);
  plan.layout = in;
  return plan;
}

LayoutFacts facts_of(const WholeRows& in, const Problem& problem) {
  return facts_of_columns(
      in, {"rows", Access::kVec16, false, 1, in.rows_of_block(), true}, problem);
}

} // namespace histo::cuda
