// The operators on the CPU, and the checks for callers that hold no data.
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <torch/csrc/stable/library.h>

#include "cpu/kernels.h"
#include "torch/arguments.h"
#include "torch/interpolate.h"
#include "torch/operators/refusals.h"

namespace histo {
namespace {

template <class Binning>
Tensor run(const Call& call, const Binning& binning) {
  if (call.variant == Variant::kSequential) {
    cpu::sequential(call.problem, binning);
  } else {
    Workspace workspace(call.counts);
    cpu::count(call.problem, cpu::pattern_axis(call.problem.type, binning), workspace);
  }
  return call.counts;
}

Tensor channel_histogram(
    const Tensor& input, int64_t num_bins, std::vector<int64_t> dim, std::string variant) {
  return run(prepare_channel_histogram(input, num_bins, dim, variant), ValueBinning{num_bins});
}

Tensor text_histogram(const Tensor& text, std::string variant) {
  return run(prepare_text_histogram(text, variant), LetterBinning{});
}

Tensor histogram(const Tensor& input, const Tensor& edges, Dims dim, bool flow) {
  const HistogramCall prepared = prepare_histogram(input, edges, dim, flow);
  Workspace workspace(prepared.call.counts);
  cpu::count_between(prepared.call.problem, prepared.edges, nullptr, prepared.flow, workspace);
  return prepared.call.counts;
}

void histogram_add(
    const Tensor& counts, const Tensor& input, const Tensor& edges, Dims dim, bool flow) {
  const HistogramAddCall prepared = prepare_histogram_add(counts, input, edges, dim, flow);
  const HistogramCall& histogram = prepared.histogram;
  Workspace workspace(input);
  cpu::count_between(histogram.call.problem, histogram.edges, nullptr, histogram.flow, workspace);
  add_terms(counts, prepared);
}

std::tuple<Tensor, Tensor> uniform_histogram(
    const Tensor& input, int64_t num_bins, GivenRange range, Dims dim, bool flow) {
  const UniformCall prepared = prepare_uniform_histogram(input, num_bins, range, dim, flow);
  Workspace workspace(prepared.call.counts);
  cpu::count_uniform(prepared.call.problem, prepared.edges.bins(), Flow{flow}, workspace);
  return {prepared.call.counts, prepared.edges.tensor};
}

Tensor edges_of(const Tensor& input, int64_t num_bins, GivenRange range, Dims dim) {
  const EdgesOfCall prepared = prepare_edges_of(input, num_bins, range, dim);
  cpu::edges_of(prepared.operands.problem, prepared.edges.bins());
  return prepared.edges.tensor;
}

void sketch_add(
    Tensor hist,
    Tensor min_key,
    Tensor max_key,
    const Tensor& input,
    int64_t bits,
    int64_t first,
    int64_t last,
    Dims dim) {
  const SketchAddCall call =
      prepare_sketch_add(hist, min_key, max_key, input, {bits, first, last}, dim);
  Workspace workspace(hist);
  cpu::add_to_sketch(call.operands.problem, call.bins, call.state, workspace);
}

Tensor sketch_quantile(
    const Tensor& hist,
    const Tensor& min_key,
    const Tensor& max_key,
    const Tensor& q,
    int64_t bits,
    int64_t first,
    int64_t last,
    double place) {
  const SketchQuantileCall call =
      prepare_sketch_quantile(hist, min_key, max_key, q, {bits, first, last}, place);
  cpu::sketch_quantiles(call.quantiles);
  return call.found;
}

template <class T>
T* data_of(const Tensor& tensor) {
  return static_cast<T*>(tensor.mutable_data_ptr());
}

std::tuple<Tensor, Tensor> finite_range(const Tensor& input, Dims dim) {
  const RangeCall call = prepare_finite_range(input, dim);
  if (call.in_float32) {
    cpu::finite_range(call.operands.problem, data_of<float>(call.low), data_of<float>(call.high));
  } else {
    cpu::finite_range(call.operands.problem, data_of<double>(call.low), data_of<double>(call.high));
  }
  return {call.low, call.high};
}

template <class T, class Edge>
void fill_edges(const EdgesCall& call) {
  cpu::uniform_edges(
      static_cast<const T*>(call.low.const_data_ptr()),
      static_cast<const T*>(call.high.const_data_ptr()), call.rows, call.bins,
      data_of<Edge>(call.edges));
}

Tensor uniform_edges(
    const Tensor& low,
    const Tensor& high,
    int64_t num_bins,
    std::optional<ScalarType> dtype,
    bool in_float32) {
  const EdgesCall call = prepare_uniform_edges(low, high, num_bins, dtype, in_float32);
  if (call.bounds_in_float32) {
    call.edges_in_float32 ? fill_edges<float, float>(call) : fill_edges<float, double>(call);
  } else {
    call.edges_in_float32 ? fill_edges<double, float>(call) : fill_edges<double, double>(call);
  }
  return call.edges;
}

Tensor quantile(
    const Tensor& input,
    const Tensor& q,
    Dims dim,
    bool keepdim,
    std::string interpolation,
    bool ignore_nan) {
  const QuantileCall call = prepare_quantile(input, q, dim, keepdim, interpolation, ignore_nan);
  if (!call.is_empty()) {
    Workspace workspace(input);
    cpu::select(call.selection, workspace);
  }
  return interpolate(call);
}

std::string channel_histogram_error(
    std::string device,
    std::string dtype,
    std::string layout,
    bool contiguous,
    int64_t ndim,
    int64_t num_bins,
    std::vector<int64_t> dim,
    std::string variant) {
  return error_of([&] {
    check_channel_histogram({device, dtype, layout, contiguous, ndim}, num_bins, dim, variant);
  });
}

std::string text_histogram_error(
    std::string device,
    std::string dtype,
    std::string layout,
    bool contiguous,
    int64_t ndim,
    std::string variant) {
  return error_of(
      [&] { check_text_histogram({device, dtype, layout, contiguous, ndim}, variant); });
}

std::string numbers_error(
    std::string op,
    std::string device,
    std::string dtype,
    std::string layout,
    int64_t ndim,
    Dims dim) {
  return error_of([&] { check_numbers(op, {device, dtype, layout, false, ndim}, dim); });
}

std::string edges_error(
    std::string op,
    std::string device,
    std::string dtype,
    std::string layout,
    int64_t ndim,
    std::string edges_device,
    std::string edges_dtype,
    std::string edges_layout,
    int64_t edges_ndim) {
  return error_of([&] {
    check_edges(
        op, {device, dtype, layout, false, ndim},
        {edges_device, edges_dtype, edges_layout, false, edges_ndim});
  });
}

std::string counts_error(
    std::string device,
    std::string dtype,
    std::string layout,
    std::string counts_device,
    std::string counts_dtype,
    std::string counts_layout) {
  return error_of([&] {
    check_counts(
        {device, dtype, layout, false, 0}, {counts_device, counts_dtype, counts_layout, false, 0});
  });
}

std::string bounds_error(
    std::string device,
    std::string dtype,
    std::string layout,
    std::string high_device,
    std::string high_dtype,
    std::string high_layout,
    int64_t num_bins,
    std::string edge_dtype) {
  return error_of([&] {
    check_bounds(
        {device, dtype, layout, false, 0}, {high_device, high_dtype, high_layout, false, 0},
        num_bins);
    check_edge_dtype(edge_dtype);
  });
}

std::string quantile_error(
    std::string device,
    std::string dtype,
    std::string layout,
    int64_t ndim,
    std::string q_device,
    std::string q_dtype,
    std::string q_layout,
    int64_t q_ndim,
    Dims dim,
    std::string interpolation) {
  return error_of([&] {
    const Description input{device, dtype, layout, false, ndim};
    check_numbers("quantile", input, dim);
    check_quantile(input, {q_device, q_dtype, q_layout, false, q_ndim}, interpolation);
  });
}

} // namespace
} // namespace histo

