// The operators of an engine: each one checks and prepares a call, lets the engine fill the
// results, and returns them. An engine is a class: Cpu (on_cpu.cpp) or Cuda (on_cuda.cpp). It is
// made for one call, and works on the device of a tensor.
#pragma once

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <torch/csrc/stable/library.h>

#include "torch/interpolate.h"
#include "torch/joint_calls.h"
#include "torch/weighted_calls.h"

namespace histo {

template <class Engine>
struct Operators {
  static Tensor channel_histogram(
      const Tensor& input, int64_t num_bins, std::vector<int64_t> dim, std::string variant) {
    const VariantCall call = prepare_channel_histogram(input, num_bins, dim, variant);
    Engine(input).count(call, ValueBinning{num_bins});
    return call.result;
  }

  static Tensor text_histogram(const Tensor& text, std::string variant) {
    const VariantCall call = prepare_text_histogram(text, variant);
    Engine(text).count(call, LetterBinning{});
    return call.result;
  }

  static Tensor histogram(const Tensor& input, const Tensor& edges, Dims dim, bool flow) {
    const EdgesCall call = prepare_histogram(input, edges, dim, flow);
    Engine(input).count_between(call);
    return call.result;
  }

  static void histogram_add(
      const Tensor& counts, const Tensor& input, const Tensor& edges, Dims dim, bool flow) {
    const HistogramAddCall call = prepare_histogram_add(counts, input, edges, dim, flow);
    Engine(input).count_between(call);
    add_terms(counts, call);
  }

  static std::tuple<Tensor, Tensor> uniform_histogram(
      const Tensor& input, int64_t num_bins, GivenRange range, Dims dim, bool flow) {
    const UniformCall call = prepare_uniform_histogram(input, num_bins, range, dim, flow);
    Engine(input).count_uniform(call.problem, call.edges.bins(), Flow{flow});
    return {call.result, call.edges.tensor};
  }

  static Tensor edges_of(const Tensor& input, int64_t num_bins, GivenRange range, Dims dim) {
    const EdgesOfCall call = prepare_edges_of(input, num_bins, range, dim);
    Engine(input).edges_of(call.problem, call.edges.bins());
    return call.edges.tensor;
  }

  static std::vector<Tensor> edges_of_axes(
      std::vector<Tensor> inputs, std::vector<int64_t> num_bins, std::vector<double> ranges) {
    const std::vector<UniformEdges> prepared = prepare_edges_of_axes(inputs, num_bins, ranges);
    std::vector<UniformBins> axes; // they point into `prepared`
    std::vector<Tensor> edges;
    for (const UniformEdges& axis : prepared) {
      axes.push_back(axis.bins());
      edges.push_back(axis.tensor);
    }
    if (!axes.empty()) {
      Engine(inputs[0]).edges_of_axes(axes);
    }
    return edges;
  }

  static std::tuple<Tensor, Tensor> finite_range(const Tensor& input, Dims dim) {
    const RangeCall call = prepare_finite_range(input, dim);
    Engine engine(input);
    if (call.in_float32) {
      engine.finite_range(call.problem, data_of<float>(call.low), data_of<float>(call.high));
    } else {
      engine.finite_range(call.problem, data_of<double>(call.low), data_of<double>(call.high));
    }
    return {call.low, call.high};
  }

  static Tensor uniform_edges(
      const Tensor& low,
      const Tensor& high,
      int64_t num_bins,
      std::optional<ScalarType> dtype,
      bool in_float32) {
    const UniformEdgesCall call = prepare_uniform_edges(low, high, num_bins, dtype, in_float32);
    if (call.bounds_in_float32) {
      call.edges_in_float32 ? fill_edges<float, float>(call) : fill_edges<float, double>(call);
    } else {
      call.edges_in_float32 ? fill_edges<double, float>(call) : fill_edges<double, double>(call);
    }
    return call.edges;
  }

  static Tensor quantile(
      const Tensor& input,
      const Tensor& q,
      Dims dim,
      bool keepdim,
      std::string interpolation,
      bool ignore_nan) {
    const QuantileCall call = prepare_quantile(input, q, dim, keepdim, interpolation, ignore_nan);
    std::optional<Tensor> result; // set if the engine has interpolated
    if (!call.is_empty()) {
      result = Engine(input).select(call);
    }
    return result ? *result : interpolate(call);
  }

  static std::tuple<Tensor, Tensor, Tensor> summary(const Tensor& input, Dims dim, bool digits) {
    const SummaryCall call = prepare_summary(input, dim, digits);
    Engine(input).summarize(call.problem, call.results);
    return {call.counts, call.numbers, call.digits};
  }

  static Tensor moments_of_digits(const Tensor& digits, const Tensor& number, ScalarType dtype) {
    const MomentsCall call = prepare_moments_of_digits(digits, number, dtype);
    Engine(digits).moments_of_digits(call);
    return call.moments;
  }

  static void sketch_add(
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
    Engine(input).add_to_sketch(call.problem, call.bins, call.state);
  }

  static Tensor sketch_quantile(
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
    Engine(hist).sketch_quantiles(call.quantiles);
    return call.found;
  }

  static Tensor weighted_histogram(
      const Tensor& input, const Tensor& edges, const Tensor& weight, Dims dim, bool flow) {
    const EdgesCall call = prepare_weighted_histogram(input, edges, weight, dim, flow);
    Engine(input).sum_between(call, nullptr);
    return call.result;
  }

  static Tensor weighted_channel_histogram(
      const Tensor& input, const Tensor& weight, int64_t num_bins, std::vector<int64_t> dim) {
    const EdgesCall call = prepare_weighted_channel_histogram(input, weight, num_bins, dim);
    Engine(input).sum_of_values(call.problem, nullptr);
    return call.result;
  }

