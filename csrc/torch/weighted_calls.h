// Checked calls of the operators of weights.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <torch/csrc/stable/tensor.h>

#include "core/edges.h"
#include "core/problem.h"
#include "torch/arguments.h"

namespace histo {

/// The operands of its problem are the input and the weight. The result has the digits of sums.
EdgesCall prepare_weighted_histogram(
    const Tensor& input, const Tensor& edges, const Tensor& weight, const Dims& dim, bool flow);
EdgesCall prepare_weighted_channel_histogram(
    const Tensor& input, const Tensor& weight, int64_t num_bins, const std::vector<int64_t>& dim);

/// A checked call of _sums, which has edges or the number of values. The result has the digits.
struct SumsCall : EdgesCall {
  Tensor sums; // not initialized

  /// The sums that digits are rounded to. It is null for integers, whose digits are the sums.
  double* rounded() const {
    return problem.sum_size > 1 ? data_of<double>(sums) : nullptr;
  }
};
/// Whether a kernel rounds sums between edges itself, so that no digits are in memory. The problem
/// has only types and sizes, and the edges have no address.
using RoundsInKernel = std::function<bool(const Problem&, const Edges&)>;
/// Throws if the call needs digits in memory, has several channels, and these take more than
/// `most_bytes` bytes.
SumsCall prepare_sums(
    const Tensor& input,
    const Tensor& weight,
    const std::optional<Tensor>& edges,
    int64_t num_bins,
    const Dims& dim,
    bool flow,
    int64_t most_bytes,
    const RoundsInKernel& rounds_in_kernel);

/// A checked call of _uniform_sums.
struct UniformSumsCall : SumsCall {
  Operands input; // the input alone, whose extremes are found
  UniformEdges uniform;
};
UniformSumsCall prepare_uniform_sums(
    const Tensor& input,
    const Tensor& weight,
    int64_t num_bins,
    const GivenRange& range,
    const Dims& dim,
    bool flow,
    int64_t most_bytes,
    const RoundsInKernel& rounds_in_kernel);

/// A checked call of sum_of_digits or of normalize_digits.
struct DigitsCall {
  Tensor digits; // contiguous: the argument, or a copy of it
  Tensor result; // of normalize_digits: the same as `digits`
  int64_t bins;
  int size; // of the last dimension
};
DigitsCall prepare_sum_of_digits(const Tensor& digits);
DigitsCall prepare_normalize_digits(const Tensor& digits);

/// A checked call of _weight_gradient, or of _weight_gradient_of_values, which has no edges. The
/// operands of its problem are the input and the view of the result, which has the input's sizes.
struct WeightGradientCall : EdgesCall {
  Tensor gradient; // contiguous

  bool is_empty() const {
    return problem.num_channels() * problem.num_rows() == 0;
  }
};
WeightGradientCall prepare_weight_gradient(
    const Tensor& gradient, const Tensor& input, const Tensor& edges, const Dims& dim, bool flow);
WeightGradientCall prepare_weight_gradient_of_values(
    const Tensor& gradient, const Tensor& input, const std::vector<int64_t>& dim);

} // namespace histo
