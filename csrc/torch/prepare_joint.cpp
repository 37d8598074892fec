// The tensors of joint histograms -> what their kernels take.
#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/weights.h"
#include "torch/describe.h"
#include "torch/joint_calls.h"
#include "torch/memory.h"
#include "torch/messages.h"
#include "torch/prepare.h"

namespace histo {

namespace {

/// A tensor of coordinates, and the axis of their bins.
struct Coordinate {
  Tensor values;
  JointAxis axis;
  std::optional<Tensor> edges; // what `axis` points into
};

/// The coordinates of a call, which have the same sizes.
struct Coordinates {
  std::string_view op;
  std::vector<Coordinate> all;
  Checked checked;
  Flow flow;

  const Tensor& first() const {
    return all.front().values;
  }
};

/// Runs a check of coordinate d. Its errors name one of the lists.
template <class Check>
auto check_coordinate(std::string_view op, size_t d, const Check& check) {
  try {
    return check();
  } catch (const std::runtime_error& error) {
    std::string message = error.what();
    for (const auto& [own, list] : {std::pair("input", "inputs"), std::pair("edges", "edges")}) {
      const std::string start = join(op, ": ", own, " ");
      if (message.compare(0, start.size(), start) == 0) {
        message.replace(0, start.size(), join(op, ": ", list, "[", std::to_string(d), "] "));
      }
    }
    fail(message);
  }
}

void check_lists(
    std::string_view op, const std::vector<Tensor>& inputs, const std::vector<Tensor>& edges) {
  if (inputs.empty()) {
    fail(join(op, ": inputs must hold at least one tensor, got none"));
  }
  if (edges.size() != inputs.size()) {
    fail(join(
        op, ": edges must hold as many tensors as inputs, ", std::to_string(inputs.size()),
        ", got ", std::to_string(edges.size())));
  }
}

void check_beside_first(std::string_view op, const std::vector<Tensor>& inputs, size_t d) {
  const Description first = describe(inputs[0]), own = describe(inputs[d]);
  const std::string name = join("inputs[", std::to_string(d), "]");
  check_device(op, name, own, first, "", "inputs[0]");
  check_same_gpu(op, name, inputs[d], inputs[0]);
  if (sizes_of(inputs[d]) != sizes_of(inputs[0])) {
    fail(join(
        op, ": ", name, " must have the sizes of inputs[0], ", join_numbers(sizes_of(inputs[0])),
        ", got ", join_numbers(sizes_of(inputs[d]))));
  }
}

/// Throws if the joint bins cannot be counted in 63 bits.
void check_num_slots(const Coordinates& coordinates) {
  int64_t product = 1;
  std::string factors;
  bool overflows = false;
  for (const Coordinate& coordinate : coordinates.all) {
    overflows |= __builtin_mul_overflow(product, coordinate.axis.slots, &product);
    factors += (factors.empty() ? "" : " x ") + std::to_string(coordinate.axis.slots);
  }
  if (overflows) {
    fail(join(coordinates.op, ": edges must make fewer than 2^63 joint bins, got ", factors));
  }
}

Coordinates check_joint(
    std::string_view op,
    const std::vector<Tensor>& inputs,
    const std::vector<Tensor>& edges,
    const Dims& dim,
    bool flow) {
  check_lists(op, inputs, edges);
  Coordinates coordinates{op, {}, {}, {flow}};
  for (size_t d = 0; d < inputs.size(); ++d) {
    const Between between =
        check_coordinate(op, d, [&] { return check_between(op, inputs[d], edges[d], dim); });
    check_beside_first(op, inputs, d);
    Coordinate coordinate{inputs[d], {Flow{flow}.num_counts(between.bins), false, {}}, {}};
    coordinate.edges = between.expanded(edges[d]);
    coordinate.axis.edges = between.edges_at(*coordinate.edges);
    coordinates.all.push_back(std::move(coordinate));
    if (d == 0) {
      coordinates.checked = between.checked;
    }
  }
  check_num_slots(coordinates);
  return coordinates;
}

/// The call of a problem that reads `tensors`, with the axes of the coordinates.
JointCall prepare_axes(
    const Coordinates& coordinates, std::vector<Tensor> tensors, const Tensor& result) {
  JointAxes axes{};
  std::vector<Tensor> edges;
  axes.flow = coordinates.flow;
  for (const Coordinate& coordinate : coordinates.all) {
    axes.axes[axes.count++] = coordinate.axis;
    if (coordinate.edges) {
      edges.push_back(*coordinate.edges);
    }
  }
  return {
      call_of(std::move(tensors), coordinates.checked, axes.num_slots(), result), axes,
      std::move(edges)};
}

std::vector<Tensor> values_of(const Coordinates& coordinates) {
  std::vector<Tensor> values;
  std::transform(
      coordinates.all.begin(), coordinates.all.end(), std::back_inserter(values),
      [](const Coordinate& coordinate) { return coordinate.values; });
  return values;
}

/// A call that writes the joint bins of up to kMostAxes coordinates.
JointCall prepare_index(const Coordinates& coordinates) {
  const Tensor result = allocate_by_channels(
      coordinates.first(), coordinates.checked, ScalarType::Long, "the joint bins of elements");
  std::vector<Tensor> tensors = values_of(coordinates);
  // The result comes first, so that it is no copy. Coordinates come first in the call.
  tensors.insert(tensors.begin(), result);
  JointCall call = prepare_axes(coordinates, std::move(tensors), result);
  for (int d = 0; d < call.axes.count; ++d) {
    std::swap(call.problem.operand(d), call.problem.operand(d + 1));
  }
  return call;
}

/// Writes joint bins until there are at most `most` coordinates. With 0, they are joint bins alone.
void merge_coordinates(Coordinates& coordinates, size_t most, const WriteJointIndex& write) {
  std::vector<Coordinate>& all = coordinates.all;
  while (all.size() > std::max<size_t>(most, 1) || (most == 0 && !all.front().axis.is_index)) {
    const auto end = all.begin() + static_cast<ptrdiff_t>(std::min<size_t>(all.size(), kMostAxes));
    const Coordinates part{
        coordinates.op, {all.begin(), end}, coordinates.checked, coordinates.flow};
    const JointCall call = prepare_index(part);
    write(call);
    all.erase(all.begin() + 1, end);
    all.front() = {call.result, {call.axes.num_slots(), true, {}}, std::nullopt};
  }
}

std::vector<int64_t> result_sizes(const Coordinates& coordinates) {
  std::vector<int64_t> sizes = kept_sizes(coordinates.first(), coordinates.checked);
  for (const Coordinate& coordinate : coordinates.all) {
    sizes.push_back(coordinate.axis.slots);
  }
  return sizes;
}

} // namespace

std::vector<UniformEdges> prepare_edges_of_axes(
    const std::vector<Tensor>& inputs,
    const std::vector<int64_t>& num_bins,
    const std::vector<double>& ranges) {
  const std::string_view op = "_edges_of_axes";
  const size_t axes = inputs.size();
  if (num_bins.size() != axes || ranges.size() != 2 * axes) {
    fail(join(
        op, ": num_bins and ranges must hold one number and two for each of ", std::to_string(axes),
        " inputs, got ", std::to_string(num_bins.size()), " and ", std::to_string(ranges.size())));
  }
  std::vector<UniformEdges> edges;
  for (size_t d = 0; d < axes; ++d) {
    const Checked checked = check_numbers(op, describe(inputs[d]), std::nullopt);
    check_beside_first(op, inputs, d);
    edges.push_back(prepare_edges(
        inputs[d], checked, num_bins[d], std::vector<double>{ranges[2 * d], ranges[2 * d + 1]}));
  }
  return edges;
}

JointCall prepare_joint_histogram(
    const std::vector<Tensor>& inputs,
    const std::vector<Tensor>& edges,
    const Dims& dim,
    bool flow,
    const WriteJointIndex& write) {
  Coordinates coordinates = check_joint(kJointHistogram, inputs, edges, dim, flow);
  // The counts come first: memory may be too small for the joint bins of elements.
  const Tensor counts =
      allocate(inputs[0], result_sizes(coordinates), ScalarType::Long, kUseOfCounts);
  merge_coordinates(coordinates, kMostAxes, write);
  return prepare_axes(coordinates, values_of(coordinates), counts);
}

JointCall prepare_weighted_joint_histogram(
    const std::vector<Tensor>& inputs,
    const std::vector<Tensor>& edges,
    const Tensor& weight,
    const Dims& dim,
    bool flow,
    size_t most_axes,
    const WriteJointIndex& write) {
  const std::string_view op = kWeightedJointHistogram;
  Coordinates coordinates = check_joint(op, inputs, edges, dim, flow);
  check_weight(op, inputs[0], weight);
  const int size = sum_layout(*element_type(dtype_name(weight.scalar_type()))).size();
  std::vector<int64_t> sizes = result_sizes(coordinates);
  sizes.push_back(size);
  const Tensor digits = allocate(inputs[0], sizes, ScalarType::Long, kUseOfDigits);
  merge_coordinates(coordinates, most_axes, write);
  std::vector<Tensor> tensors = values_of(coordinates);
  tensors.push_back(weight);
  JointCall call = prepare_axes(coordinates, std::move(tensors), digits);
  call.problem.sum_size = size;
  return call;
}

JointCall prepare_joint_index(
    const std::vector<Tensor>& inputs,
    const std::vector<Tensor>& edges,
    const Dims& dim,
    bool flow,
    const WriteJointIndex& write) {
  Coordinates coordinates = check_joint(kJointIndex, inputs, edges, dim, flow);
  merge_coordinates(coordinates, kMostAxes, write);
  return prepare_index(coordinates);
}

} // namespace histo
