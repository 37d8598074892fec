// Joint histograms of any coordinates over any strides: one thread takes one element after another,
// and searches the edges of each axis where they lie.
#include <algorithm>

#include "cuda/axis/search.cuh"
#include "cuda/count/dispatch.h"
#include "cuda/fill/fill.h"
#include "cuda/fill/joint.h"
#include "cuda/fill/joint_streams.h"
#include "cuda/warp.cuh"

namespace histo::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 1 << 14; // each has elements left then

/// The coordinates and axes that a kernel reads.
struct JointInput {
  View coordinates[kMostAxes];
  JointAxes axes;
  const uint8_t* valid[kMostAxes]; // edges of each axis (check_channels)
  int64_t rows;                    // of a channel
  int64_t elements;
  int64_t num_bins;
  View index; // where joint bins are written
};

/// The offset of a step of nested loops.
template <int kLoops>
__device__ __forceinline__ int64_t offset_of(const Extent (&loops)[kLoops], int64_t step) {
  int64_t offset = 0;
#pragma unroll
  for (int loop = kLoops - 1; loop > 0; --loop) {
    if (loops[loop].size > 1) {
      offset += step % loops[loop].size * loops[loop].stride;
      step /= loops[loop].size;
    }
  }
  return offset + step * loops[0].stride;
}

__device__ __forceinline__ int64_t offset_of(const View& view, int64_t channel, int64_t row) {
  return offset_of(view.channels, channel) + offset_of(view.rows, row);
}

template <class Bits>
__device__ __forceinline__ Real real_at(const View& view, int64_t offset) {
  return real_of_bits(view.type, static_cast<const Bits*>(view.data)[offset]);
}

/// The number of an element.
__device__ __forceinline__ Real element_at(const View& view, int64_t offset) {
  switch (view.type) {
    case ElementType::kBool:
    case ElementType::kUInt8:
    case ElementType::kInt8:
    case ElementType::kFloat8E4M3:
    case ElementType::kFloat8E5M2:
      return real_at<uint8_t>(view, offset);
    case ElementType::kUInt16:
    case ElementType::kInt16:
    case ElementType::kFloat16:
    case ElementType::kBFloat16:
      return real_at<uint16_t>(view, offset);
    case ElementType::kUInt32:
    case ElementType::kInt32:
    case ElementType::kFloat32:
      return real_at<uint32_t>(view, offset);
    default:
      return real_at<uint64_t>(view, offset);
  }
}

/// The slot of a number, or kNoBin.
__device__ __forceinline__ int64_t
find_slot(const Edges& edges, const Flow& flow, const uint8_t* valid, int64_t channel, Real value) {
  int64_t slot = edges.bins + 2;
  if (!is_nan(value.high)) {
    const int64_t own = edges.shared ? 0 : channel;
    if (valid[own] == 0) {
      return kNoBin;
    }
    const double low = edges.at(own, 0).high, high = edges.at(own, edges.bins).high;
    const double line = (value.high - low) * (static_cast<double>(edges.bins) / (high - low));
    const double last = static_cast<double>(edges.bins - 1);
    slot = search_edges(edges, own, value, static_cast<int64_t>(clamped(line, 0.0, last)));
  }
  const int64_t bin = flow.shown ? slot : slot - 1;
  return bin < flow.num_counts(edges.bins) ? bin : kNoBin;
}

/// The joint bin of an element, or kNoBin.
__device__ int64_t find_joint(const JointInput& in, int64_t channel, int64_t row) {
  int64_t joint = 0;
#pragma unroll 1
  for (int d = 0; d < in.axes.count; ++d) { // a search is much code, so it stands once
    const View& view = in.coordinates[d];
    const JointAxis& axis = in.axes.axes[d];
    const int64_t offset = offset_of(view, channel, row);
    int64_t slot = kNoBin;
    if (axis.is_index) {
      slot = static_cast<const int64_t*>(view.data)[offset];
    } else {
      const Real value = element_at(view, offset);
      slot = find_slot(axis.edges, in.axes.flow, in.valid[d], channel, value);
    }
    if (static_cast<uint64_t>(slot) >= static_cast<uint64_t>(axis.slots)) {
      return kNoBin;
    }
    joint = joint * axis.slots + slot;
  }
  return joint;
}

/// Where joint bins go. One of the three is not null.
struct JointResult {
  Count::Total* totals; // they are counted
  int64_t* index;       // or written, as in.index says
  int32_t* in_order;    // or written one after another
};

/// Adds 1 for each active lane, by one addition if all have the same bin.
__device__ __forceinline__ void count_lanes(Count::Total* totals, int64_t bin) {
  if (const unsigned lanes = lanes_to_act_for(bin)) {
    atomicAdd(totals + bin, Count::Total{lanes});
  }
}

__global__ __launch_bounds__(kThreads) void joint_kernel(
    const __grid_constant__ JointInput in, const __grid_constant__ JointResult result) {
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < in.elements; i += step) {
    const int64_t channel = i / in.rows, row = i - channel * in.rows;
    const int64_t bin = find_joint(in, channel, row);
    if (result.index != nullptr) {
      result.index[offset_of(in.index, channel, row)] = bin;
    } else if (result.in_order != nullptr) {
      result.in_order[i] = static_cast<int32_t>(bin);
    } else if (bin != kNoBin) {
      count_lanes(result.totals, channel * in.num_bins + bin);
    }
  }
}

void start_joint(
    const Problem& problem,
    const JointAxes& axes,
    const JointResult& result,
    const Launch& launch) {
  JointInput in{{}, axes, {}, problem.num_rows(), 0, problem.num_bins, {}};
  in.elements = problem.num_channels() * in.rows;
  if (in.elements == 0) {
    return;
  }
  in.index = problem.operand(problem.num_operands - 1);
  for (int d = 0; d < axes.count; ++d) {
    in.coordinates[d] = problem.operand(d);
    if (!axes.axes[d].is_index) {
      in.valid[d] = check_channels(axes.axes[d].edges, problem.num_channels(), launch);
    }
  }
  start(
      launch, "joint", joint_kernel,
      grid_of(std::min(ceil_div(in.elements, kThreads), kMostBlocks)), dim3(kThreads), 0, in,
      result);
}

} // namespace

void count_joint(const Problem& problem, const JointAxes& axes, const Launch& launch) {
  if (problem.num_counts() == 0) {
    return;
  }
  if (const auto plan = plan_joint(problem, axes, launch.limits)) {
    return count_joint_streams(*plan, problem, axes, launch);
  }
  const int64_t elements = problem.num_channels() * problem.num_rows();
  if (takes_index(problem, axes.count)) {
    auto* bins = static_cast<int32_t*>(launch.allocate(elements * int64_t{sizeof(int32_t)}));
    start_joint(problem, axes, {nullptr, nullptr, bins}, launch);
    const Problem of_bins = problem_of_index(
        bins, problem.num_channels(), problem.num_rows(), problem.num_bins, problem.counts);
    return count(of_bins, ValueBinning{problem.num_bins}, launch);
  }
  clear_counts(launch, problem);
  start_joint(problem, axes, {totals_of(problem), nullptr, nullptr}, launch);
}

void write_joint_index(
    const Problem& problem, const JointAxes& axes, int64_t* index, const Launch& launch) {
  start_joint(problem, axes, {nullptr, index, nullptr}, launch);
}

} // namespace histo::cuda
