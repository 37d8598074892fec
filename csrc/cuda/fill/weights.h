// Exact sums of weights by bin on a GPU. Operand 0 of a problem is the input, and operand 1 are the
// weights. The result has problem.sum_size numbers for each bin (core/weights.h).
#pragma once

#include "core/edges.h"
#include "core/weights.h"
#include "cuda/launch.h"
#include "cuda/plan/weights_plan.h"

namespace histo::cuda {

/// `rounded`: where digits are rounded to. If it is null, they become canonical.
void sum_weights_between(
    const Problem& problem,
    const Edges& edges,
    const Flow& flow,
    double* rounded,
    const Launch& launch);
/// Value v is in bin v, below problem.num_bins.
void sum_weights_of_values(const Problem& problem, double* rounded, const Launch& launch);

/// Rounds the sums of floats, which need not be canonical, once. `overlaps`: it starts before the
/// kernel before has ended.
void round_sums(
    const int64_t* digits,
    int64_t bins,
    int size,
    double* sums,
    const Launch& launch,
    bool overlaps = false);
/// Makes digits canonical, in place.
void normalize_sums(
    int64_t* digits, int64_t bins, int size, const Launch& launch, bool overlaps = false);

/// Writes to each element of operand 1 what `gradient`, [channels, problem.num_bins], has for its
/// bin, and 0 where it has none.
void weight_gradient_between(
    const Problem& problem,
    const Edges& edges,
    const Flow& flow,
    const double* gradient,
    const Launch& launch);
void weight_gradient_of_values(
    const Problem& problem, const double* gradient, const Launch& launch);

/// A sum of weights, and its plan. The result is cleared before, unless blocks write it.
struct EdgeSum {
  const WeightsPlan& plan;
  const Problem& problem;
  const Edges& edges;
  const Flow& flow;
};

// The layouts of WeightsPlan.
void sum_between(const WeightStreams& in, const EdgeSum& call, const Launch& launch);
void sum_between(const WeightColumns& in, const EdgeSum& call, const Launch& launch);
void sum_between(const WeightTiles& in, const EdgeSum& call, const Launch& launch);

// The same for values that are bins.
void sum_of_values(
    const WeightStreams& in, const WeightsPlan& plan, const Problem& problem, const Launch& launch);
void sum_of_values(
    const WeightColumns& in, const WeightsPlan& plan, const Problem& problem, const Launch& launch);
void sum_of_values(
    const WeightTiles& in, const WeightsPlan& plan, const Problem& problem, const Launch& launch);

/// The sums of weights that are the same for all elements of a channel, by the counts of its bins:
/// rounded ones, or digits.
void sum_equal_weights(
    const Problem& problem, const int64_t* counts, double* rounded, const Launch& launch);

} // namespace histo::cuda
