// The tensors of weighted operators -> what their kernels take.
#include <algorithm>
#include <string>
#include <utility>

#include <torch/csrc/stable/ops.h>

#include "core/weights.h"
#include "torch/describe.h"
#include "torch/memory.h"
#include "torch/messages.h"
#include "torch/prepare.h"
#include "torch/weighted_calls.h"

namespace histo {

namespace {

constexpr std::string_view kWeightGradient = "_weight_gradient";

/// The numbers that a bin has of weights like these.
int sum_size(const Tensor& weight) {
  return sum_layout(*element_type(dtype_name(weight.scalar_type()))).size();
}

/// A call that fills digits, or the sums of integers. Its channels have `num_bins` bins, without
/// edges.
EdgesCall prepare_weighted(
    const Tensor& input,
    const Tensor& weight,
    const Checked& checked,
    int64_t num_bins,
    const Tensor& digits) {
  EdgesCall call{call_of({input, weight}, checked, num_bins, digits), {}, {}, {}};
  call.problem.sum_size = sum_size(weight);
  return call;
}

/// The same with digits of its own.
EdgesCall prepare_weighted(
    const Tensor& input, const Tensor& weight, const Checked& checked, int64_t num_bins) {
  std::vector<int64_t> sizes = kept_sizes(input, checked, num_bins);
  sizes.push_back(sum_size(weight));
  // The digits come first: memory may be too small for a copy of the input.
  const Tensor digits = allocate(input, sizes, ScalarType::Long, kUseOfDigits);
  return prepare_weighted(input, weight, checked, num_bins, digits);
}

/// The types and sizes of a call. Strides and addresses are not set.
Problem sizes_of_sums(
    const Tensor& input, const Tensor& weight, const Checked& checked, int64_t num_bins) {
  int64_t channels = 1;
  for (const int64_t dimension : checked.kept) {
    channels *= input.size(dimension);
  }
  const int64_t rows = channels == 0 ? 0 : input.numel() / channels;
  const ElementType types[] = {checked.element, *element_type(dtype_name(weight.scalar_type()))};
  Problem problem{};
  problem.num_operands = 2;
  problem.num_bins = num_bins;
  for (int i = 0; i < 2; ++i) {
    problem.operand(i) = {types[i], nullptr, {{1, 0}, {channels, 0}}, {{1, 0}, {1, 0}, {rows, 0}}};
  }
  return problem;
}

/// The same with rounded sums. Integers need no digits beside them, nor do sums between edges that
/// a kernel rounds. `edges` have no address; values have no edges.
SumsCall prepare_rounded(
    const Tensor& input,
    const Tensor& weight,
    const Checked& checked,
    int64_t num_bins,
    int64_t most_bytes,
    const std::optional<Edges>& edges = {},
    const RoundsInKernel& rounds_in_kernel = {}) {
  const int64_t size = sum_size(weight);
  const bool in_kernel = edges && rounds_in_kernel &&
                         rounds_in_kernel(sizes_of_sums(input, weight, checked, num_bins), *edges);
  const Tensor sums = allocate(
      input, kept_sizes(input, checked, num_bins),
      size == 1 ? ScalarType::Long : ScalarType::Double,
      "the sums: pass fewer bins, or fewer channels at a time");
  Tensor digits = sums;
  if (!in_kernel) {
    if (!checked.kept.empty() && sums.numel() > most_bytes / (size * int64_t{sizeof(int64_t)})) {
      fail(join("digits must have at most ", std::to_string(most_bytes), " bytes"));
    }
    if (size > 1) {
      digits = allocate(input, {sums.numel(), size}, ScalarType::Long, kUseOfDigits);
    }
  }
  return {prepare_weighted(input, weight, checked, num_bins, digits), sums};
}

Checked check_values_of_weights(
    const Tensor& input, const Tensor& weight, int64_t num_bins, const std::vector<int64_t>& dim) {
  const std::string_view op = kWeightedChannelHistogram;
  Checked checked = check_values(op, describe(input), num_bins, dim);
  check_weight(op, input, weight);
  if (num_bins > UINT32_MAX) {
    fail(join(op, ": num_bins must be below 2^32, got ", std::to_string(num_bins)));
  }
  return checked;
}

DigitsCall prepare_digits(std::string_view op, const Tensor& digits) {
  const std::vector<int64_t> sizes = sizes_of(digits);
  const int64_t size = sizes.empty() ? 0 : sizes.back();
  check_digits(op, describe(digits), size);
  return {expanded(digits, sizes), digits, digits.numel() / size, static_cast<int>(size)};
}

/// A tensor of its own, contiguous.
Tensor copy_of(const Tensor& digits, const std::vector<int64_t>& sizes) {
  Tensor copy = allocate(digits, sizes, ScalarType::Long, "a copy of the digits");
  torch::stable::copy_(copy, digits);
  return copy;
}

/// A call whose channels have `num_bins` bins, without edges.
WeightGradientCall prepare_gradient(
    const Tensor& gradient, const Tensor& input, const Checked& checked, int64_t num_bins) {
  check_gradient(kWeightGradient, describe(input), describe(gradient));
  check_same_gpu(kWeightGradient, "grad", gradient, input);
  const std::vector<int64_t> wanted = kept_sizes(input, checked, num_bins);
  if (sizes_of(gradient) != wanted) {
    fail(join(
        kWeightGradient, ": grad must have the sizes of the sums, ", join_numbers(wanted), ", got ",
        join_numbers(sizes_of(gradient))));
  }
  const Tensor result =
      allocate_by_channels(input, checked, ScalarType::Double, "the gradient of the weights");
  Call call{prepare_operands({result, input}, checked.kept, num_bins), result};
  std::swap(call.problem.operand(0), call.problem.operand(1)); // the input comes first
  return {{std::move(call), {}, {}, {}}, expanded(gradient, wanted)};
}

} // namespace

void check_weight(std::string_view op, const Tensor& input, const Tensor& weight) {
  check_weight(op, describe(input), describe(op, "weight", weight));
  check_same_gpu(op, "weight", weight, input);
  const std::vector<int64_t> given = sizes_of(weight), full = sizes_of(input);
  if (!broadcasts(given, full)) {
    fail(join(
        op, ": weight must have sizes that broadcast to those of input, ", join_numbers(full),
        ", got ", join_numbers(given)));
  }
}

Tensor allocate_by_channels(
    const Tensor& input, const Checked& checked, ScalarType dtype, std::string_view use) {
  std::vector<int64_t> order = checked.kept;
  for (int64_t d = 0; d < input.dim(); ++d) {
    if (std::find(checked.kept.begin(), checked.kept.end(), d) == checked.kept.end()) {
      order.push_back(d);
    }
  }
  return allocate_in_order(input, sizes_of(input), order, dtype, use);
}

EdgesCall prepare_weighted_histogram(
    const Tensor& input, const Tensor& edges, const Tensor& weight, const Dims& dim, bool flow) {
  const Between between = check_between(kWeightedHistogram, input, edges, dim);
  check_weight(kWeightedHistogram, input, weight);
  const int64_t num_bins = Flow{flow}.num_counts(between.bins);
  EdgesCall call = prepare_weighted(input, weight, between.checked, num_bins);
  between.put(edges, flow, call);
  return call;
}

EdgesCall prepare_weighted_channel_histogram(
    const Tensor& input, const Tensor& weight, int64_t num_bins, const std::vector<int64_t>& dim) {
  const Checked checked = check_values_of_weights(input, weight, num_bins, dim);
  return prepare_weighted(input, weight, checked, num_bins);
}

UniformSumsCall prepare_uniform_sums(
    const Tensor& input,
    const Tensor& weight,
    int64_t num_bins,
    const GivenRange& range,
    const Dims& dim,
    bool flow,
    int64_t most_bytes,
    const RoundsInKernel& rounds_in_kernel) {
  const Checked checked = check_numbers(kHistogram, describe(input), dim);
  check_weight(kHistogram, input, weight);
  UniformEdges uniform = prepare_edges(input, checked, num_bins, range);
  const int64_t counts = Flow{flow}.num_counts(num_bins);
  const Edges edges = Edges::all(nullptr, uniform.type, num_bins, range.has_value());
  SumsCall sums =
      prepare_rounded(input, weight, checked, counts, most_bytes, edges, rounds_in_kernel);
  sums.flow = {flow};
  Operands alone =
      range ? Operands{sums.problem, {}} : prepare_operands({input}, checked.kept, counts);
  return {std::move(sums), std::move(alone), std::move(uniform)};
}

SumsCall prepare_sums(
    const Tensor& input,
    const Tensor& weight,
    const std::optional<Tensor>& edges,
    int64_t num_bins,
    const Dims& dim,
    bool flow,
    int64_t most_bytes,
    const RoundsInKernel& rounds_in_kernel) {
  if (!edges) {
    const std::vector<int64_t> dims = dim.value_or(std::vector<int64_t>{});
    const Checked checked = check_values_of_weights(input, weight, num_bins, dims);
    return prepare_rounded(input, weight, checked, num_bins, most_bytes);
  }
  const Between between = check_between(kWeightedHistogram, input, *edges, dim);
  check_weight(kWeightedHistogram, input, weight);
  const int64_t counts = Flow{flow}.num_counts(between.bins);
  SumsCall call = prepare_rounded(
      input, weight, between.checked, counts, most_bytes,
      Edges::all(nullptr, between.type, between.bins, between.shared), rounds_in_kernel);
  between.put(*edges, flow, call);
  return call;
}

DigitsCall prepare_sum_of_digits(const Tensor& digits) {
  DigitsCall call = prepare_digits(kSumOfDigits, digits);
  std::vector<int64_t> sizes = sizes_of(digits);
  if (call.size == 1) {
    const Tensor sums = copy_of(digits, sizes);
    call.result = torch::stable::select(sums, -1, 0);
    return call;
  }
  sizes.pop_back();
  call.result = allocate(digits, sizes, ScalarType::Double, "the sums");
  return call;
}

DigitsCall prepare_normalize_digits(const Tensor& digits) {
  DigitsCall call = prepare_digits(kNormalizeDigits, digits);
  call.digits = call.result = copy_of(digits, sizes_of(digits));
  return call;
}

WeightGradientCall prepare_weight_gradient(
    const Tensor& gradient, const Tensor& input, const Tensor& edges, const Dims& dim, bool flow) {
  const Between between = check_between(kWeightGradient, input, edges, dim);
  const int64_t num_bins = Flow{flow}.num_counts(between.bins);
  WeightGradientCall call = prepare_gradient(gradient, input, between.checked, num_bins);
  between.put(edges, flow, call);
  return call;
}

WeightGradientCall prepare_weight_gradient_of_values(
    const Tensor& gradient, const Tensor& input, const std::vector<int64_t>& dim) {
  const int64_t num_bins = gradient.dim() == 0 ? 0 : gradient.size(gradient.dim() - 1);
  const Checked checked = check_values(kWeightGradient, describe(input), num_bins, dim);
  return prepare_gradient(gradient, input, checked, num_bins);
}

} // namespace histo
