#include "cuda/fill/weights_mixed.h"

#include "cuda/fill/weights_streams.cuh"

namespace histo::cuda {
namespace {

/// Values as float or double, which `Values` have all numbers of.
template <class Values>
void sum(
    const WeightsPlan& plan,
    const Problem& problem,
    const Edges& edges,
    const Flow& flow,
    const uint8_t* valid,
    const Launch& launch) {
  constexpr int kThreads = kThreadsOfMixedWeights;
  const auto with = [&](auto start) { start(plan, problem, edges, flow, valid, launch); };
  switch (word_kind(problem.operand(1).type)) {
    case WordKind::kInteger:
      return with(start_edge_sums<Values, Untyped<int64_t>, IntegerAdder, 1, kThreads>);
    case WordKind::kFloat64:
      return with(start_edge_sums<Values, Typed<double, 4>, DoubleAdder, 1, kThreads>);
    case WordKind::kFloat32:
      return with(start_edge_sums<Values, Untyped<float>, FloatAdder, 1, kThreads>);
  }
  no_kernel("sum_mixed_streams");
}

} // namespace

void sum_mixed_streams(
    const WeightsPlan& plan,
    const Problem& problem,
    const Edges& edges,
    const Flow& flow,
    const uint8_t* valid,
    const Launch& launch) {
  const auto with = [&](auto sum) { sum(plan, problem, edges, flow, valid, launch); };
  if (!plan.streams.has_runs) {
    with(sum<Untyped<double, true>>); // which has all floats, too
  } else if (value_kind(problem.type) == WordKind::kFloat32) {
    with(sum<Untyped<float>>);
  } else {
    with(sum<Untyped<double>>);
  }
}

} // namespace histo::cuda
