// The operator `quantile`, but for the selection of values.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <torch/csrc/stable/ops.h>

#include "cpu/float_mode.h"
#include "torch/arguments.h"
#include "torch/describe.h"
#include "torch/memory.h"

namespace histo {

/// torch's own interpolation, so that results are equal to torch.quantile's bit for bit.
inline Tensor lerp(const Tensor& below, const Tensor& above, const Tensor& weights) {
  std::array<StableIValue, 3> stack{
      torch::stable::detail::from(below), torch::stable::detail::from(above),
      torch::stable::detail::from(weights)};
  STABLE_TORCH_ERROR_CODE_CHECK(
      torch_call_dispatcher("aten::lerp", "Tensor", stack.data(), TORCH_ABI_VERSION));
  return torch::stable::detail::to<Tensor>(stack[0]);
}

/// Values are interpolated in the type of the ranks, and then rounded to that of the result.
inline Tensor interpolate_between(
    const QuantileCall& call, const Tensor& below, const Tensor& above, const Tensor& weights) {
  const ScalarType between = call.selection.float64_ranks ? ScalarType::Double : ScalarType::Float;
  return torch::stable::to(
      lerp(torch::stable::to(below, between), torch::stable::to(above, between), weights),
      call.result);
}

/// Subnormal numbers are numbers here, too, whatever torch.set_flush_denormal says.
inline Tensor interpolate(const QuantileCall& call) {
  if (!call.interpolates()) {
    return call.below;
  }
  const cpu::ExactFloats exact;
  // torch shares the work on more elements with other threads, whose mode may differ.
  constexpr int64_t kMostOnThisThread = 1 << 14;
  const int64_t count = call.weights.numel();
  if (count <= kMostOnThisThread || !call.weights.is_cpu()) {
    return interpolate_between(call, call.below, call.above, call.weights);
  }
  const Tensor result =
      allocate(call.weights, sizes_of(call.weights), call.result, "the quantiles");
  for (int64_t first = 0; first < count; first += kMostOnThisThread) {
    const auto part = [&](const Tensor& tensor) {
      Tensor flat = torch::stable::flatten(tensor, 0, -1);
      return torch::stable::narrow(flat, 0, first, std::min(kMostOnThisThread, count - first));
    };
    Tensor of_result = part(result);
    torch::stable::copy_(
        of_result,
        interpolate_between(call, part(call.below), part(call.above), part(call.weights)));
  }
  return result;
}

} // namespace histo
