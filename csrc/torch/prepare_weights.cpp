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

constexpr std::string_view kRemedy = "pass fewer bins, or fewer channels at a time";

/// A call whose channels have `num_bins` bins, without edges.
WeightedCall prepare_weighted(
    const Tensor& input,
    const Tensor& weight,
    const Checked& checked,
    int64_t num_bins,
    const Tensor& digits) {
  Operands operands = prepare_operands({input, weight}, checked.kept, num_bins);
  WeightedCall call{operands.problem, std::move(operands.tensors), digits, {}, {}, {}};
  call.problem.sum_size = sum_size(weight);
  call.problem.counts = static_cast<int64_t*>(digits.mutable_data_ptr());
  return call;
}

/// The same with digits of its own.
WeightedCall prepare_weighted(
    const Tensor& input, const Tensor& weight, const Checked& checked, int64_t num_bins) {
  std::vector<int64_t> sizes = kept_sizes(input, checked, num_bins);
  sizes.push_back(sum_size(weight));
  // The digits come first: memory may be too small for a copy of the input.
  const Tensor digits =
      allocate(input, sizes, ScalarType::Long, join("the digits of sums: ", kRemedy));
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

/// The same with rounded sums. Integers need no digits beside them, nor do sums that are rounded
/// `in_kernel`.
SumsCall prepare_rounded(
    const Tensor& input,
    const Tensor& weight,
    const Checked& checked,
    int64_t num_bins,
    int64_t most_bytes,
    bool in_kernel = false) {
  const int64_t size = sum_size(weight);
  const Tensor sums = allocate(
      input, kept_sizes(input, checked, num_bins),
      size == 1 ? ScalarType::Long : ScalarType::Double, join("the sums: ", kRemedy));
  if (in_kernel) {
    return {prepare_weighted(input, weight, checked, num_bins, sums), sums};
  }
  if (!checked.kept.empty() && sums.numel() > most_bytes / (size * int64_t{sizeof(int64_t)})) {
    fail(join("digits must have at most ", std::to_string(most_bytes), " bytes"));
  }
  const Tensor digits = size == 1 ? sums
                                  : allocate(
                                        input, {sums.numel(), size}, ScalarType::Long,
                                        join("the digits of sums: ", kRemedy));
  return {prepare_weighted(input, weight, checked, num_bins, digits), sums};
}

/// Gives a call the edges of its bins.
template <class AnyCall>
AnyCall with_edges(AnyCall call, const Between& between, const Tensor& edges, bool flow) {
  call.edges_tensor = between.expanded(edges);
  call.edges = between.edges_at(*call.edges_tensor);
  call.flow = {flow};
  return call;
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
  Operands operands = prepare_operands({result, input}, checked.kept, num_bins);
  Problem problem = operands.problem;
  std::swap(static_cast<View&>(problem), problem.operand(1)); // the input comes first
  return {problem, std::move(operands.tensors), expanded(gradient, wanted), result, {}, {}, {}};
}

} // namespace

void check_weight(std::string_view op, const Tensor& input, const Tensor& weight) {
  if (!weight.defined()) {
    fail(join(op, ": weight must be a torch.Tensor, got None"));
  }
  check_weight(op, describe(input), describe(weight));
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

WeightedCall prepare_weighted_histogram(
    const Tensor& input, const Tensor& edges, const Tensor& weight, const Dims& dim, bool flow) {
  const Between between = check_between(kWeightedHistogram, input, edges, dim);
  check_weight(kWeightedHistogram, input, weight);
  const int64_t num_bins = Flow{flow}.num_counts(between.bins);
  return with_edges(
      prepare_weighted(input, weight, between.checked, num_bins), between, edges, flow);
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
  UniformEdges edges = prepare_edges(input, checked, num_bins, range);
  const int64_t counts = Flow{flow}.num_counts(num_bins);
  const UniformBins bins = edges.bins();
  const bool in_kernel =
      rounds_in_kernel && rounds_in_kernel(
                              sizes_of_sums(input, weight, checked, counts),
                              Edges::all(nullptr, bins.type, bins.bins, bins.range != nullptr));
  SumsCall sums = prepare_rounded(input, weight, checked, counts, most_bytes, in_kernel);
  sums.weighted.flow = {flow};
  Operands alone =
      range ? Operands{sums.weighted.problem, {}} : prepare_operands({input}, checked.kept, counts);
  return {std::move(sums), std::move(alone), std::move(edges)};
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
  const bool in_kernel =
      rounds_in_kernel && rounds_in_kernel(
                              sizes_of_sums(input, weight, between.checked, counts),
                              Edges::all(nullptr, between.type, between.bins, between.shared));
  SumsCall call = prepare_rounded(input, weight, between.checked, counts, most_bytes, in_kernel);
  call.weighted = with_edges(std::move(call.weighted), between, *edges, flow);
  return call;
}

WeightedCall prepare_weighted_channel_histogram(
    const Tensor& input, const Tensor& weight, int64_t num_bins, const std::vector<int64_t>& dim) {
  const Checked checked = check_values_of_weights(input, weight, num_bins, dim);
  return prepare_weighted(input, weight, checked, num_bins);
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
  return with_edges(
      prepare_gradient(gradient, input, between.checked, num_bins), between, edges, flow);
}

WeightGradientCall prepare_weight_gradient_of_values(
    const Tensor& gradient, const Tensor& input, const std::vector<int64_t>& dim) {
  const int64_t num_bins = gradient.dim() == 0 ? 0 : gradient.size(gradient.dim() - 1);
  const Checked checked = check_values(kWeightGradient, describe(input), num_bins, dim);
  return prepare_gradient(gradient, input, checked, num_bins);
}

} // namespace histo
