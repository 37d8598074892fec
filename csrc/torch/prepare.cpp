// Tensors -> problems, with the memory of the results.
#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include <torch/csrc/stable/ops.h>

#include "core/uniform_edges.h"
#include "cpu/float_mode.h"
#include "torch/arguments.h"
#include "torch/counts.h"
#include "torch/describe.h"
#include "torch/memory.h"
#include "torch/messages.h"
#include "torch/prepare.h"

namespace histo {

namespace {

/// Subnormal numbers are numbers, whatever torch.set_flush_denormal says.
Tensor exact_double(const Tensor& q) {
  const cpu::ExactFloats exact;
  return torch::stable::contiguous(torch::stable::to(q, ScalarType::Double));
}

OperandShape shape_of(const Tensor& tensor) {
  OperandShape shape{*element_type(dtype_name(tensor.scalar_type())), {}};
  shape.dimensions.reserve(static_cast<size_t>(tensor.dim()));
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    shape.dimensions.push_back({tensor.size(d), tensor.stride(d)});
  }
  return shape;
}

/// Whether it is a float of up to 32 bits, whose edges are float32.
bool fits_in_float32(ElementType type) {
  return !is_integer(type) && type != ElementType::kFloat64;
}

/// A call whose counts are allocated first: memory may be too small for a copy of the input.
Call prepare(
    const Tensor& input, const Checked& checked, int64_t num_counts, std::string_view use) {
  const std::vector<int64_t> sizes = kept_sizes(input, checked, num_counts);
  return call_of({input}, checked, num_counts, allocate(input, sizes, ScalarType::Long, use));
}

/// The sizes that two tensors expand to, or none.
std::vector<int64_t> broadcast(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  const auto& longer = a.size() < b.size() ? b : a;
  const auto& shorter = a.size() < b.size() ? a : b;
  std::vector<int64_t> sizes = longer;
  for (size_t i = 0; i < shorter.size(); ++i) {
    int64_t& size = sizes[sizes.size() - 1 - i];
    const int64_t other = shorter[shorter.size() - 1 - i];
    if (size != other && size != 1 && other != 1) {
      return {};
    }
    size = size == 1 ? other : size;
  }
  return sizes;
}

/// A call whose counts `counts_of(sizes)` gives: those of the kept dimensions, then a channel's.
template <class CountsOf>
EdgesCall prepare_between(
    std::string_view op,
    const Tensor& input,
    const Tensor& edges,
    const Dims& dim,
    bool flow,
    const CountsOf& counts_of) {
  const Between between = check_between(op, input, edges, dim);
  const int64_t num_counts = Flow{flow}.num_counts(between.bins);
  const Tensor counts = counts_of(kept_sizes(input, between.checked, num_counts));
  EdgesCall call{call_of({input}, between.checked, num_counts, counts), {}, {}, {}};
  between.put(edges, flow, call);
  return call;
}

/// A range of numbers, which 0.5 more on either side widen if both are equal.
std::vector<double> checked_range(std::vector<double> range) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (range.size() != 2 ||
      !(-kInfinity < range[0] && range[0] <= range[1] && range[1] < kInfinity)) {
    std::string got;
    for (double number : range) {
      got += (got.empty() ? "" : ", ") + std::to_string(number);
    }
    fail(join(
        kHistogram, ": range must be two finite numbers, the first not above the second, got [",
        got, "]"));
  }
  if (range[0] == range[1]) {
    range_of_extremes(range[0], range[1]);
  }
  return range;
}

} // namespace

void check_same_gpu(
    std::string_view op, std::string_view argument, const Tensor& tensor, const Tensor& other) {
  if (tensor.get_device_index() != other.get_device_index()) {
    fail(join(
        op, ": ", argument, " must be on GPU ", std::to_string(other.get_device_index()), ", got ",
        std::to_string(tensor.get_device_index())));
  }
}

bool broadcasts(const std::vector<int64_t>& from, const std::vector<int64_t>& to) {
  if (from.size() > to.size()) {
    return false;
  }
  return std::equal(from.rbegin(), from.rend(), to.rbegin(), [](int64_t a, int64_t b) {
    return a == b || a == 1;
  });
}

Between check_between(
    std::string_view op, const Tensor& input, const Tensor& edges, const Dims& dim) {
  const Description of_input = describe(input), of_edges = describe(edges);
  Between between{check_numbers(op, of_input, dim), 0, {}, {}, false};
  check_edges(op, of_input, of_edges);
  check_same_gpu(op, "edges", edges, input);
  const std::vector<int64_t> given = sizes_of(edges);
  between.bins = given.back() - 1;
  if (between.bins < 1) {
    fail(join(
        op, ": edges must hold at least two edges in the last dimension, got ",
        std::to_string(given.back())));
  }
  between.sizes = kept_sizes(input, between.checked, between.bins + 1);
  between.shared =
      std::all_of(given.begin(), given.end() - 1, [](int64_t size) { return size == 1; });
  if (!broadcasts(given, between.sizes)) {
    fail(join(
        op,
        ": edges must be [n + 1], or have sizes that broadcast to the kept dimensions "
        "and n + 1, ",
        join_numbers(between.sizes), ", got ", join_numbers(given)));
  }
  if (between.shared) {
    between.sizes = {between.bins + 1};
  }
  between.type = *element_type(of_edges.dtype);
  return between;
}

