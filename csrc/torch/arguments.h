// Tensor -> problem: the only place that validates.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>

#include "core/axis.h"
#include "core/edges.h"
#include "core/moments.h"
#include "core/problem.h"
#include "core/ranks.h"
#include "core/sketch.h"
#include "core/uniform_edges.h"

// Older headers of torch have another name for it.
#ifndef STABLE_TORCH_ERROR_CODE_CHECK
#define STABLE_TORCH_ERROR_CODE_CHECK TORCH_ERROR_CODE_CHECK
#endif

namespace histo {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

/// The dimensions that are reduced; none means all.
using Dims = std::optional<std::vector<int64_t>>;
/// Two numbers, or none for the extremes of each channel.
using GivenRange = std::optional<std::vector<double>>;

enum class Variant {
  kAuto,
  kGlobalAtomic,
  kPrivatizedGlobal,
  kPrivatizedShared,
  kCoarsenedContiguous,
  kCoarsenedInterleaved,
  kAggregated,
  kTiled,
  kSequential,
};

/// A tensor as the checks see it, so that they also serve callers whose
/// tensors are fake. Names are torch's: "cuda", "uint8", "strided".
struct Description {
  std::string_view device;
  std::string_view dtype;
  std::string_view layout;
  bool contiguous;
  int64_t ndim;
};

/// Arguments that passed every check.
struct Checked {
  ElementType element;
  std::vector<int64_t> kept; // dimensions of the input that the result keeps, in order
};
struct CheckedVariant : Checked {
  Variant variant;
};

/// The sizes of the dimensions that a result keeps.
std::vector<int64_t> kept_sizes(const Tensor& input, const Checked& checked);

/// The type of elements of a dtype by torch's name, if it is taken anywhere.
std::optional<ElementType> element_type(std::string_view dtype);

/// All throw std::runtime_error with one line: argument, expected, got.
CheckedVariant check_channel_histogram(
    const Description& input,
    int64_t num_bins,
    const std::vector<int64_t>& dim,
    std::string_view variant);
CheckedVariant check_text_histogram(const Description& text, std::string_view variant);
/// The same as check_channel_histogram, for an operator without variants.
Checked check_values(
    std::string_view op,
    const Description& input,
    int64_t num_bins,
    const std::vector<int64_t>& dim);
/// `op`: the operator that counts numbers, or looks at their range. No `dim` means all.
Checked check_numbers(std::string_view op, const Description& input, const Dims& dim);
void check_edges(std::string_view op, const Description& input, const Description& edges);
/// Throws unless `given`, an argument, is on the device of `other`, which errors call `of`.
void check_device(
    std::string_view op,
    std::string_view argument,
    const Description& given,
    const Description& other,
    std::string_view remedy = "",
    std::string_view of = "input");
/// Weights of the elements of the input, but for their sizes.
void check_weight(std::string_view op, const Description& input, const Description& weight);
/// Digits of sums, whose last dimension has the size `size`.
void check_digits(std::string_view op, const Description& digits, int64_t size);
/// What is multiplied by the derivatives of sums, but for its sizes.
void check_gradient(std::string_view op, const Description& input, const Description& gradient);
/// Counts that are added to, but for their sizes.
void check_counts(const Description& input, const Description& counts);
void check_bounds(const Description& low, const Description& high, int64_t num_bins);
/// The type of edges that uniform_edges makes: float32 or float64.
void check_edge_dtype(std::string_view dtype);

Interpolation check_quantile(
    const Description& input, const Description& q, std::string_view interpolation);

/// An operand without its memory: its type, and the sizes and strides of its dimensions.
struct OperandShape {
  ElementType type;
  std::vector<Extent> dimensions;
};

/// For each operand that must be copied, the loops over the elements of the copy, which is
/// contiguous. Outer loops come first. The others have none.
using Copies = std::array<std::vector<Extent>, kMostOperands>;

/// The problem of up to kMostOperands tensors, without its memory. The first one has the sizes of
/// the problem, which the others broadcast to. `kept` are its dimensions that become channels.
/// An operand is copied if its strides, beside those of the operands before it, are too many loops;
/// the problem is that of the copy. Where it is broadcast, so is the copy, if loops suffice then.
Problem loops_as_problem(
    const std::vector<OperandShape>& operands,
    const std::vector<int64_t>& kept,
    int64_t num_bins,
    Copies& copies);

/// A problem without counts, and the tensors that it reads.
struct Operands {
  Problem problem;
  std::vector<Tensor> tensors; // what its views point into
};

/// `tensors` and `kept` as for loops_as_problem; `num_counts` are those of a channel.
Operands prepare_operands(
    std::vector<Tensor> tensors, const std::vector<int64_t>& kept, int64_t num_counts);

/// A checked call. num_bins of its problem are all bins of a channel.
struct Call : Operands {
  Tensor result; // not initialized
};

/// A checked call of channel_histogram or of text_histogram.
struct VariantCall : Call {
  Variant variant;
};
VariantCall prepare_channel_histogram(
    const Tensor& input,
    int64_t num_bins,
    const std::vector<int64_t>& dim,
    std::string_view variant);
VariantCall prepare_text_histogram(const Tensor& text, std::string_view variant);

/// A checked call whose bins lie between edges. Bins of values have none.
struct EdgesCall : Call {
  Edges edges;
  Flow flow;
  std::optional<Tensor> edges_tensor; // what `edges` points into
};
EdgesCall prepare_histogram(const Tensor& input, const Tensor& edges, const Dims& dim, bool flow);

/// A checked call that adds to counts of the caller.
struct HistogramAddCall : EdgesCall {
  /// The counts before the call, and those of the call: [2, sizes]. None if the counts are
  /// contiguous and share no memory with another tensor of the call: they are counted in place.
  std::optional<Tensor> terms;
};
HistogramAddCall prepare_histogram_add(
    const Tensor& counts, const Tensor& input, const Tensor& edges, const Dims& dim, bool flow);
/// Ends a call whose terms are counted.
void add_terms(const Tensor& counts, const HistogramAddCall& call);

/// The edges of a checked call with bins of one width.
struct UniformEdges {
  int64_t num_bins;
  std::vector<double> range; // both ends, which differ; empty for the extremes of each channel
  Tensor tensor;             // not initialized
  ElementType type;          // of the tensor