STABLE_TORCH_LIBRARY_IMPL(histo, CPU, m) {
  m.impl("channel_histogram", TORCH_BOX(&histo::channel_histogram));
  m.impl("text_histogram", TORCH_BOX(&histo::text_histogram));
  m.impl("histogram", TORCH_BOX(&histo::histogram));
  m.impl("histogram_add_", TORCH_BOX(&histo::histogram_add));
  m.impl("finite_range", TORCH_BOX(&histo::finite_range));
  m.impl("uniform_edges", TORCH_BOX(&histo::uniform_edges));
  m.impl("quantile", TORCH_BOX(&histo::quantile));
  m.impl("_uniform_histogram", TORCH_BOX(&histo::uniform_histogram));
  m.impl("_edges_of", TORCH_BOX(&histo::edges_of));
  m.impl("_sketch_add_", TORCH_BOX(&histo::sketch_add));
  m.impl("_sketch_quantile", TORCH_BOX(&histo::sketch_quantile));
}

STABLE_TORCH_LIBRARY_IMPL(histo, CompositeExplicitAutograd, m) {
  m.impl("_check_quantile", TORCH_BOX(&histo::quantile_error));
  m.impl("_check_numbers", TORCH_BOX(&histo::numbers_error));
  m.impl("_check_edges", TORCH_BOX(&histo::edges_error));
  m.impl("_check_counts", TORCH_BOX(&histo::counts_error));
  m.impl("_check_bounds", TORCH_BOX(&histo::bounds_error));
  m.impl("_check_channel_histogram", TORCH_BOX(&histo::channel_histogram_error));
  m.impl("_check_text_histogram", TORCH_BOX(&histo::text_histogram_error));
}
