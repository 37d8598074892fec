// Joint histograms on CUDA.
#include <optional>
#include <vector>

#include <torch/csrc/stable/library.h>

#include "cuda/fill/fill.h"
#include "cuda/fill/joint.h"
#include "cuda/fill/weights.h"
#include "torch/joint_calls.h"
#include "torch/operators/on_device.h"

namespace histo {
namespace {

std::vector<Tensor> edges_of_axes(
    std::vector<Tensor> inputs, std::vector<int64_t> num_bins, std::vector<double> ranges) {
  const std::vector<UniformEdges> prepared = prepare_edges_of_axes(inputs, num_bins, ranges);
  std::vector<UniformBins> axes; // they point into `prepared`
  std::vector<Tensor> edges;
  for (const UniformEdges& axis : prepared) {
    axes.push_back(axis.bins());
    edges.push_back(axis.tensor);
  }
  if (!axes.empty()) {
    on_device(inputs[0], [&](const cuda::Launch& launch) { cuda::edges_of_axes(axes, launch); });
  }
  return edges;
}

void write_index(const JointCall& call) {
  on_device(call.result, [&](const cuda::Launch& launch) {
    cuda::write_joint_index(
        call.problem, call.axes, static_cast<int64_t*>(call.result.mutable_data_ptr()), launch);
  });
}

Tensor joint_histogram(std::vector<Tensor> inputs, std::vector<Tensor> edges, Dims dim, bool flow) {
  const JointCall call = prepare_joint_histogram(inputs, edges, dim, flow, write_index);
  on_device(call.result, [&](const cuda::Launch& launch) {
    cuda::count_joint(call.problem, call.axes, launch);
  });
  return call.result;
}

Tensor weighted_joint_histogram(
    std::vector<Tensor> inputs,
    std::vector<Tensor> edges,
    const Tensor& weight,
    Dims dim,
    bool flow) {
  // The joint bins of all coordinates are integers, whose weights are added up.
  const JointCall call =
      prepare_weighted_joint_histogram(inputs, edges, weight, dim, flow, 0, write_index);
  on_device(call.result, [&](const cuda::Launch& launch) {
    const Problem& problem = call.problem;
    if (problem.num_results() > 0 && problem.num_rows() > 0) {
      cuda::sum_weights_of_values(problem, nullptr, launch);
    } else {
      cuda::fill_zero(launch, problem.counts, problem.num_results() * int64_t{sizeof(int64_t)});
    }
  });
  return call.result;
}

Tensor joint_index(std::vector<Tensor> inputs, std::vector<Tensor> edges, Dims dim, bool flow) {
  const JointCall call = prepare_joint_index(inputs, edges, dim, flow, write_index);
  write_index(call);
  return call.result;
}

} // namespace
} // namespace histo

STABLE_TORCH_LIBRARY_IMPL(histo, CUDA, m) {
  m.impl("_edges_of_axes", TORCH_BOX(&histo::edges_of_axes));
  m.impl("joint_histogram", TORCH_BOX(&histo::joint_histogram));
  m.impl("weighted_joint_histogram", TORCH_BOX(&histo::weighted_joint_histogram));
  m.impl("_joint_index", TORCH_BOX(&histo::joint_index));
}
