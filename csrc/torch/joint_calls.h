// Checked calls of joint histograms.
#pragma once

#include <functional>
#include <vector>

#include "core/joint.h"
#include "torch/arguments.h"

namespace histo {

/// A checked call of a joint histogram, with or without weights, or of the joint bins themselves.
/// The operands of its problem are the coordinates, and then the weight or the view of the joint
/// bins.
struct JointCall : Call {
  JointAxes axes;
  std::vector<Tensor> edges; // what `axes` point into
};
/// Writes the joint bins of a call of prepare_joint_index.
using WriteJointIndex = std::function<void(const JointCall&)>;

/// The edges of several axes, between two numbers of `ranges` each.
std::vector<UniformEdges> prepare_edges_of_axes(
    const std::vector<Tensor>& inputs,
    const std::vector<int64_t>& num_bins,
    const std::vector<double>& ranges);

JointCall prepare_joint_histogram(
    const std::vector<Tensor>& inputs,
    const std::vector<Tensor>& edges,
    const Dims& dim,
    bool flow,
    const WriteJointIndex& write);
/// The joint bins of more than `most_axes` coordinates are written at once: they are the first
/// coordinate of the call.
JointCall prepare_weighted_joint_histogram(
    const std::vector<Tensor>& inputs,
    const std::vector<Tensor>& edges,
    const Tensor& weight,
    const Dims& dim,
    bool flow,
    size_t most_axes,
    const WriteJointIndex& write);
JointCall prepare_joint_index(
    const std::vector<Tensor>& inputs,
    const std::vector<Tensor>& edges,
    const Dims& dim,
    bool flow,
    const WriteJointIndex& write);

} // namespace histo