  static Tensor sums(
      const Tensor& input,
      const Tensor& weight,
      std::optional<Tensor> edges,
      int64_t num_bins,
      Dims dim,
      bool flow,
      int64_t most_bytes) {
    const SumsCall call = prepare_sums(
        input, weight, edges, num_bins, dim, flow, most_bytes, Engine::rounds_in_kernel(input));
    Engine engine(input);
    edges ? engine.sum_between(call, call.rounded())
          : engine.sum_of_values(call.problem, call.rounded());
    return call.sums;
  }

  static std::tuple<Tensor, Tensor> uniform_sums(
      const Tensor& input,
      const Tensor& weight,
      int64_t num_bins,
      GivenRange range,
      Dims dim,
      bool flow,
      int64_t most_bytes) {
    const UniformSumsCall call = prepare_uniform_sums(
        input, weight, num_bins, range, dim, flow, most_bytes, Engine::rounds_in_kernel(input));
    Engine(input).sum_uniform(call);
    return {call.sums, call.uniform.tensor};
  }

  static Tensor sum_of_digits(const Tensor& digits) {
    const DigitsCall call = prepare_sum_of_digits(digits);
    if (call.size > 1) {
      Engine(digits).round_sums(call);
    }
    return call.result;
  }

  static Tensor normalize_digits(const Tensor& digits) {
    const DigitsCall call = prepare_normalize_digits(digits);
    Engine(digits).normalize_sums(call);
    return call.result;
  }

  static Tensor weight_gradient(
      const Tensor& grad, const Tensor& input, const Tensor& edges, Dims dim, bool flow) {
    const WeightGradientCall call = prepare_weight_gradient(grad, input, edges, dim, flow);
    if (!call.is_empty()) {
      Engine(input).weight_gradient_between(call);
    }
    return call.result;
  }

  static Tensor weight_gradient_of_values(
      const Tensor& grad, const Tensor& input, std::vector<int64_t> dim) {
    const WeightGradientCall call = prepare_weight_gradient_of_values(grad, input, dim);
    if (!call.is_empty()) {
      Engine(input).weight_gradient_of_values(call);
    }
    return call.result;
  }

  static Tensor joint_histogram(
      std::vector<Tensor> inputs, std::vector<Tensor> edges, Dims dim, bool flow) {
    const JointCall call = prepare_joint_histogram(inputs, edges, dim, flow, write_index);
    Engine(call.result).count_joint(call.problem, call.axes);
    return call.result;
  }

  static Tensor weighted_joint_histogram(
      std::vector<Tensor> inputs,
      std::vector<Tensor> edges,
      const Tensor& weight,
      Dims dim,
      bool flow) {
    const JointCall call = prepare_weighted_joint_histogram(
        inputs, edges, weight, dim, flow, Engine::kMostAxesOfWeights, write_index);
    Engine(call.result).sum_joint(call.problem, call.axes);
    return call.result;
  }

  static Tensor joint_index(
      std::vector<Tensor> inputs, std::vector<Tensor> edges, Dims dim, bool flow) {
    const JointCall call = prepare_joint_index(inputs, edges, dim, flow, write_index);
    write_index(call);
    return call.result;
  }

  static void register_all(torch::stable::detail::StableLibrary& m) {
    m.impl("channel_histogram", TORCH_BOX(&channel_histogram));
    m.impl("text_histogram", TORCH_BOX(&text_histogram));
    m.impl("histogram", TORCH_BOX(&histogram));
    m.impl("histogram_add_", TORCH_BOX(&histogram_add));
    m.impl("_uniform_histogram", TORCH_BOX(&uniform_histogram));
    m.impl("_edges_of", TORCH_BOX(&edges_of));
    m.impl("_edges_of_axes", TORCH_BOX(&edges_of_axes));
    m.impl("finite_range", TORCH_BOX(&finite_range));
    m.impl("uniform_edges", TORCH_BOX(&uniform_edges));
    m.impl("quantile", TORCH_BOX(&quantile));
    m.impl("_summary", TORCH_BOX(&summary));
    m.impl("_moments_of_digits", TORCH_BOX(&moments_of_digits));
    m.impl("_sketch_add_", TORCH_BOX(&sketch_add));
    m.impl("_sketch_quantile", TORCH_BOX(&sketch_quantile));
    m.impl("weighted_histogram", TORCH_BOX(&weighted_histogram));
    m.impl("weighted_channel_histogram", TORCH_BOX(&weighted_channel_histogram));
    m.impl("_sums", TORCH_BOX(&sums));
    m.impl("_uniform_sums", TORCH_BOX(&uniform_sums));
    m.impl("sum_of_digits", TORCH_BOX(&sum_of_digits));
    m.impl("normalize_digits", TORCH_BOX(&normalize_digits));
    m.impl("_weight_gradient", TORCH_BOX(&weight_gradient));
    m.impl("_weight_gradient_of_values", TORCH_BOX(&weight_gradient_of_values));
    m.impl("joint_histogram", TORCH_BOX(&joint_histogram));
    m.impl("weighted_joint_histogram", TORCH_BOX(&weighted_joint_histogram));
    m.impl("_joint_index", TORCH_BOX(&joint_index));
  }

 private:
  template <class T, class Edge>
  static void fill_edges(const UniformEdgesCall& call) {
    Engine(call.edges)
        .uniform_edges(
            data_of<const T>(call.low), data_of<const T>(call.high), call.rows, call.bins,
            data_of<Edge>(call.edges));
  }

  static void write_index(const JointCall& call) {
    Engine(call.result).write_joint_index(call.problem, call.axes, data_of<int64_t>(call.result));
  }
};

} // namespace histo