Tensor Between::expanded(const Tensor& edges) const {
  return histo::expanded(edges, sizes);
}

Edges Between::edges_at(const Tensor& expanded_edges) const {
  return Edges::all(expanded_edges.const_data_ptr(), type, bins, shared);
}

void Between::put(const Tensor& edges, bool flow, EdgesCall& call) const {
  call.edges_tensor = expanded(edges);
  call.edges = edges_at(*call.edges_tensor);
  call.flow = {flow};
}

std::vector<int64_t> kept_sizes(const Tensor& input, const Checked& checked, int64_t last) {
  std::vector<int64_t> sizes = kept_sizes(input, checked);
  sizes.push_back(last);
  return sizes;
}

std::vector<int64_t> kept_sizes(const Tensor& input, const Checked& checked) {
  std::vector<int64_t> sizes;
  sizes.reserve(checked.kept.size() + 2); // a result has a dimension more, or two
  for (int64_t d : checked.kept) {
    sizes.push_back(input.size(d));
  }
  return sizes;
}

Operands prepare_operands(
    std::vector<Tensor> tensors, const std::vector<int64_t>& kept, int64_t num_counts) {
  std::vector<OperandShape> shapes;
  std::transform(tensors.begin(), tensors.end(), std::back_inserter(shapes), shape_of);
  Copies copies;
  Problem problem = loops_as_problem(shapes, kept, num_counts, copies);
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!copies[i].empty()) {
      tensors[i] = contiguous_copy(tensors[i], copies[i]);
    }
    problem.operand(static_cast<int>(i)).data = tensors[i].const_data_ptr();
  }
  return {problem, std::move(tensors)};
}

Call call_of(
    std::vector<Tensor> tensors, const Checked& checked, int64_t num_bins, const Tensor& result) {
  Call call{prepare_operands(std::move(tensors), checked.kept, num_bins), result};
  call.problem.counts = data_of<int64_t>(result);
  return call;
}

VariantCall prepare_channel_histogram(
    const Tensor& input,
    int64_t num_bins,
    const std::vector<int64_t>& dim,
    std::string_view variant) {
  const CheckedVariant checked = check_channel_histogram(describe(input), num_bins, dim, variant);
  const char* use = "the counts: pass a smaller num_bins, or fewer channels at a time";
  return {prepare(input, checked, num_bins, use), checked.variant};
}

VariantCall prepare_text_histogram(const Tensor& text, std::string_view variant) {
  const CheckedVariant checked = check_text_histogram(describe(text), variant);
  return {prepare(text, checked, LetterBinning::num_bins, "the counts"), checked.variant};
}

EdgesCall prepare_histogram(const Tensor& input, const Tensor& edges, const Dims& dim, bool flow) {
  return prepare_between(kHistogram, input, edges, dim, flow, [&](const auto& sizes) {
    return allocate(input, sizes, ScalarType::Long, kUseOfCounts);
  });
}

HistogramAddCall prepare_histogram_add(
    const Tensor& counts, const Tensor& input, const Tensor& edges, const Dims& dim, bool flow) {
  std::optional<Tensor> terms;
  const auto counts_of = [&](std::vector<int64_t> sizes) {
    check_counts(counts, input, sizes);
    mark_changed(kHistogramAdd, "counts", counts);
    if (counts.is_contiguous() && !share_memory(counts, input) && !share_memory(counts, edges)) {
      return counts;
    }
    sizes.insert(sizes.begin(), 2);
    terms = allocate(input, sizes, ScalarType::Long, kUseOfCounts);
    return torch::stable::select(*terms, 0, 1);
  };
  EdgesCall call = prepare_between(kHistogramAdd, input, edges, dim, flow, counts_of);
  call.problem.adds = !terms;
  return {std::move(call), terms};
}

UniformEdges prepare_edges(
    const Tensor& input, const Checked& checked, int64_t num_bins, const GivenRange& range) {
  if (num_bins < 1) {
    fail(join(kHistogram, ": bins must be at least 1, got ", std::to_string(num_bins)));
  }
  std::vector<double> ends = range ? checked_range(*range) : std::vector<double>();
  const std::vector<int64_t> shape =
      !range ? kept_sizes(input, checked, num_bins + 1) : std::vector<int64_t>{num_bins + 1};
  const bool in_float32 = fits_in_float32(checked.element);
  return {
      num_bins, std::move(ends),
      allocate(input, shape, in_float32 ? ScalarType::Float : ScalarType::Double, "the edges"),
      in_float32 ? ElementType::kFloat32 : ElementType::kFloat64};
}

