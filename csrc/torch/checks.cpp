// Checks of arguments. Every error is one line: the argument, what was expected, what came.
#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>

#include "core/weights.h"
#include "torch/arguments.h"
#include "torch/messages.h"

namespace histo {
namespace {

constexpr std::pair<std::string_view, Variant> kVariants[] = {
    {"auto", Variant::kAuto},
    {"global_atomic", Variant::kGlobalAtomic},
    {"privatized_global", Variant::kPrivatizedGlobal},
    {"privatized_shared", Variant::kPrivatizedShared},
    {"coarsened_contiguous", Variant::kCoarsenedContiguous},
    {"coarsened_interleaved", Variant::kCoarsenedInterleaved},
    {"aggregated", Variant::kAggregated},
    {"tiled", Variant::kTiled},
    {"sequential", Variant::kSequential},
};

constexpr std::pair<std::string_view, Interpolation> kInterpolations[] = {
    {"linear", Interpolation::kLinear},   {"lower", Interpolation::kLower},
    {"higher", Interpolation::kHigher},   {"midpoint", Interpolation::kMidpoint},
    {"nearest", Interpolation::kNearest},
};

constexpr std::string_view kRealDtypes =
    "bool, an integer, float16, bfloat16, float32, float64, float8_e4m3fn or float8_e5m2";

/// Tells how to make integers of elements of another type.
std::string_view advice(std::string_view dtype) {
  const auto starts_with = [&](std::string_view kind) {
    return dtype.substr(0, kind.size()) == kind;
  };
  if (starts_with("float") || starts_with("bfloat")) {
    return ": torch_histo.histogram counts floats; or round it (input.float().round().long()) "
           "first";
  }
  if (starts_with("complex")) {
    return ": count the integers of input.real and of input.imag apart";
  }
  if (starts_with("qint") || starts_with("quint")) {
    return ": pass its int_repr()";
  }
  return "";
}

/// The same for operators that take real numbers.
std::string_view advice_for_numbers(std::string_view dtype) {
  if (dtype.substr(0, 7) == "complex") {
    return ": count input.real and input.imag apart";
  }
  if (dtype.substr(0, 6) == "float8") {
    return ": pass input.float()";
  }
  return "";
}

/// The value of a name among the known ones.
template <class Value, size_t N>
Value check_name(
    std::string_view op,
    std::string_view argument,
    std::string_view given,
    const std::pair<std::string_view, Value> (&all)[N]) {
  std::string known;
  for (const auto& [name, value] : all) {
    if (name == given) {
      return value;
    }
    known.append(name).append(", ");
  }
  fail(join(op, ": ", argument, " must be one of ", known, "got ", quoted(given)));
}

Variant check_variant(std::string_view op, std::string_view variant) {
  return check_name(op, "variant", variant, kVariants);
}

void check_input(std::string_view op, std::string_view argument, const Description& input) {
  // Quantized and sparse tensors have device "cpu" or "cuda" too.
  if (input.layout != "strided") {
    fail(join(
        op, ": ", argument, " must be a dense tensor, got layout ", input.layout, ": pass its ",
        input.layout == "jagged" ? "unbind() one by one" : "to_dense()"));
  }
  if (input.device != "cpu" && input.device != "cuda" && input.device != "meta") {
    fail(join(op, ": ", argument, " must be on a CPU or CUDA device, got ", input.device));
  }
}

/// Checks what the study kernels take. A CPU tensor never meets them: there every
/// variant but `sequential` is the one CPU engine.
void check_study_variant(
    std::string_view op,
    std::string_view argument,
    const Description& input,
    Variant value,
    std::string_view variant) {
  if (input.device != "cuda" || value == Variant::kAuto) {
    return;
  }
  if (value == Variant::kSequential) {
    fail(join(op, ": variant 'sequential' needs a CPU tensor, got one on cuda"));
  }
  const std::string suffix = join(" for variant '", variant, "', got ");
  if (input.dtype != "uint8") {
    fail(join(op, ": ", argument, " must be uint8", suffix, input.dtype));
  }
  if (!input.contiguous) {
    fail(join(op, ": ", argument, " must be contiguous", suffix, "strides that are not"));
  }
}

/// `dim` as one flag a dimension of the input; an empty `dim` means all of them.
std::vector<bool> check_dim(std::string_view op, int64_t ndim, const std::vector<int64_t>& dim) {
  const int64_t count = std::max<int64_t>(ndim, 1); // a 0-d tensor is 1-D here
  std::vector<bool> reduced(static_cast<size_t>(count), dim.empty());
  for (int64_t d : dim) {
    if (d < -count || d >= count) {
      fail(join(
          op, ": dim must be between ", std::to_string(-count), " and ", std::to_string(count - 1),
          " for a ", std::to_string(ndim), "-D input, got ", std::to_string(d)));
    }
    auto flag = reduced.begin() + (d < 0 ? d + count : d);
    if (*flag) {
      fail(join(op, ": dim must name each dimension once, got ", join_numbers(dim)));
    }
    *flag = true;
  }
  return reduced;
}

/// The dimensions that are not reduced.
std::vector<int64_t> kept_of(const std::vector<bool>& reduced, int64_t ndim) {
  std::vector<int64_t> kept;
  for (int64_t d = 0; d < ndim; ++d) {
    if (!reduced[static_cast<size_t>(d)]) {
      kept.push_back(d);
    }
  }
  return kept;
}

} // namespace

void fail(const std::string& message) {
  throw std::runtime_error(message);
}

void check_device(
    std::string_view op,
    std::string_view argument,
    const Description& given,
    const Description& other,
    std::string_view remedy,
    std::string_view of) {
  if (given.device != other.device) {
    fail(join(
        op, ": ", argument, " must be on the device of ", of, ", ", other.device, ", got ",
        given.device, remedy));
  }
}

Checked check_values(
    std::string_view op,
    const Description& input,
    int64_t num_bins,
    const std::vector<int64_t>& dim) {
  check_input(op, "input", input);
  const std::optional<ElementType> element = element_type(input.dtype);
  if (!element || !is_integer(*element)) {
    fail(join(
        op, ": input must have an integer or bool dtype, got ", input.dtype, advice(input.dtype)));
  }
  if (num_bins < 0) {
    fail(join(op, ": num_bins must be at least 0, got ", std::to_string(num_bins)));
  }
  return {*element, kept_of(check_dim(op, input.ndim, dim), input.ndim)};
}

CheckedVariant check_channel_histogram(
    const Description& input,
    int64_t num_bins,
    const std::vector<int64_t>& dim,
    std::string_view variant) {
  const std::string_view op = kChannelHistogram;
  const CheckedVariant checked{check_values(op, input, num_bins, dim), check_variant(op, variant)};
  check_study_variant(op, "input", input, checked.variant, variant);
  if (input.device == "cuda" && checked.variant != Variant::kAuto) {
    const bool rows_of_channels =
        input.ndim <= 1 || (input.ndim == 2 && checked.kept == std::vector<int64_t>{1});
    if (!rows_of_channels) {
      fail(join(
          op, ": input must be 1-D, or 2-D and reduced over dim 0, for variant '", variant,
          "', got a ", std::to_string(input.ndim), "-D input",
          input.ndim == 2 ? " reduced over other dimensions" : ""));
    }
    if (num_bins > 256) {
      fail(join(
          op, ": num_bins must be at most 256 for variant '", variant, "', got ",
          std::to_string(num_bins)));
    }
  }
  return checked;
}

CheckedVariant check_text_histogram(const Description& text, std::string_view variant) {
  const std::string_view op = kTextHistogram;
  check_input(op, "text", text);
  if (text.dtype != "uint8" || text.ndim != 1) {
    fail(join(
        op, ": text must be a 1-D uint8 tensor, got a ", std::to_string(text.ndim), "-D ",
        text.dtype, " tensor"));
  }
  const CheckedVariant checked{{ElementType::kUInt8, {}}, check_variant(op, variant)};
  check_study_variant(op, "text", text, checked.variant, variant);
  return checked;
}

Checked check_numbers(std::string_view op, const Description& input, const Dims& dim) {
  check_input(op, "input", input);
  const std::optional<ElementType> element = element_type(input.dtype);
  if (!element) {
    fail(join(
        op, ": input must have a real dtype (", kRealDtypes, "), got ", input.dtype,
        advice_for_numbers(input.dtype)));
  }
  const std::vector<bool> reduced = check_dim(op, input.ndim, dim ? *dim : std::vector<int64_t>());
  return {*element, kept_of(reduced, input.ndim)};
}

void check_edges(std::string_view op, const Description& input, const Description& edges) {
  check_input(op, "edges", edges);
  const std::optional<ElementType> element = element_type(edges.dtype);
  if (!element || !is_type_of_edges(*element)) {
    fail(join(
        op, ": edges must be float32, float64 or integers, got ", edges.dtype,
        element ? ": pass edges.float()" : ""));
  }
  check_device(op, "edges", edges, input, ": pass edges.to(input.device)");
  if (edges.ndim == 0) {
    fail(join(op, ": edges must have at least one dimension, got a 0-D tensor"));
  }
}

void check_weight(std::string_view op, const Description& input, const Description& weight) {
  check_input(op, "weight", weight);
  if (!element_type(weight.dtype)) {
    const bool is_complex = weight.dtype.substr(0, 7) == "complex";
    fail(join(
        op, ": weight must have a real dtype (", kRealDtypes, "), got ", weight.dtype,
        is_complex ? ": sum up weight.real and weight.imag apart" : ""));
  }
  check_device(op, "weight", weight, input, ": pass weight.to(input.device)");
  if (weight.ndim > input.ndim) {
    fail(join(
        op, ": weight must have at most the dimensions of input, ", std::to_string(input.ndim),
        ", got a ", std::to_string(weight.ndim), "-D tensor: pass input expanded to its sizes"));
  }
}

void check_digits(std::string_view op, const Description& digits, int64_t size) {
  check_input(op, "digits", digits);
  if (digits.dtype != "int64" || digits.ndim == 0 || sum_layout_of_size(size).digits == 0) {
    fail(join(
        op, ": digits must be int64 with a last dimension of 1, 6, 13 or 70, as ",
        kWeightedHistogram, " returns them, got a ", std::to_string(digits.ndim), "-D ",
        digits.dtype, " tensor", digits.ndim == 0 ? "" : join(" with ", std::to_string(size))));
  }
}

void check_gradient(std::string_view op, const Description& input, const Description& gradient) {
  check_input(op, "grad", gradient);
  if (gradient.dtype != "float64" || gradient.device != input.device) {
    fail(join(
        op, ": grad must be float64 on the device of input, ", input.device, ", got ",
        gradient.dtype, " on ", gradient.device));
  }
}

void check_counts(const Description& input, const Description& counts) {
  check_input(kHistogramAdd, "counts", counts);
  if (counts.dtype != "int64") {
    fail(join(kHistogramAdd, ": counts must be int64, got ", counts.dtype));
  }
  check_device(kHistogramAdd, "counts", counts, input);
}

void check_bounds(const Description& low, const Description& high, int64_t num_bins) {
  for (const auto& [name, bound] : {std::pair("low", low), std::pair("high", high)}) {
    check_input(kUniformEdges, name, bound);
    if (bound.dtype != "float32" && bound.dtype != "float64") {
      fail(join(kUniformEdges, ": ", name, " must be float32 or float64, got ", bound.dtype));
    }
  }
  if (low.dtype != high.dtype) {
    fail(join(
        kUniformEdges, ": high must have the dtype of low, ", low.dtype, ", got ", high.dtype));
  }
  check_device(kUniformEdges, "high", high, low, "", "low");
  if (num_bins < 1) {
    fail(join(kUniformEdges, ": num_bins must be at least 1, got ", std::to_string(num_bins)));
  }
}

void check_edge_dtype(std::string_view dtype) {
  if (dtype != "float32" && dtype != "float64") {
    fail(join(kUniformEdges, ": dtype must be float32 or float64, got ", dtype));
  }
}

Interpolation check_quantile(
    const Description& input, const Description& q, std::string_view interpolation) {
  check_input(kQuantile, "q", q);
  const std::optional<ElementType> element = element_type(q.dtype);
  if (!element || is_integer(*element)) {
    fail(join(
        kQuantile, ": q must have a floating-point dtype, got ", q.dtype,
        element ? ": pass q.double()" : ""));
  }
  check_device(kQuantile, "q", q, input, ": pass q.to(input.device)");
  if (q.ndim > 1) {
    fail(join(
        kQuantile, ": q must be 0-D or 1-D, got a ", std::to_string(q.ndim),
        "-D tensor: pass q.flatten()"));
  }
  return check_name(kQuantile, "interpolation", interpolation, kInterpolations);
}

} // namespace histo
