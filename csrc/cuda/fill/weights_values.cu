// Sums of weights of streams whose bins are values.
#include "cuda/fill/weights_streams.cuh"

namespace histo::cuda {

void sum_of_values(
    const WeightStreams& in,
    const WeightsPlan& plan,
    const Problem& problem,
    const Launch& launch) {
  const auto with = [&](auto start) { start(in, plan, problem, launch); };
  const ElementType weight = problem.operand(1).type;
  const bool is_typed = problem.type == ElementType::kInt64 && in.has_runs;
  if (is_typed && weight == ElementType::kFloat32) {
    return with(start_value_sums<Typed<int64_t, 4>, Typed<float, 4>, FloatAdder, 1>);
  }
  if (is_typed && weight == ElementType::kBFloat16) {
    return with(start_value_sums<Typed<int64_t, 4>, Typed<BFloat16, 4>, SmallAdder, 1>);
  }
  switch (word_kind(weight)) {
    case WordKind::kInteger:
      return with(
          start_value_sums<
              Untyped<int64_t>, Untyped<int64_t>, IntegerAdder, 1, kThreadsOfMixedWeights>);
    case WordKind::kFloat64:
      return with(
          start_value_sums<
              Untyped<int64_t>, Typed<double, 4>, DoubleAdder, 1, kThreadsOfMixedWeights>);
    default:
      return with(
          start_value_sums<
              Untyped<int64_t>, Untyped<float>, FloatAdder, 1, kThreadsOfMixedWeights>);
  }
}

} // namespace histo::cuda
