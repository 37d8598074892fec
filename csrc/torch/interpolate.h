// The operator `quantile`, but for the selection of values.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include <torch/csrc/stable/ops.h>

#include "torch/arguments.h"

namespace histo {

/// torch's own interpolation, so that results are equal to torch.quantile's bit for bit.
inline torch::stable::Tensor lerp(
    const torch::stable::Tensor& below,
    const torch::stable::Tensor& above,
    const torch::stable::Tensor& weights) {
  std::array<StableIValue, 3> stack{
      torch::stable::detail::from(below), torch::stable::detail::from(above),
      torch::stable::detail::from(weights)};
  STABLE_TORCH_ERROR_CODE_CHECK(
      torch_call_dispatcher("aten::lerp", "Tensor", stack.data(), TORCH_ABI_VERSION));
  return torch::stable::detail::to<torch::stable::Tensor>(stack[0]);
}

/// Values are interpolated in the type of the ranks, and then rounded to that of the result.
inline torch::stable::Tensor interpolate(const QuantileCall& call) {
  using torch::headeronly::ScalarType;
  const bool is_between = call.selection.interpolation == Interpolation::kLinear ||
                          call.selection.interpolation == Interpolation::kMidpoint;
  // The weight of an integer says whether there is a quantile at all.
  if (!is_between && !is_integer(call.selection.problem.type)) {
    return call.below;
  }
  const ScalarType between = call.selection.float64_ranks ? ScalarType::Double : ScalarType::Float;
  return torch::stable::to(
      lerp(
          torch::stable::to(call.below, between), torch::stable::to(call.above, between),
          call.weights),
      call.result);
}

/// `select(selection)` is the device's.
template <class Select>
torch::stable::Tensor quantile_by(
    const Select& select,
    const torch::stable::Tensor& input,
    const torch::stable::Tensor& q,
    const std::optional<std::vector<int64_t>>& dim,
    bool keepdim,
    const std::string& interpolation,
    bool ignore_nan) {
  const QuantileCall call = prepare_quantile(input, q, dim, keepdim, interpolation, ignore_nan);
  if (!call.is_empty()) {
    select(call.selection);
  }
  return interpolate(call);
}

} // namespace histo
