// The operators of weights on CUDA.
#include <optional>
#include <vector>

#include <torch/csrc/stable/library.h>

#include "cuda/fill/weights.h"
#include "torch/fill_arguments.h"
#include "torch/operators/on_device.h"

namespace histo {
namespace {

using torch::stable::Tensor;

/// Calls sum(launch) if there is something to sum.
template <class F>
Tensor run(const WeightedCall& call, const F& sum) {
  const Problem& problem = call.problem;
  if (problem.num_results() > 0) {
    on_device(call.digits, [&](const cuda::Launch& launch) {
      if (problem.num_rows() == 0) {
        cuda::fill_zero(launch, problem.counts, problem.num_results() * int64_t{sizeof(int64_t)});
      } else {
        sum(launch);
      }
    });
  }
  return call.digits;
}

Tensor weighted_histogram(
    const Tensor& input,
    const Tensor& edges,
    const Tensor& weight,
    std::optional<std::vector<int64_t>> dim,
    bool flow) {
  const WeightedCall call = prepare_weighted_histogram(input, edges, weight, dim, flow);
  return run(call, [&](const cuda::Launch& launch) {
    cuda::sum_weights_between(call.problem, call.edges, call.flow, launch);
  });
}

Tensor weighted_channel_histogram(
    const Tensor& input, const Tensor& weight, int64_t num_bins, std::vector<int64_t> dim) {
  const WeightedCall call = prepare_weighted_channel_histogram(input, weight, num_bins, dim);
  return run(
      call, [&](const cuda::Launch& launch) { cuda::sum_weights_of_values(call.problem, launch); });
}

Tensor sum_of_digits(const Tensor& digits) {
  const DigitsCall call = prepare_sum_of_digits(digits);
  if (call.size > 1) {
    on_device(digits, [&](const cuda::Launch& launch) {
      cuda::round_sums(
          static_cast<const int64_t*>(call.digits.const_data_ptr()), call.bins, call.size,
          static_cast<double*>(call.result.mutable_data_ptr()), launch);
    });
  }
  return call.result;
}

Tensor normalize_digits(const Tensor& digits) {
  const DigitsCall call = prepare_normalize_digits(digits);
  on_device(digits, [&](const cuda::Launch& launch) {
    cuda::normalize_sums(
        static_cast<int64_t*>(call.result.mutable_data_ptr()), call.bins, call.size, launch);
  });
  return call.result;
}

/// Calls gather(gradient, launch) if there are elements.
template <class F>
Tensor run(const WeightGradientCall& call, const F& gather) {
  if (call.problem.num_channels() * call.problem.num_rows() > 0) {
    on_device(call.result, [&](const cuda::Launch& launch) {
      gather(static_cast<const double*>(call.gradient.const_data_ptr()), launch);
    });
  }
  return call.result;
}

Tensor weight_gradient(
    const Tensor& grad,
    const Tensor& input,
    const Tensor& edges,
    std::optional<std::vector<int64_t>> dim,
    bool flow) {
  const WeightGradientCall call = prepare_weight_gradient(grad, input, edges, dim, flow);
  return run(call, [&](const double* gradient, const cuda::Launch& launch) {
    cuda::weight_gradient_between(call.problem, call.edges, call.flow, gradient, launch);
  });
}

Tensor weight_gradient_of_values(
    const Tensor& grad, const Tensor& input, std::vector<int64_t> dim) {
  const WeightGradientCall call = prepare_weight_gradient_of_values(grad, input, dim);
  return run(call, [&](const double* gradient, const cuda::Launch& launch) {
    cuda::weight_gradient_of_values(call.problem, gradient, launch);
  });
}

} // namespace
} // namespace histo

STABLE_TORCH_LIBRARY_IMPL(histo, CUDA, m) {
  m.impl("weighted_histogram", TORCH_BOX(&histo::weighted_histogram));
  m.impl("weighted_channel_histogram", TORCH_BOX(&histo::weighted_channel_histogram));
  m.impl("sum_of_digits", TORCH_BOX(&histo::sum_of_digits));
  m.impl("normalize_digits", TORCH_BOX(&histo::normalize_digits));
  m.impl("_weight_gradient", TORCH_BOX(&histo::weight_gradient));
  m.impl("_weight_gradient_of_values", TORCH_BOX(&histo::weight_gradient_of_values));
}
