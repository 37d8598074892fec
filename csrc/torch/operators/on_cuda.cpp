// The operators on CUDA.
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include "cuda/count/dispatch.h"
#include "cuda/fill/fill.h"
#include "cuda/fill/sketch.h"
#include "cuda/launch.h"
#include "cuda/machine.h"
#include "cuda/select/fractions.h"
#include "cuda/select/interpolate.h"
#include "cuda/select/select.h"
#include "cuda/study/variants.h"
#include "cuda/summary/summary.h"
#include "torch/arguments.h"
#include "torch/interpolate.h"
#include "torch/operators/on_device.h"

namespace histo {
namespace {

template <class Binning>
void run_variant(
    Variant variant, const Problem& problem, const Binning& binning, const cuda::Launch& launch) {
  // The checks have made sure that rows follow each other without a gap.
  const cuda::StudyInput input{
      static_cast<const uint8_t*>(problem.data), problem.num_rows(), problem.num_channels(),
      reinterpret_cast<unsigned long long*>(problem.counts)};
  switch (variant) {
    case Variant::kGlobalAtomic:
      return cuda::global_atomic(input, binning, launch);
    case Variant::kPrivatizedGlobal:
      return cuda::privatized_global(input, binning, launch);
    case Variant::kPrivatizedShared:
      return cuda::privatized_shared(input, binning, launch);
    case Variant::kCoarsenedContiguous:
      return cuda::coarsened_contiguous(input, binning, launch);
    case Variant::kCoarsenedInterleaved:
      return cuda::coarsened_interleaved(input, binning, launch);
    case Variant::kAggregated:
      return cuda::aggregated(input, binning, launch);
    case Variant::kTiled:
      return cuda::tiled(input, binning, launch);
    case Variant::kAuto:
      return cuda::count(problem, binning, launch);
    case Variant::kSequential:
      break; // the checks refuse it
  }
  throw InternalError("run_variant: not a variant of CUDA");
}

template <class Binning>
void run(const Call& call, const Binning& binning, const cuda::Launch& launch) {
  const Problem& problem = call.problem;
  if (problem.num_counts() == 0) {
    return;
  }
  if (problem.num_rows() == 0) {
    cuda::clear_counts(launch, problem);
    return;
  }
  run_variant(call.variant, problem, binning, launch);
}

Tensor channel_histogram(
    const Tensor& input, int64_t num_bins, std::vector<int64_t> dim, std::string variant) {
  const Call call = prepare_channel_histogram(input, num_bins, dim, variant);
  on_device(input, [&](const cuda::Launch& launch) { run(call, ValueBinning{num_bins}, launch); });
  return call.counts;
}

Tensor text_histogram(const Tensor& text, std::string variant) {
  const Call call = prepare_text_histogram(text, variant);
  on_device(text, [&](const cuda::Launch& launch) { run(call, LetterBinning{}, launch); });
  return call.counts;
}

void count_between(const Tensor& input, const HistogramCall& prepared) {
  const Problem& problem = prepared.call.problem;
  on_device(input, [&](const cuda::Launch& launch) {
    if (problem.num_counts() == 0) {
      return;
    }
    if (problem.num_rows() == 0) {
      return problem.adds ? void() : cuda::clear_counts(launch, problem);
    }
    cuda::count_between(problem, prepared.edges, prepared.flow, launch);
  });
}

Tensor histogram(const Tensor& input, const Tensor& edges, Dims dim, bool flow) {
  const HistogramCall prepared = prepare_histogram(input, edges, dim, flow);
  count_between(input, prepared);
  return prepared.call.counts;
}

void histogram_add(
    const Tensor& counts, const Tensor& input, const Tensor& edges, Dims dim, bool flow) {
  const HistogramAddCall prepared = prepare_histogram_add(counts, input, edges, dim, flow);
  count_between(input, prepared.histogram);
  add_terms(counts, prepared);
}

std::tuple<Tensor, Tensor> uniform_histogram(
    const Tensor& input, int64_t num_bins, GivenRange range, Dims dim, bool flow) {
  const UniformCall prepared = prepare_uniform_histogram(input, num_bins, range, dim, flow);
  on_device(input, [&](const cuda::Launch& launch) {
    cuda::count_uniform(prepared.call.problem, prepared.edges.bins(), Flow{flow}, launch);
  });
  return {prepared.call.counts, prepared.edges.tensor};
}

Tensor edges_of(const Tensor& input, int64_t num_bins, GivenRange range, Dims dim) {
  const EdgesOfCall prepared = prepare_edges_of(input, num_bins, range, dim);
  on_device(input, [&](const cuda::Launch& launch) {
    cuda::edges_of(prepared.operands.problem, prepared.edges.bins(), launch);
  });
  return prepared.edges.tensor;
}

template <class T>
T* data_of(const Tensor& tensor) {
  return static_cast<T*>(tensor.mutable_data_ptr());
}

std::tuple<Tensor, Tensor> finite_range(const Tensor& input, Dims dim) {
  const RangeCall call = prepare_finite_range(input, dim);
  on_device(input, [&](const cuda::Launch& launch) {
    if (call.in_float32) {
      cuda::finite_range(
          call.operands.problem, data_of<float>(call.low), data_of<float>(call.high), launch);
    } else {
      cuda::finite_range(
          call.operands.problem, data_of<double>(call.low), data_of<double>(call.high), launch);
    }
  });
  return {call.low, call.high};
}

template <class T, class Edge>
void fill_edges(const EdgesCall& call, const cuda::Launch& launch) {
  cuda::uniform_edges(
      static_cast<const T*>(call.low.const_data_ptr()),
      static_cast<const T*>(call.high.const_data_ptr()), call.rows, call.bins,
      data_of<Edge>(call.edges), launch);
}

Tensor uniform_edges(
    const Tensor& low,
    const Tensor& high,
    int64_t num_bins,
    std::optional<ScalarType> dtype,
    bool in_float32) {
  const EdgesCall call = prepare_uniform_edges(low, high, num_bins, dtype, in_float32);
  on_device(low, [&](const cuda::Launch& launch) {
    if (call.bounds_in_float32) {
      call.edges_in_float32 ? fill_edges<float, float>(call, launch)
                            : fill_edges<float, double>(call, launch);
    } else {
      call.edges_in_float32 ? fill_edges<double, float>(call, launch)
                            : fill_edges<double, double>(call, launch);
    }
  });
  return call.edges;
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
  on_device(input, [&](const cuda::Launch& launch) {
    cuda::add_to_sketch(call.operands.problem, call.bins, call.state, launch);
  });
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
  on_device(
      hist, [&](const cuda::Launch& launch) { cuda::sketch_quantiles(call.quantiles, launch); });
  return call.found;
}

Tensor quantile(
    const Tensor& input,
    const Tensor& q,
    Dims dim,
    bool keepdim,
    std::string interpolation,
    bool ignore_nan) {
  const QuantileCall call = prepare_quantile(input, q, dim, keepdim, interpolation, ignore_nan);
  if (call.is_empty()) {
    return interpolate(call);
  }
  const bool fuses = call.interpolates() && cuda::can_interpolate(call.selection.problem.type);
  const Tensor result =
      fuses ? allocate(input, sizes_of(call.weights), call.result, "the quantiles") : call.below;
  on_device(input, [&](const cuda::Launch& launch) {
    cuda::select(call.selection, launch);
    if (fuses) {
      cuda::interpolate(call.selection, result.mutable_data_ptr(), launch);
    }
  });
  return fuses ? result : interpolate(call);
}

Tensor fractions(const Tensor& like, std::vector<double> q) {
  const auto size = static_cast<int64_t>(q.size());
  const Tensor found = allocate(like, {size}, ScalarType::Double, "q");
  on_device(like, [&](const cuda::Launch& launch) {
    cuda::write_fractions(q.data(), size, static_cast<double*>(found.mutable_data_ptr()), launch);
  });
  return found;
}

std::tuple<Tensor, Tensor, Tensor> summary(const Tensor& input, Dims dim, bool digits) {
  const SummaryCall call = prepare_summary(input, dim, digits);
  on_device(input, [&](const cuda::Launch& launch) {
    cuda::summarize(call.operands.problem, call.results, launch);
  });
  return {call.counts, call.numbers, call.digits};
}

Tensor moments_of_digits(const Tensor& digits, const Tensor& number, ScalarType dtype) {
  const MomentsCall call = prepare_moments_of_digits(digits, number, dtype);
  const cuda::FoundRows found{
      static_cast<const int64_t*>(call.digits.const_data_ptr()), num_digits(call.type),
      call.channels, layout_of_sum(call.type), layout_of_squares(call.type)};
  on_device(digits, [&](const cuda::Launch& launch) {
    cuda::moments_of_digits(
        found, static_cast<const int64_t*>(call.number.const_data_ptr()),
        data_of<double>(call.moments), launch);
  });
  return call.moments;
}

Tensor count_atomics(const Tensor& input, int64_t num_bins, std::string variant) {
  const Call call = prepare_channel_histogram(input, num_bins, {0}, variant);
  if (call.variant == Variant::kAuto) {
    fail("_count_atomics: variant must be a study variant, got 'auto'");
  }
  const Tensor tally = torch::stable::new_zeros(input, std::vector<int64_t>{2}, ScalarType::Long);
  on_device(input, [&](cuda::Launch launch) {
    launch.tally = static_cast<unsigned long long*>(tally.mutable_data_ptr());
    run(call, ValueBinning{num_bins}, launch);
  });
  return tally;
}

Tensor add_to_one_address(
    const Tensor& like,
    bool shared,
    bool dependent,
    int64_t blocks,
    int64_t threads,
    int64_t lanes,
    int64_t additions) {
  const Tensor result = torch::stable::new_empty(like, std::vector<int64_t>{2}, ScalarType::Long);
  on_device(like, [&](const cuda::Launch& launch) {
    cuda::add_to_one_address(
        {shared, dependent, blocks, threads, lanes, additions},
        static_cast<unsigned long long*>(result.mutable_data_ptr()), launch);
  });
  return result;
}

} // namespace
} // namespace histo

