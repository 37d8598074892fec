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
  std::visit([&](const auto& in) { add_layout(in, call, launch); }, plan.layout);
}

} // namespace histo::cuda