  UniformBins bins() const {
    return {num_bins, range.empty() ? nullptr : range.data(), tensor.mutable_data_ptr(), type};
  }
};

/// A checked call of a histogram in bins of one width, or of their edges alone.
struct UniformCall : Call {
  UniformEdges edges;
};
struct EdgesOfCall : Operands {
  UniformEdges edges;
};
EdgesOfCall prepare_edges_of(
    const Tensor& input, int64_t num_bins, const GivenRange& range, const Dims& dim);
UniformCall prepare_uniform_histogram(
    const Tensor& input, int64_t num_bins, const GivenRange& range, const Dims& dim, bool flow);

/// A checked call of finite_range.
struct RangeCall : Operands {
  Tensor low, high; // the results, float32 or float64
  bool in_float32;
};
RangeCall prepare_finite_range(const Tensor& input, const Dims& dim);

/// A checked call of _summary.
struct SummaryCall : Operands {
  Tensor counts, numbers, digits; // the results
  Summary results;                // their memory
};
SummaryCall prepare_summary(const Tensor& input, const Dims& dim, bool digits);

/// A checked call of _moments_of_digits.
struct MomentsCall {
  Tensor digits, number; // contiguous
  Tensor moments;        // the result
  ElementType type;
  int64_t channels;
};
MomentsCall prepare_moments_of_digits(const Tensor& digits, const Tensor& number, ScalarType dtype);

/// A checked call of uniform_edges.
struct UniformEdgesCall {
  Tensor low, high; // contiguous, of one shape
  Tensor edges;     // the result
  int64_t rows;
  int64_t bins;
  bool bounds_in_float32;
  bool edges_in_float32;
};
UniformEdgesCall prepare_uniform_edges(
    const Tensor& low,
    const Tensor& high,
    int64_t num_bins,
    std::optional<ScalarType> given,
    bool in_float32);

/// A checked call of quantile.
struct QuantileCall {
  Selection selection;          // nothing is to be selected if there is no q or no channel
  std::vector<Tensor> operands; // what `selection` points into
  Tensor q;                     // the same
  Tensor below, above, weights; // the same; of the result's shape
  ScalarType result;

  bool is_empty() const {
    return selection.num_q == 0 || selection.problem.num_channels() == 0;
  }
  /// Whether the result is more than the value below. The weight of an integer says whether there
  /// is a quantile at all.
  bool interpolates() const {
    return values_of_q(selection.interpolation) > 1 || is_integer(selection.problem.type);
  }
};
QuantileCall prepare_quantile(
    const Tensor& input,
    const Tensor& q,
    const Dims& dim,
    bool keepdim,
    std::string_view interpolation,
    bool ignore_nan);

/// A checked call that adds to a sketch.
struct SketchAddCall : Operands {
  SketchBins bins;
  SketchState state;
};
SketchAddCall prepare_sketch_add(
    const Tensor& hist,
    const Tensor& min_key,
    const Tensor& max_key,
    const Tensor& input,
    const SketchBins& bins,
    const Dims& dim);

/// A checked call for quantiles of a sketch.
struct SketchQuantileCall {
  SketchQuantiles quantiles;
  Tensor q;     // what `quantiles` points into
  Tensor found; // the same; the result
};
SketchQuantileCall prepare_sketch_quantile(
    const Tensor& hist,
    const Tensor& min_key,
    const Tensor& max_key,
    const Tensor& q,
    const SketchBins& bins,
    double place);

/// Uninitialized memory on the device of `like`, held until this object goes.
class Workspace final : public Allocator {
 public:
  explicit Workspace(const Tensor& like) : like_(like) {
  }
  void* operator()(int64_t bytes) override;

 private:
  Tensor like_;
  std::vector<Tensor> held_;
};

/// Throws std::runtime_error.
[[noreturn]] void fail(const std::string& message);

Description describe(const Tensor& tensor);
/// The same of an argument. torch.ops makes an undefined tensor of None, which is refused.
Description describe(std::string_view op, std::string_view argument, const Tensor& tensor);

/// The elements of a tensor, which a T that is not const may change.
template <class T>
T* data_of(const Tensor& tensor) {
  if constexpr (std::is_const_v<T>) {
    return static_cast<T*>(tensor.const_data_ptr());
  } else {
    return static_cast<T*>(tensor.mutable_data_ptr());
  }
}

} // namespace histo
