// The answer to tensors that no kernel takes.
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <torch/csrc/stable/library.h>

#include "torch/arguments.h"
#include "torch/operators/refusals.h"

namespace histo {
namespace {

// Tensors that no kernel is registered for end here: sparse, quantized, other
// devices, and CUDA without the CUDA library. The checks name the error.
Tensor channel_histogram_elsewhere(
    const Tensor& input, int64_t num_bins, std::vector<int64_t> dim, std::string variant) {
  const Description description = describe(defined("channel_histogram", "input", input));
  check_channel_histogram(description, num_bins, dim, variant);
  fail_without_cuda("channel_histogram");
}

Tensor text_histogram_elsewhere(const Tensor& text, std::string variant) {
  check_text_histogram(describe(defined("text_histogram", "text", text)), variant);
  fail_without_cuda("text_histogram");
}

Tensor histogram_elsewhere(const Tensor& input, const Tensor& edges, Dims dim, bool) {
  const Description of_input = describe(defined("histogram", "input", input));
  check_numbers("histogram", of_input, dim);
  check_edges("histogram", of_input, describe(defined("histogram", "edges", edges)));
  fail_without_cuda("histogram");
}

void histogram_add_elsewhere(
    const Tensor& counts, const Tensor& input, const Tensor& edges, Dims dim, bool) {
  const Description of_input = describe(defined("histogram_add_", "input", input));
  check_numbers("histogram_add_", of_input, dim);
  check_edges("histogram_add_", of_input, describe(defined("histogram_add_", "edges", edges)));
  check_counts(of_input, describe(defined("histogram_add_", "counts", counts)));
  fail_without_cuda("histogram_add_");
}

std::tuple<Tensor, Tensor> finite_range_elsewhere(const Tensor& input, Dims dim) {
  check_numbers("finite_range", describe(defined("finite_range", "input", input)), dim);
  fail_without_cuda("finite_range");
}

Tensor uniform_edges_elsewhere(
    const Tensor& low, const Tensor& high, int64_t num_bins, std::optional<ScalarType>, bool) {
  check_bounds(
      describe(defined("uniform_edges", "low", low)),
      describe(defined("uniform_edges", "high", high)), num_bins);
  fail_without_cuda("uniform_edges");
}

Tensor quantile_elsewhere(
    const Tensor& input, const Tensor& q, Dims dim, bool, std::string interpolation, bool) {
  const Description of_input = describe(defined("quantile", "input", input));
  check_numbers("quantile", of_input, dim);
  check_quantile(of_input, describe(defined("quantile", "q", q)), interpolation);
  fail_without_cuda("quantile");
}

std::tuple<Tensor, Tensor, Tensor> summary_elsewhere(const Tensor& input, Dims dim, bool) {
  check_numbers("summarize", describe(defined("summarize", "input", input)), dim);
  fail_without_cuda("summarize");
}

Tensor channel_histogram_nested(const Tensor&, int64_t, std::vector<int64_t>, std::string) {
  fail_nested("channel_histogram", "input");
}

Tensor text_histogram_nested(const Tensor&, std::string) {
  fail_nested("text_histogram", "text");
}

Tensor histogram_nested(const Tensor&, const Tensor&, Dims, bool) {
  fail_nested("histogram", "input");
}

void histogram_add_nested(const Tensor&, const Tensor&, const Tensor&, Dims, bool) {
  fail_nested("histogram_add_", "input");
}

std::tuple<Tensor, Tensor> finite_range_nested(const Tensor&, Dims) {
  fail_nested("finite_range", "input");
}

Tensor quantile_nested(const Tensor&, const Tensor&, Dims, bool, std::string, bool) {
  fail_nested("quantile", "input");
}

std::tuple<Tensor, Tensor, Tensor> summary_nested(const Tensor&, Dims, bool) {
  fail_nested("summarize", "input");
}

void refuse_nested(torch::stable::detail::StableLibrary& m) {
  m.impl("channel_histogram", TORCH_BOX(&channel_histogram_nested));
  m.impl("text_histogram", TORCH_BOX(&text_histogram_nested));
  m.impl("histogram", TORCH_BOX(&histogram_nested));
  m.impl("histogram_add_", TORCH_BOX(&histogram_add_nested));
  m.impl("finite_range", TORCH_BOX(&finite_range_nested));
  m.impl("quantile", TORCH_BOX(&quantile_nested));
  m.impl("_summary", TORCH_BOX(&summary_nested));
  refuse_nested_weights(m);
  refuse_nested_joint(m);
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
