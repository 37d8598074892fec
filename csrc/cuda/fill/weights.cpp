#include "cuda/fill/weights.h"

#include "cuda/count/dispatch.h"
#include "cuda/fill/fill.h"
#include "cuda/fill/warp_sums.h"
#include "cuda/storage/clear.h"

namespace histo::cuda {
namespace {

/// Counts in memory of its own, by count(problem of the input alone), and multiplies.
template <class F>
void sum_by_counts(const Problem& problem, double* rounded, const Launch& launch, const F& count) {
  Problem counted = problem;
  counted.num_operands = 1;
  counted.sum_size = 1;
  counted.counts =
      static_cast<int64_t*>(launch.allocate(problem.num_counts() * int64_t{sizeof(int64_t)}));
  count(counted);
  sum_equal_weights(problem, counted.counts, rounded, launch);
}

/// Calls add(layout of the plan). Clears the sums before, unless blocks write them as they are.
/// Rounds them afterwards, or makes them canonical.
template <class F>
void sum_by(
    const WeightsPlan& plan,
    const Problem& problem,
    double* rounded,
    const Launch& launch,
    const F& add) {
  const bool overlaps = launch.limits.has_clusters();
  if (!plan.writes()) {
    clear(launch, problem.counts, problem.num_results(), overlaps);
  }
  std::visit(add, plan.layout);
  if (rounded != nullptr) {
    round_sums(problem.counts, problem.num_counts(), problem.sum_size, rounded, launch, overlaps);
  } else if (!plan.writes() && problem.sum_size > 1) {
    normalize_sums(problem.counts, problem.num_counts(), problem.sum_size, launch, overlaps);
  }
}

} // namespace

void sum_weights_between(
    const Problem& problem,
    const Edges& edges,
    const Flow& flow,
    double* rounded,
    const Launch& launch) {
  if (has_one_weight_a_channel(problem.operand(1))) {
    return sum_by_counts(problem, rounded, launch, [&](const Problem& counted) {
      count_between(counted, edges, flow, launch);
    });
  }
  if (rounded != nullptr) {
    if (const auto plan = plan_warp_sums(problem, edges, launch.limits)) {
      return sum_in_warps(*plan, problem, edges, flow, rounded, launch);
    }
  }
  const WeightsPlan plan = plan_weights(problem, &edges, launch.limits);
  const EdgeSum call{plan, problem, edges, flow};
  sum_by(plan, problem, rounded, launch, [&](const auto& in) { sum_between(in, call, launch); });
}

void sum_weights_of_values(const Problem& problem, double* rounded, const Launch& launch) {
  if (has_one_weight_a_channel(problem.operand(1))) {
    return sum_by_counts(problem, rounded, launch, [&](const Problem& counted) {
      count(counted, ValueBinning{problem.num_bins}, launch);
    });
  }
  const WeightsPlan plan = plan_weights(problem, nullptr, launch.limits);
  sum_by(plan, problem, rounded, launch, [&](const auto& in) {
    sum_of_values(in, plan, problem, launch);
  });
}

} // namespace histo::cuda
