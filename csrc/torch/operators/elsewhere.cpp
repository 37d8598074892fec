// The answer to tensors that no kernel takes.
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <torch/csrc/stable/library.h>

#include "torch/arguments.h"
#include "torch/messages.h"

namespace histo {
namespace {

[[noreturn]] void fail_without_cuda(std::string_view op) {
  fail(join(
      op,
      ": got a CUDA tensor, but no CUDA kernels are loaded; build torch_histo with the CUDA "
      "Toolkit (TORCH_HISTO_CUDA=1 pip install --no-build-isolation .) and use a CUDA build of "
      "torch"));
}

[[noreturn]] void fail_nested(std::string_view op, std::string_view argument) {
  fail(join(
      op, ": ", argument,
      " must be a dense tensor, got a nested one: pass the tensors of its unbind()"));
}

// Tensors that no kernel is registered for end here: sparse, quantized, other
// devices, and CUDA without the CUDA library. The checks name the error.
Tensor channel_histogram_elsewhere(
    const Tensor& input, int64_t num_bins, std::vector<int64_t> dim, std::string variant) {
  const Description description = describe(kChannelHistogram, "input", input);
  check_channel_histogram(description, num_bins, dim, variant);
  fail_without_cuda(kChannelHistogram);
}

Tensor text_histogram_elsewhere(const Tensor& text, std::string variant) {
  check_text_histogram(describe(kTextHistogram, "text", text), variant);
  fail_without_cuda(kTextHistogram);
}

Tensor histogram_elsewhere(const Tensor& input, const Tensor& edges, Dims dim, bool) {
  const Description of_input = describe(kHistogram, "input", input);
  check_numbers(kHistogram, of_input, dim);
  check_edges(kHistogram, of_input, describe(kHistogram, "edges", edges));
  fail_without_cuda(kHistogram);
}

void histogram_add_elsewhere(
    const Tensor& counts, const Tensor& input, const Tensor& edges, Dims dim, bool) {
  const Description of_input = describe(kHistogramAdd, "input", input);
  check_numbers(kHistogramAdd, of_input, dim);
  check_edges(kHistogramAdd, of_input, describe(kHistogramAdd, "edges", edges));
  check_counts(of_input, describe(kHistogramAdd, "counts", counts));
  fail_without_cuda(kHistogramAdd);
}

std::tuple<Tensor, Tensor> finite_range_elsewhere(const Tensor& input, Dims dim) {
  check_numbers(kFiniteRange, describe(kFiniteRange, "input", input), dim);
  fail_without_cuda(kFiniteRange);
}

Tensor uniform_edges_elsewhere(
    const Tensor& low, const Tensor& high, int64_t num_bins, std::optional<ScalarType>, bool) {
  check_bounds(
      describe(kUniformEdges, "low", low), describe(kUniformEdges, "high", high), num_bins);
  fail_without_cuda(kUniformEdges);
}

Tensor quantile_elsewhere(
    const Tensor& input, const Tensor& q, Dims dim, bool, std::string interpolation, bool) {
  const Description of_input = describe(kQuantile, "input", input);
  check_numbers(kQuantile, of_input, dim);
  check_quantile(of_input, describe(kQuantile, "q", q), interpolation);
  fail_without_cuda(kQuantile);
}

std::tuple<Tensor, Tensor, Tensor> summary_elsewhere(const Tensor& input, Dims dim, bool) {
  check_numbers(kSummarize, describe(kSummarize, "input", input), dim);
  fail_without_cuda(kSummarize);
}

Tensor weighted_histogram_elsewhere(
    const Tensor& input, const Tensor& edges, const Tensor& weight, Dims dim, bool) {
  const std::string_view op = kWeightedHistogram;
  const Description of_input = describe(op, "input", input);
  check_numbers(op, of_input, dim);
  check_edges(op, of_input, describe(op, "edges", edges));
  check_weight(op, of_input, describe(op, "weight", weight));
  fail_without_cuda(op);
}

Tensor weighted_channel_histogram_elsewhere(
    const Tensor& input, const Tensor& weight, int64_t num_bins, std::vector<int64_t> dim) {
  const std::string_view op = kWeightedChannelHistogram;
  const Description of_input = describe(op, "input", input);
  check_values(op, of_input, num_bins, dim);
  check_weight(op, of_input, describe(op, "weight", weight));
  fail_without_cuda(op);
}

[[noreturn]] void refuse_digits(std::string_view op, const Tensor& digits) {
  const Description of_digits = describe(op, "digits", digits);
  check_digits(op, of_digits, digits.dim() == 0 ? 0 : digits.size(digits.dim() - 1));
  fail_without_cuda(op);
}

Tensor sum_of_digits_elsewhere(const Tensor& digits) {
  refuse_digits(kSumOfDigits, digits);
}

Tensor normalize_digits_elsewhere(const Tensor& digits) {
  refuse_digits(kNormalizeDigits, digits);
}

[[noreturn]] void refuse_joint(
    std::string_view op,
    const std::vector<Tensor>& inputs,
    const std::vector<Tensor>& edges,
    const Dims& dim) {
  if (inputs.empty()) {
    fail(join(op, ": inputs must hold at least one tensor, got none"));
  }
  for (size_t d = 0; d < inputs.size(); ++d) {
    const Description input = describe(op, "inputs", inputs[d]);
    check_numbers(op, input, dim);
    if (d < edges.size()) {
      check_edges(op, input, describe(op, "edges", edges[d]));
    }
  }
  fail_without_cuda(op);
}

Tensor joint_histogram_elsewhere(
    std::vector<Tensor> inputs, std::vector<Tensor> edges, Dims dim, bool) {
  refuse_joint(kJointHistogram, inputs, edges, dim);
}

Tensor weighted_joint_histogram_elsewhere(
    std::vector<Tensor> inputs, std::vector<Tensor> edges, const Tensor& weight, Dims dim, bool) {
  const std::string_view op = kWeightedJointHistogram;
  if (!inputs.empty()) {
    check_weight(op, describe(op, "inputs", inputs[0]), describe(op, "weight", weight));
  }
  refuse_joint(op, inputs, edges, dim);
}

Tensor channel_histogram_nested(const Tensor&, int64_t, std::vector<int64_t>, std::string) {
  fail_nested(kChannelHistogram, "input");
}

Tensor text_histogram_nested(const Tensor&, std::string) {
  fail_nested(kTextHistogram, "text");
}

Tensor histogram_nested(const Tensor&, const Tensor&, Dims, bool) {
  fail_nested(kHistogram, "input");
}

void histogram_add_nested(const Tensor&, const Tensor&, const Tensor&, Dims, bool) {
  fail_nested(kHistogramAdd, "input");
}

std::tuple<Tensor, Tensor> finite_range_nested(const Tensor&, Dims) {
  fail_nested(kFiniteRange, "input");
}

Tensor quantile_nested(const Tensor&, const Tensor&, Dims, bool, std::string, bool) {
  fail_nested(kQuantile, "input");
}

std::tuple<Tensor, Tensor, Tensor> summary_nested(const Tensor&, Dims, bool) {
  fail_nested(kSummarize, "input");
}

Tensor weighted_histogram_nested(const Tensor&, const Tensor&, const Tensor&, Dims, bool) {
  fail_nested(kWeightedHistogram, "input");
}

Tensor weighted_channel_histogram_nested(
    const Tensor&, const Tensor&, int64_t, std::vector<int64_t>) {
  fail_nested(kWeightedChannelHistogram, "input");
}

Tensor joint_histogram_nested(std::vector<Tensor>, std::vector<Tensor>, Dims, bool) {
  fail_nested(kJointHistogram, "inputs");
}

Tensor weighted_joint_histogram_nested(
    std::vector<Tensor>, std::vector<Tensor>, const Tensor&, Dims, bool) {
  fail_nested(kWeightedJointHistogram, "inputs");
}

void refuse_nested(torch::stable::detail::StableLibrary& m) {
  m.impl("channel_histogram", TORCH_BOX(&channel_histogram_nested));
  m.impl("text_histogram", TORCH_BOX(&text_histogram_nested));
  m.impl("histogram", TORCH_BOX(&histogram_nested));
  m.impl("histogram_add_", TORCH_BOX(&histogram_add_nested));
  m.impl("finite_range", TORCH_BOX(&finite_range_nested));
  m.impl("quantile", TORCH_BOX(&quantile_nested));
  m.impl("_summary", TORCH_BOX(&summary_nested));
  m.impl("weighted_histogram", TORCH_BOX(&weighted_histogram_nested));
  m.impl("weighted_channel_histogram", TORCH_BOX(&weighted_channel_histogram_nested));
  m.impl("joint_histogram", TORCH_BOX(&joint_histogram_nested));
  m.impl("weighted_joint_histogram", TORCH_BOX(&weighted_joint_histogram_nested));
}

} // namespace
} // namespace histo