STABLE_TORCH_LIBRARY_IMPL(histo, CUDA, m) {
  m.impl("channel_histogram", TORCH_BOX(&histo::channel_histogram));
  m.impl("text_histogram", TORCH_BOX(&histo::text_histogram));
  m.impl("histogram", TORCH_BOX(&histo::histogram));
  m.impl("histogram_add_", TORCH_BOX(&histo::histogram_add));
  m.impl("_uniform_histogram", TORCH_BOX(&histo::uniform_histogram));
  m.impl("_edges_of", TORCH_BOX(&histo::edges_of));
  m.impl("finite_range", TORCH_BOX(&histo::finite_range));
  m.impl("uniform_edges", TORCH_BOX(&histo::uniform_edges));
  m.impl("quantile", TORCH_BOX(&histo::quantile));
  m.impl("_fractions", TORCH_BOX(&histo::fractions));
  m.impl("_summary", TORCH_BOX(&histo::summary));
  m.impl("_moments_of_digits", TORCH_BOX(&histo::moments_of_digits));
  m.impl("_sketch_add_", TORCH_BOX(&histo::sketch_add));
  m.impl("_sketch_quantile", TORCH_BOX(&histo::sketch_quantile));
  m.impl("_count_atomics", TORCH_BOX(&histo::count_atomics));
  m.impl("_add_to_one_address", TORCH_BOX(&histo::add_to_one_address));
}
