// Sums of weights between edges, for the types that are most frequent. weights_mixed.cu has others.
#include "cuda/fill/fill.h"
#include "cuda/fill/weights_mixed.h"
#include "cuda/fill/weights_streams.cuh"

namespace histo::cuda {

void sum_between(const WeightStreams& in, const EdgeSum& call, const Launch& launch) {
  const Problem& problem = call.problem;
  const uint8_t* valid =
      in.parts > 1 ? check_channels(call.edges, problem.num_channels(), launch) : nullptr;
  const auto with = [&](auto sum) { sum(in, call, valid, launch); };
  const ElementType type = problem.type, weight = problem.operand(1).type;
  const auto are = [&](ElementType of_values, ElementType of_weights) {
    return in.has_runs && type == of_values && weight == of_weights;
  };
  constexpr auto kFloat32 = ElementType::kFloat32, kFloat64 = ElementType::kFloat64;
  constexpr auto kFloat16 = ElementType::kFloat16, kBFloat16 = ElementType::kBFloat16;
  if (are(kFloat32, kFloat32)) {
    return with(start_edge_sums<Typed<float, 4>, Typed<float, 4>, FloatAdder, 1>);
  }
  if (are(kFloat32, kBFloat16)) {
    return with(start_edge_sums<Typed<float, 4>, Typed<BFloat16, 4>, SmallAdder, 1>);
  }
  if (are(kFloat32, kFloat16)) {
    return with(start_edge_sums<Typed<float, 4>, Typed<Float16, 4>, SmallAdder, 1>);
  }
  if (are(kBFloat16, kFloat32)) {
    return with(start_edge_sums<Typed<BFloat16, 4>, Typed<float, 4>, FloatAdder, 1>);
  }
  if (are(kFloat16, kFloat32)) {
    return with(start_edge_sums<Typed<Float16, 4>, Typed<float, 4>, FloatAdder, 1>);
  }
  if (are(kBFloat16, kBFloat16)) {
    return with(start_edge_sums<Typed<BFloat16, 8>, Typed<BFloat16, 8>, SmallAdder, 1>);
  }
  if (are(kFloat16, kFloat16)) {
    return with(start_edge_sums<Typed<Float16, 8>, Typed<Float16, 8>, SmallAdder, 1>);
  }
  if (are(kFloat64, kFloat64)) {
    return with(start_edge_sums<Typed<double, 2>, Typed<double, 2>, DoubleAdder, 2>);
  }
  sum_mixed_streams(in, call, valid, launch);
}

} // namespace histo::cuda