STABLE_TORCH_LIBRARY_IMPL(histo, CompositeExplicitAutograd, m) {
  m.impl("channel_histogram", TORCH_BOX(&histo::channel_histogram_elsewhere));
  m.impl("text_histogram", TORCH_BOX(&histo::text_histogram_elsewhere));
  m.impl("histogram", TORCH_BOX(&histo::histogram_elsewhere));
  m.impl("histogram_add_", TORCH_BOX(&histo::histogram_add_elsewhere));
  m.impl("finite_range", TORCH_BOX(&histo::finite_range_elsewhere));
  m.impl("uniform_edges", TORCH_BOX(&histo::uniform_edges_elsewhere));
  m.impl("quantile", TORCH_BOX(&histo::quantile_elsewhere));
  m.impl("_summary", TORCH_BOX(&histo::summary_elsewhere));
  m.impl("weighted_histogram", TORCH_BOX(&histo::weighted_histogram_elsewhere));
  m.impl("weighted_channel_histogram", TORCH_BOX(&histo::weighted_channel_histogram_elsewhere));
  m.impl("sum_of_digits", TORCH_BOX(&histo::sum_of_digits_elsewhere));
  m.impl("normalize_digits", TORCH_BOX(&histo::normalize_digits_elsewhere));
  m.impl("joint_histogram", TORCH_BOX(&histo::joint_histogram_elsewhere));
  m.impl("weighted_joint_histogram", TORCH_BOX(&histo::weighted_joint_histogram_elsewhere));
}

// The first key takes both layouts, strided and jagged. The other two take tensors that were made
// in inference mode.
STABLE_TORCH_LIBRARY_IMPL(histo, AutogradNestedTensor, m) {
  histo::refuse_nested(m);
}
STABLE_TORCH_LIBRARY_IMPL(histo, NestedTensorCPU, m) {
  histo::refuse_nested(m);
}
STABLE_TORCH_LIBRARY_IMPL(histo, NestedTensorCUDA, m) {
  histo::refuse_nested(m);
}
