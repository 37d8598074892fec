#include "cuda/fill/sketch.h"

namespace histo::cuda {

void add_to_sketch(
    const Problem& input, const SketchBins& bins, const SketchState& to, const Launch& launch) {
  if (input.num_channels() * input.num_rows() == 0) {
    return;
  }
  const SketchPlan plan = plan_sketch(input, bins, launch.limits);
  const SketchAdd call{
      plan,
      input,
      bins,
      {reinterpret_cast<Count::Total*>(to.counts), reinterpret_cast<long long*>(to.min_key),
       reinterpret_cast<long long*>(to.max_key), bins.num_counts()}};
  switch (plan.layout) {
    case SketchLayout::kBytes:
      return add_bytes_to_sketch(call, launch);
    case SketchLayout::kStreams:
      return add_streams_to_sketch(call, launch);
    case SketchLayout::kTiles:
      return add_tiles_to_sketch(call, launch);
  }
  no_kernel("add_to_sketch");
}

} // namespace histo::cuda
