#include "cuda/fill/weights_mixed.h"

#include "cuda/fill/weights_streams.cuh"

namespace histo::cuda {
namespace {

/// Values as float or double, which V has all numbers of.
template <class V>
void sum(const WeightStreams& in, const EdgeSum& call, const uint8_t* valid, const Launch& launch) {
  using Values = Untyped<V>;
  const auto with = [&](auto start) { start(in, call, valid, launch); };
  switch (word_kind(call.problem.operand(1).type)) {
    case WordKind::kInteger:
      return with(
          start_edge_sums<Values, Untyped<int64_t>, IntegerAdder, 1, kThreadsOfMixedWeights>);
    case WordKind::kFloat64:
      return with(
          start_edge_sums<Values, Typed<double, 4>, DoubleAdder, 1, kThreadsOfMixedWeights>);
    default:
      return with(start_edge_sums<Values, Untyped<float>, FloatAdder, 1, kThreadsOfMixedWeights>);
  }
}

} // namespace

void sum_mixed_streams(
    const WeightStreams& in, const EdgeSum& call, const uint8_t* valid, const Launch& launch) {
  const bool in_float = value_kind(call.problem.type) == WordKind::kFloat32;
  (in_float ? sum<float> : sum<double>)(in, call, valid, launch);
}

} // namespace histo::cuda
