// Checked calls of histograms with weights or of several coordinates.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "core/joint.h"
#include "torch/arguments.h"

namespace histo {

/// A checked call of weighted_histogram, or of weighted_channel_histogram, which has no edges.
struct WeightedCall {
  Problem problem; // of the input and the weight; num_bins are all bins of a channel
  std::vector<torch::stable::Tensor> operands; // what its views point into
  torch::stable::Tensor digits;                // the result, not initialized
  Edges edges;
  Flow flow;
  std::optional<torch::stable::Tensor> edges_tensor; // what `edges` points into
};
WeightedCall prepare_weighted_histogram(
    const torch::stable::Tensor& input,
    const torch::stable::Tensor& edges,
    const torch::stable::Tensor& weight,
    const std::optional<std::vector<int64_t>>& dim,
    bool flow);
WeightedCall prepare_weighted_channel_histogram(
    const torch::stable::Tensor& input,
    const torch::stable::Tensor& weight,
    int64_t num_bins,
    const std::vector<int64_t>& dim);

/// A checked call of a joint histogram, with or without weights, or of the joint bins themselves.
struct JointCall {
  Problem problem; // of the coordinates, and then the weight or the view of the joint bins
  JointAxes axes;
  std::vector<torch::stable::Tensor> operands; // what `problem` points into
  std::vector<torch::stable::Tensor> edges;    // what `axes` point into
  torch::stable::Tensor result;                // not initialized
};
/// Writes the joint bins of a call of prepare_joint_index.
using WriteJointIndex = std::function<void(const JointCall&)>;

/// The joint bins of more than `most_axes` coordinates are written at once: they are the first
/// coordinate of the call.
JointCall prepare_joint_histogram(
    const std::vector<torch::stable::Tensor>& inputs,
    const std::vector<torch::stable::Tensor>& edges,
    const std::optional<std::vector<int64_t>>& dim,
    bool flow,
    const WriteJointIndex& write);
JointCall prepare_weighted_joint_histogram(
    const std::vector<torch::stable::Tensor>& inputs,
    const std::vector<torch::stable::Tensor>& edges,
    const torch::stable::Tensor& weight,
    const std::optional<std::vector<int64_t>>& dim,
    bool flow,
    size_t most_axes,
    const WriteJointIndex& write);
JointCall prepare_joint_index(
    const std::vector<torch::stable::Tensor>& inputs,
    const std::vector<torch::stable::Tensor>& edges,
    const std::optional<std::vector<int64_t>>& dim,
    bool flow,
    const WriteJointIndex& write);

/// A checked call of sum_of_digits or of normalize_digits.
struct DigitsCall {
  torch::stable::Tensor digits; // contiguous: the argument, or a copy of it
  torch::stable::Tensor result; // of normalize_digits: the same as `digits`
  int64_t bins;
  int size; // of the last dimension
};
DigitsCall prepare_sum_of_digits(const torch::stable::Tensor& digits);
DigitsCall prepare_normalize_digits(const torch::stable::Tensor& digits);

/// A checked call of _weight_gradient, or of _weight_gradient_of_values, which has no edges.
struct WeightGradientCall {
  Problem problem; // of the input and the view of the result; num_bins are those of a channel
  std::vector<torch::stable::Tensor> operands; // what its views point into
  torch::stable::Tensor gradient;              // contiguous
  torch::stable::Tensor result;                // of the input's sizes, not initialized
  Edges edges;
  Flow flow;
  std::optional<torch::stable::Tensor> edges_tensor; // what `edges` points into
};
WeightGradientCall prepare_weight_gradient(
    const torch::stable::Tensor& gradient,
    const torch::stable::Tensor& input,
    const torch::stable::Tensor& edges,
    const std::optional<std::vector<int64_t>>& dim,
    bool flow);
WeightGradientCall prepare_weight_gradient_of_values(
    const torch::stable::Tensor& gradient,
    const torch::stable::Tensor& input,
    const std::vector<int64_t>& dim);

} // namespace histo
