// Sums of weights of streams whose bins are values.
#include "cuda/fill/weights_streams.cuh"

namespace histo::cuda {

namespace {

template <class Values>
void sum(const WeightsPlan& plan, const Problem& problem, const Launch& launch) {
  constexpr int kThreads = kThreadsOfMixedWeights;
  const auto with = [&](auto start) { start(plan, problem, launch); };
  switch (word_kind(problem.operand(1).type)) {
    case WordKind::kInteger:
      return with(start_value_sums<Values, Untyped<int64_t>, IntegerAdder, 1, kThreads>);
    case WordKind::kFloat64:
      return with(start_value_sums<Values, Typed<double, 4>, DoubleAdder, 1, kThreads>);
    case WordKind::kFloat32:
      return with(start_value_sums<Values, Untyped<float>, FloatAdder, 1, kThreads>);
  }
  no_kernel("sum_streams_of_values");
}

} // namespace

void sum_streams_of_values(const WeightsPlan& plan, const Problem& problem, const Launch& launch) {
  const auto with = [&](auto start) { start(plan, problem, launch); };
  const ElementType weight = problem.operand(1).type;
  if (!plan.streams.has_runs) {
    return sum<Untyped<int64_t, true>>(plan, problem, launch);
  }
  if (problem.type == ElementType::kInt64 && weight == ElementType::kFloat32) {
    return with(start_value_sums<Typed<int64_t, 4>, Typed<float, 4>, FloatAdder, 1>);
  }
  if (problem.type == ElementType::kInt64 && weight == ElementType::kBFloat16) {
    return with(start_value_sums<Typed<int64_t, 4>, Typed<BFloat16, 4>, SmallAdder, 1>);
  }
  sum<Untyped<int64_t>>(plan, problem, launch);
}

} // namespace histo::cuda
