// The CPU kernels.
#pragma once

#include "core/axis.h"
#include "core/edges.h"
#include "core/joint.h"
#include "core/moments.h"
#include "core/problem.h"
#include "core/ranks.h"
#include "core/sketch.h"
#include "core/uniform_edges.h"
#include "cpu/count/pattern_axis.h"

namespace histo::cpu {

/// One thread, one element after another: the definition of the answer. It is instantiated for
/// every binning.
template <class Binning>
void sequential(const Problem& problem, const Binning& binning);

/// The engine: every thread of torch, each with tables of its own.
void count(const Problem& problem, const PatternAxis& axis, Allocator& allocate);

/// The ranges that edges of one width were made of by uniform_edges(): [channels] of them, or one
/// that all channels share.
struct UniformRanges {
  const void* low;
  const void* high;
  ElementType type; // of both: float32 or float64
  bool shared;
};

/// The engine, for the bins between edges. `ranges` are those of edges of one width, or null.
void count_between(
    const Problem& input,
    const Edges& edges,
    const UniformRanges* ranges,
    const Flow& flow,
    Allocator& allocate);

/// Writes the edges, and counts between them.
void count_uniform(
    const Problem& input, const UniformBins& bins, const Flow& flow, Allocator& allocate);
/// Writes the edges alone.
void edges_of(const Problem& input, const UniformBins& bins);

// Sums of weights. Operand 0 of a problem is the input, and operand 1 are the weights. The result has
// problem.sum_size numbers for each bin (core/weights.h); its digits are canonical.

/// `ranges` as for count_between.
void sum_weights_between(
    const Problem& problem,
    const Edges& edges,
    const UniformRanges* ranges,
    const Flow& flow,
    Allocator& allocate);
/// Writes the edges, those of the input alone, and sums between them.
void sum_weights_uniform(
    const Problem& problem,
    const Problem& input,
    const UniformBins& bins,
    const Flow& flow,
    Allocator& allocate);
/// Value v is in bin v, below problem.num_bins.
void sum_weights_of_values(const Problem& problem, Allocator& allocate);

/// Rounds the sums of floats once. If their digits are not canonical, copies are made so.
void round_sums(const int64_t* digits, int64_t bins, int size, bool are_canonical, double* sums);
/// Makes digits canonical, in place.
void normalize_sums(int64_t* digits, int64_t bins, int size);

/// Writes to each element of `result` what `gradient`, [channels, problem.num_bins], has for its bin,
/// and 0 where it has none. Operand 1 is the view of the result.
void weight_gradient_between(
    const Problem& problem,
    const Edges& edges,
    const Flow& flow,
    const double* gradient,
    double* result);
void weight_gradient_of_values(const Problem& problem, const double* gradient, double* result);

// Joint histograms. The first operands of a problem are the coordinates, and num_bins are all joint
// bins of a channel.

void count_joint(const Problem& problem, const JointAxes& axes, Allocator& allocate);
/// The last operand are the weights.
void sum_weights_joint(const Problem& problem, const JointAxes& axes, Allocator& allocate);
/// Writes to each element of `index` its joint bin, or -1. The last operand is the view of the
/// index.
void write_joint_index(const Problem& problem, const JointAxes& axes, int64_t* index);

/// The smallest and the largest finite value of each channel, rounded outwards to T, float or
/// double; infinity and -infinity where there is none.
template <class T>
void finite_range(const Problem& input, T* low, T* high);

/// Reads the input once.
void summarize(const Problem& input, const Summary& summary);

/// Evenly spaced edges of `rows` ranges.
template <class T, class Edge>
void uniform_edges(const T* low, const T* high, int64_t rows, int64_t bins, Edge* edges);

/// Adds counts and extremes to the state of a sketch.
void add_to_sketch(
    const Problem& input, const SketchBins& bins, const SketchState& to, Allocator& allocate);

/// Writes the quantiles of a sketch.
void sketch_quantiles(const SketchQuantiles& call);

/// The values between which quantiles lie.
void select(const Selection& selection, Allocator& allocate);

} // namespace histo::cpu
