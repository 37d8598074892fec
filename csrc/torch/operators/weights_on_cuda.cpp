// The operators of weights on CUDA.
#include <optional>
#include <tuple>
#include <vector>

#include <torch/csrc/stable/library.h>

#include "cuda/fill/fill.h"
#include "cuda/fill/weights.h"
#include "cuda/plan/warp_sums_plan.h"
#include "torch/operators/on_device.h"
#include "torch/weighted_calls.h"

namespace histo {
namespace {

/// Calls add() if there is something to sum.
template <class F>
void sum(const Problem& problem, const cuda::Launch& launch, const F& add) {
  if (problem.num_results() == 0) {
    return;
  }
  if (problem.num_rows() == 0) {
    return cuda::fill_zero(
        launch, problem.counts, problem.num_results() * int64_t{sizeof(int64_t)});
  }
  add();
}

/// Calls add(launch) if there is something to sum.
template <class F>
Tensor run(const WeightedCall& call, const F& add) {
  on_device(call.digits, [&](const cuda::Launch& launch) {
    sum(call.problem, launch, [&] { add(launch); });
  });
  return call.digits;
}

Tensor weighted_histogram(
    const Tensor& input, const Tensor& edges, const Tensor& weight, Dims dim, bool flow) {
  const WeightedCall call = prepare_weighted_histogram(input, edges, weight, dim, flow);
  return run(call, [&](const cuda::Launch& launch) {
    cuda::sum_weights_between(call.problem, call.edges, call.flow, nullptr, launch);
  });
}

Tensor weighted_channel_histogram(
    const Tensor& input, const Tensor& weight, int64_t num_bins, std::vector<int64_t> dim) {
  const WeightedCall call = prepare_weighted_channel_histogram(input, weight, num_bins, dim);
  return run(call, [&](const cuda::Launch& launch) {
    cuda::sum_weights_of_values(call.problem, nullptr, launch);
  });
}

/// Calls add(where digits are rounded to, or null if they are the sums) if there is something to sum.
template <class F>
void sum_rounded(const SumsCall& call, const cuda::Launch& launch, const F& add) {
  const Problem& problem = call.weighted.problem;
  double* rounded = problem.sum_size > 1 ? call.rounded() : nullptr;
  sum(problem, launch, [&] { add(rounded); });
  if (rounded != nullptr && problem.num_rows() == 0) {
    cuda::fill_zero(launch, rounded, problem.num_counts() * int64_t{sizeof(double)});
  }
}

/// Whether a kernel rounds the sums of its table itself, on the device of `like`.
RoundsInKernel rounds_in_kernel(const Tensor& like) {
  return [&like](const Problem& problem, const Edges& edges) {
    return plan_warp_sums(problem, edges, limits_of(like.get_device_index())).has_value();
  };
}

std::tuple<Tensor, Tensor> uniform_sums(
    const Tensor& input,
    const Tensor& weight,
    int64_t num_bins,
    GivenRange range,
    Dims dim,
    bool flow,
    int64_t most_bytes) {
  const UniformSumsCall call = prepare_uniform_sums(
      input, weight, num_bins, range, dim, flow, most_bytes, rounds_in_kernel(input));
  const Problem& problem = call.weighted.problem;
  const UniformBins bins = call.uniform.bins();
  on_device(input, [&](const cuda::Launch& launch) {
    cuda::edges_of(call.input.problem, bins, launch);
    sum_rounded(call, launch, [&](double* rounded) {
      const Edges edges = Edges::all(bins.edges, bins.type, bins.bins, bins.range != nullptr);
      cuda::sum_weights_between(problem, edges, Flow{flow}, rounded, launch);
    });
  });
  return {call.sums, call.uniform.tensor};
}

Tensor sums(
    const Tensor& input,
    const Tensor& weight,
    std::optional<Tensor> edges,
    int64_t num_bins,
    Dims dim,
    bool flow,
    int64_t most_bytes) {
  const SumsCall call =
      prepare_sums(input, weight, edges, num_bins, dim, flow, most_bytes, rounds_in_kernel(input));
  const WeightedCall& weighted = call.weighted;
  on_device(input, [&](const cuda::Launch& launch) {
    sum_rounded(call, launch, [&](double* rounded) {
      const Problem& problem = weighted.problem;
      edges ? cuda::sum_weights_between(problem, weighted.edges, weighted.flow, rounded, launch)
            : cuda::sum_weights_of_values(problem, rounded, launch);
    });
  });
  return call.sums;
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
    const Tensor& grad, const Tensor& input, const Tensor& edges, Dims dim, bool flow) {
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
  m.impl("_sums", TORCH_BOX(&histo::sums));
  m.impl("_uniform_sums", TORCH_BOX(&histo::uniform_sums));
  m.impl("_weight_gradient", TORCH_BOX(&histo::weight_gradient));
  m.impl("_weight_gradient_of_values", TORCH_BOX(&histo::weight_gradient_of_values));
}
