// The operators of weights on the CPU, and their checks for callers that hold no data.
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <torch/csrc/stable/library.h>

#include "cpu/kernels.h"
#include "torch/weighted_calls.h"

namespace histo {
namespace {

Tensor weighted_histogram(
    const Tensor& input, const Tensor& edges, const Tensor& weight, Dims dim, bool flow) {
  const WeightedCall call = prepare_weighted_histogram(input, edges, weight, dim, flow);
  Workspace workspace(call.digits);
  cpu::sum_weights_between(call.problem, call.edges, nullptr, call.flow, workspace);
  return call.digits;
}

Tensor weighted_channel_histogram(
    const Tensor& input, const Tensor& weight, int64_t num_bins, std::vector<int64_t> dim) {
  const WeightedCall call = prepare_weighted_channel_histogram(input, weight, num_bins, dim);
  Workspace workspace(call.digits);
  cpu::sum_weights_of_values(call.problem, workspace);
  return call.digits;
}

Tensor sum_of_digits(const Tensor& digits) {
  const DigitsCall call = prepare_sum_of_digits(digits);
  if (call.size > 1) {
    cpu::round_sums(
        static_cast<const int64_t*>(call.digits.const_data_ptr()), call.bins, call.size, false,
        static_cast<double*>(call.result.mutable_data_ptr()));
  }
  return call.result;
}

/// The sums of a call whose digits are there.
Tensor rounded(const SumsCall& call) {
  const Problem& problem = call.weighted.problem;
  if (problem.sum_size > 1) {
    cpu::round_sums(problem.counts, problem.num_counts(), problem.sum_size, true, call.rounded());
  }
  return call.sums;
}

std::tuple<Tensor, Tensor> uniform_sums(
    const Tensor& input,
    const Tensor& weight,
    int64_t num_bins,
    GivenRange range,
    Dims dim,
    bool flow,
    int64_t most_bytes) {
  const UniformSumsCall call =
      prepare_uniform_sums(input, weight, num_bins, range, dim, flow, most_bytes);
  Workspace workspace(input);
  cpu::sum_weights_uniform(
      call.weighted.problem, call.input.problem, call.uniform.bins(), Flow{flow}, workspace);
  return {rounded(call), call.uniform.tensor};
}

Tensor sums(
    const Tensor& input,
    const Tensor& weight,
    std::optional<Tensor> edges,
    int64_t num_bins,
    Dims dim,
    bool flow,
    int64_t most_bytes) {
  const SumsCall call = prepare_sums(input, weight, edges, num_bins, dim, flow, most_bytes);
  const WeightedCall& weighted = call.weighted;
  Workspace workspace(input);
  edges ? cpu::sum_weights_between(
              weighted.problem, weighted.edges, nullptr, weighted.flow, workspace)
        : cpu::sum_weights_of_values(weighted.problem, workspace);
  return rounded(call);
}

Tensor normalize_digits(const Tensor& digits) {
  const DigitsCall call = prepare_normalize_digits(digits);
  cpu::normalize_sums(static_cast<int64_t*>(call.result.mutable_data_ptr()), call.bins, call.size);
  return call.result;
}

const double* gradient_of(const WeightGradientCall& call) {
  return static_cast<const double*>(call.gradient.const_data_ptr());
}

double* result_of(const WeightGradientCall& call) {
  return static_cast<double*>(call.result.mutable_data_ptr());
}

Tensor weight_gradient(
    const Tensor& grad, const Tensor& input, const Tensor& edges, Dims dim, bool flow) {
  const WeightGradientCall call = prepare_weight_gradient(grad, input, edges, dim, flow);
  cpu::weight_gradient_between(
      call.problem, call.edges, call.flow, gradient_of(call), result_of(call));
  return call.result;
}

Tensor weight_gradient_of_values(
    const Tensor& grad, const Tensor& input, std::vector<int64_t> dim) {
  const WeightGradientCall call = prepare_weight_gradient_of_values(grad, input, dim);
  cpu::weight_gradient_of_values(call.problem, gradient_of(call), result_of(call));
  return call.result;
}

} // namespace
} // namespace histo

STABLE_TORCH_LIBRARY_IMPL(histo, CPU, m) {
  m.impl("weighted_histogram", TORCH_BOX(&histo::weighted_histogram));
  m.impl("weighted_channel_histogram", TORCH_BOX(&histo::weighted_channel_histogram));
  m.impl("sum_of_digits", TORCH_BOX(&histo::sum_of_digits));
  m.impl("normalize_digits", TORCH_BOX(&histo::normalize_digits));
  m.impl("_sums", TORCH_BOX(&histo::sums));
  m.impl("_uniform_sums", TORCH_BOX(&histo::uniform_sums));
  m.impl("_weight_gradient", TORCH_BOX(&histo::weight_gradient));
  m.impl("_weight_gradient_of_values", TORCH_BOX(&histo::weight_gradient_of_values));
}
