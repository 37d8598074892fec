// Joint histograms on the CPU.
#include <optional>
#include <vector>

#include <torch/csrc/stable/library.h>

#include "cpu/kernels.h"
#include "torch/joint_calls.h"

namespace histo {
namespace {

std::vector<Tensor> edges_of_axes(
    std::vector<Tensor> inputs, std::vector<int64_t> num_bins, std::vector<double> ranges) {
  std::vector<Tensor> edges;
  for (const UniformEdges& axis : prepare_edges_of_axes(inputs, num_bins, ranges)) {
    cpu::edges_of(Problem{}, axis.bins());
    edges.push_back(axis.tensor);
  }
  return edges;
}

void write_index(const JointCall& call) {
  cpu::write_joint_index(
      call.problem, call.axes, static_cast<int64_t*>(call.result.mutable_data_ptr()));
}

Tensor joint_histogram(std::vector<Tensor> inputs, std::vector<Tensor> edges, Dims dim, bool flow) {
  const JointCall call = prepare_joint_histogram(inputs, edges, dim, flow, write_index);
  Workspace workspace(call.result);
  cpu::count_joint(call.problem, call.axes, workspace);
  return call.result;
}

Tensor weighted_joint_histogram(
    std::vector<Tensor> inputs,
    std::vector<Tensor> edges,
    const Tensor& weight,
    Dims dim,
    bool flow) {
  const JointCall call =
      prepare_weighted_joint_histogram(inputs, edges, weight, dim, flow, kMostAxes, write_index);
  Workspace workspace(call.result);
  cpu::sum_weights_joint(call.problem, call.axes, workspace);
  return call.result;
}

Tensor joint_index(std::vector<Tensor> inputs, std::vector<Tensor> edges, Dims dim, bool flow) {
  const JointCall call = prepare_joint_index(inputs, edges, dim, flow, write_index);
  write_index(call);
  return call.result;
}

} // namespace
} // namespace histo

STABLE_TORCH_LIBRARY_IMPL(histo, CPU, m) {
  m.impl("_edges_of_axes", TORCH_BOX(&histo::edges_of_axes));
  m.impl("joint_histogram", TORCH_BOX(&histo::joint_histogram));
  m.impl("weighted_joint_histogram", TORCH_BOX(&histo::weighted_joint_histogram));
  m.impl("_joint_index", TORCH_BOX(&histo::joint_index));
}
