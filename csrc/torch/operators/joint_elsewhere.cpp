// The answer of joint histograms to tensors that no kernel takes.
#include <optional>
#include <string>
#include <vector>

#include <torch/csrc/stable/library.h>

#include "torch/arguments.h"
#include "torch/operators/refusals.h"

namespace histo {
namespace {

[[noreturn]] void refuse(
    const char* op,
    const std::vector<Tensor>& inputs,
    const std::vector<Tensor>& edges,
    const Dims& dim) {
  if (inputs.empty()) {
    fail(std::string(op) + ": inputs must hold at least one tensor, got none");
  }
  for (size_t d = 0; d < inputs.size(); ++d) {
    const Description input = describe(defined(op, "inputs", inputs[d]));
    check_numbers(op, input, dim);
    if (d < edges.size()) {
      check_edges(op, input, describe(defined(op, "edges", edges[d])));
    }
  }
  fail_without_cuda(op);
}

Tensor joint_histogram_elsewhere(
    std::vector<Tensor> inputs, std::vector<Tensor> edges, Dims dim, bool) {
  refuse("joint_histogram", inputs, edges, dim);
}

Tensor weighted_joint_histogram_elsewhere(
    std::vector<Tensor> inputs, std::vector<Tensor> edges, const Tensor& weight, Dims dim, bool) {
  const char* op = "weighted_joint_histogram";
  if (!inputs.empty()) {
    check_weight(
        op, describe(defined(op, "inputs", inputs[0])), describe(defined(op, "weight", weight)));
  }
  refuse(op, inputs, edges, dim);
}

Tensor joint_histogram_nested(std::vector<Tensor>, std::vector<Tensor>, Dims, bool) {
  fail_nested("joint_histogram", "inputs");
}

Tensor weighted_joint_histogram_nested(
    std::vector<Tensor>, std::vector<Tensor>, const Tensor&, Dims, bool) {
  fail_nested("weighted_joint_histogram", "inputs");
}

} // namespace

void refuse_nested_joint(torch::stable::detail::StableLibrary& m) {
  m.impl("joint_histogram", TORCH_BOX(&joint_histogram_nested));
  m.impl("weighted_joint_histogram", TORCH_BOX(&weighted_joint_histogram_nested));
}

} // namespace histo

STABLE_TORCH_LIBRARY_IMPL(histo, CompositeExplicitAutograd, m) {
  m.impl("joint_histogram", TORCH_BOX(&histo::joint_histogram_elsewhere));
  m.impl("weighted_joint_histogram", TORCH_BOX(&histo::weighted_joint_histogram_elsewhere));
}
