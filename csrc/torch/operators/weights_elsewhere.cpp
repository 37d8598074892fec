// The answer of weighted operators to tensors that no kernel takes, and their checks for callers
// that hold no data.
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <torch/csrc/stable/library.h>

#include "torch/arguments.h"
#include "torch/operators/refusals.h"

namespace histo {
namespace {

Tensor weighted_histogram_elsewhere(
    const Tensor& input, const Tensor& edges, const Tensor& weight, Dims dim, bool) {
  const char* op = "weighted_histogram";
  const Description of_input = describe(defined(op, "input", input));
  check_numbers(op, of_input, dim);
  check_edges(op, of_input, describe(defined(op, "edges", edges)));
  check_weight(op, of_input, describe(defined(op, "weight", weight)));
  fail_without_cuda(op);
}

Tensor weighted_channel_histogram_elsewhere(
    const Tensor& input, const Tensor& weight, int64_t num_bins, std::vector<int64_t> dim) {
  const char* op = "weighted_channel_histogram";
  const Description of_input = describe(defined(op, "input", input));
  check_values(op, of_input, num_bins, dim);
  check_weight(op, of_input, describe(defined(op, "weight", weight)));
  fail_without_cuda(op);
}

[[noreturn]] void refuse_digits(const char* op, const Tensor& digits) {
  const Description of_digits = describe(defined(op, "digits", digits));
  check_digits(op, of_digits, digits.dim() == 0 ? 0 : digits.size(digits.dim() - 1));
  fail_without_cuda(op);
}

Tensor sum_of_digits_elsewhere(const Tensor& digits) {
  refuse_digits("sum_of_digits", digits);
}

Tensor normalize_digits_elsewhere(const Tensor& digits) {
  refuse_digits("normalize_digits", digits);
}

Tensor weighted_histogram_nested(const Tensor&, const Tensor&, const Tensor&, Dims, bool) {
  fail_nested("weighted_histogram", "input");
}

Tensor weighted_channel_histogram_nested(
    const Tensor&, const Tensor&, int64_t, std::vector<int64_t>) {
  fail_nested("weighted_channel_histogram", "input");
}

std::string weight_error(
    std::string op,
    std::string device,
    std::string dtype,
    std::string layout,
    int64_t ndim,
    std::string weight_device,
    std::string weight_dtype,
    std::string weight_layout,
    int64_t weight_ndim) {
  return error_of([&] {
    check_weight(
        op, {device, dtype, layout, false, ndim},
        {weight_device, weight_dtype, weight_layout, false, weight_ndim});
  });
}

std::string values_error(
    std::string op,
    std::string device,
    std::string dtype,
    std::string layout,
    int64_t ndim,
    int64_t num_bins,
    std::vector<int64_t> dim) {
  return error_of([&] { check_values(op, {device, dtype, layout, false, ndim}, num_bins, dim); });
}

std::string digits_error(
    std::string op,
    std::string device,
    std::string dtype,
    std::string layout,
    int64_t ndim,
    int64_t size) {
  return error_of([&] { check_digits(op, {device, dtype, layout, false, ndim}, size); });
}

} // namespace

void refuse_nested_weights(torch::stable::detail::StableLibrary& m) {
  m.impl("weighted_histogram", TORCH_BOX(&weighted_histogram_nested));
  m.impl("weighted_channel_histogram", TORCH_BOX(&weighted_channel_histogram_nested));
}

} // namespace histo

STABLE_TORCH_LIBRARY_IMPL(histo, CompositeExplicitAutograd, m) {
  m.impl("weighted_histogram", TORCH_BOX(&histo::weighted_histogram_elsewhere));
  m.impl("weighted_channel_histogram", TORCH_BOX(&histo::weighted_channel_histogram_elsewhere));
  m.impl("sum_of_digits", TORCH_BOX(&histo::sum_of_digits_elsewhere));
  m.impl("normalize_digits", TORCH_BOX(&histo::normalize_digits_elsewhere));
  m.impl("_check_weight", TORCH_BOX(&histo::weight_error));
  m.impl("_check_values", TORCH_BOX(&histo::values_error));
  m.impl("_check_digits", TORCH_BOX(&histo::digits_error));
}
