#include "cuda/plan/interleaved.h"

namespace histo::cuda {

CountPlan plan_planar(
    const Request& request, const Geometry& geometry, const Partition& partition) {
  Planar in{};
  set_columns(in, request, geometry, partition, true);
  in.outer = geometry.runs.outer;
  in.run = geometry.rows.run;
  in.segment_rows = static_cast<unsigned>(partition.segments.rows);
  in.part_rows = static_cast<unsigned>(partition.part_rows);
  in.share = static_cast<unsigned>(partition.share);
  in.in_turn = geometry.in_turn;
  CountPlan plan = plan_without_layout(request, geometry, partition, in, kByteTableBytes);
  plan.layout = in;
  return plan;
}

LayoutFacts facts_of(const Planar& in, const Problem& problem) {
  return facts_of_columns(
      in, {"planar", Access::kVec16, true, in.outer.size, in.share, in.channels > 1}, problem);
}

} // namespace histo::cuda