UniformCall prepare_uniform_histogram(
    const Tensor& input, int64_t num_bins, const GivenRange& range, const Dims& dim, bool flow) {
  const Checked checked = check_numbers(kHistogram, describe(input), dim);
  UniformEdges edges = prepare_edges(input, checked, num_bins, range);
  return {prepare(input, checked, Flow{flow}.num_counts(num_bins), kUseOfCounts), std::move(edges)};
}

EdgesOfCall prepare_edges_of(
    const Tensor& input, int64_t num_bins, const GivenRange& range, const Dims& dim) {
  const Checked checked = check_numbers(kHistogram, describe(input), dim);
  return {
      prepare_operands({input}, checked.kept, 1), prepare_edges(input, checked, num_bins, range)};
}

RangeCall prepare_finite_range(const Tensor& input, const Dims& dim) {
  const Checked checked = check_numbers(kFiniteRange, describe(input), dim);
  const std::vector<int64_t> shape = kept_sizes(input, checked);
  const bool in_float32 = fits_in_float32(checked.element);
  const ScalarType dtype = in_float32 ? ScalarType::Float : ScalarType::Double;
  return {
      prepare_operands({input}, checked.kept, 1), allocate(input, shape, dtype, "the extremes"),
      allocate(input, shape, dtype, "the extremes"), in_float32};
}

UniformEdgesCall prepare_uniform_edges(
    const Tensor& low,
    const Tensor& high,
    int64_t num_bins,
    std::optional<ScalarType> given,
    bool in_float32) {
  const ScalarType dtype = given.value_or(in_float32 ? ScalarType::Float : ScalarType::Double);
  const Description of_low = describe(low);
  check_bounds(of_low, describe(high), num_bins);
  check_edge_dtype(dtype_name(dtype));
  check_same_gpu(kUniformEdges, "high", high, low);
  std::vector<int64_t> shape = broadcast(sizes_of(low), sizes_of(high));
  if (shape.empty() && (low.dim() > 0 || high.dim() > 0)) {
    fail(join(
        kUniformEdges, ": high must have sizes that broadcast with those of low, ",
        join_numbers(sizes_of(low)), ", got ", join_numbers(sizes_of(high))));
  }
  UniformEdgesCall call{expanded(low, shape), expanded(high, shape), low, 1, num_bins, {}, {}};
  for (int64_t size : shape) {
    call.rows *= size;
  }
  shape.push_back(num_bins + 1);
  call.edges = allocate(low, shape, dtype, "the edges");
  call.bounds_in_float32 = of_low.dtype == "float32";
  call.edges_in_float32 = dtype == ScalarType::Float;
  return call;
}

QuantileCall prepare_quantile(
    const Tensor& input,
    const Tensor& q,
    const Dims& dim,
    bool keepdim,
    std::string_view interpolation,
    bool ignore_nan) {
  const Description of_input = describe(input);
  const Checked checked = check_numbers(kQuantile, of_input, dim);
  const Interpolation rule = check_quantile(of_input, describe(q), interpolation);
  check_same_gpu(kQuantile, "q", q, input);
  std::vector<int64_t> shape = sizes_of(q);
  int64_t rows = 1;
  for (int64_t d = 0; d < input.dim(); ++d) {
    const bool keeps = std::find(checked.kept.begin(), checked.kept.end(), d) != checked.kept.end();
    rows *= keeps ? 1 : input.size(d);
    if (keeps || keepdim) {
      shape.push_back(keeps ? input.size(d) : 1);
    }
  }
  if (rows == 0) {
    fail(join(
        kQuantile, ": input must have at least one element in each slice over dim, got sizes ",
        join_numbers(sizes_of(input))));
  }
  const bool takes_floats = !is_integer(checked.element);
  // torch.quantile takes no more: float32 no longer holds all ranks.
  constexpr int64_t kMostFloatRanks = int64_t{1} << 24;
  const bool float64_ranks =
      !takes_floats || checked.element == ElementType::kFloat64 || rows > kMostFloatRanks;

  const ScalarType dtype = input.scalar_type();
  const ScalarType rank_dtype = float64_ranks ? ScalarType::Double : ScalarType::Float;
  Operands operands = prepare_operands({input}, checked.kept, 1);
  QuantileCall call{
      {operands.problem, nullptr, q.numel(), float64_ranks, rule, ignore_nan, nullptr, nullptr,
       nullptr},
      std::move(operands.tensors),
      exact_double(q),
      allocate(input, shape, dtype, "the values"),
      allocate(input, shape, dtype, "the values"),
      allocate(input, shape, rank_dtype, "the weights"),
      takes_floats ? dtype : ScalarType::Double};
  Selection& selection = call.selection;
  selection.q = data_of<const double>(call.q);
  selection.below = call.below.mutable_data_ptr();
  selection.above = call.above.mutable_data_ptr();
  selection.weights = call.weights.mutable_data_ptr();
  return call;
}

} // namespace histo
