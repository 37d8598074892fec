// Sums of weights between edges, for the types that are most frequent. weights_mixed.cu has others.
#include "cuda/fill/fill.h"
#include "cuda/fill/weights_mixed.h"
#include "cuda/fill/weights_streams.cuh"

namespace histo::cuda {

void sum_streams_between(
    const WeightsPlan& plan,
    const Problem& problem,
    const Edges& edges,
    const Flow& flow,
    const Launch& launch) {
  const uint8_t* valid =
      plan.streams.parts > 1 ? check_channels(edges, problem.num_channels(), launch) : nullptr;
  const auto with = [&](auto sum) { sum(plan, problem, edges, flow, valid, launch); };
  const ElementType type = problem.type;
  if (type != problem.operand(1).type || !plan.streams.has_runs) {
    return sum_mixed_streams(plan, problem, edges, flow, valid, launch);
  }
  switch (type) {
    case ElementType::kFloat32:
      return with(start_edge_sums<Typed<float, 4>, Typed<float, 4>, FloatAdder, 1>);
    case ElementType::kBFloat16:
      return with(start_edge_sums<Typed<BFloat16, 8>, Typed<BFloat16, 8>, SmallAdder, 1>);
    case ElementType::kFloat16:
      return with(start_edge_sums<Typed<Float16, 8>, Typed<Float16, 8>, SmallAdder, 1>);
    case ElementType::kFloat64:
      return with(start_edge_sums<Typed<double, 2>, Typed<double, 2>, DoubleAdder, 2>);
    default:
      return sum_mixed_streams(plan, problem, edges, flow, valid, launch);
  }
}

} // namespace histo::cuda
