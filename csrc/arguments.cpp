#include "arguments.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <utility>

#include <torch/csrc/stable/ops.h>
#include <torch/headeronly/core/Layout.h>
#include <torch/headeronly/core/ScalarType.h>

namespace histo {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

namespace {

constexpr std::string_view kChannelHistogram = "channel_histogram";
constexpr std::string_view kTextHistogram = "text_histogram";
constexpr std::string_view kHistogram = "histogram";
constexpr std::string_view kUniformEdges = "uniform_edges";
constexpr std::string_view kQuantile = "quantile";

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

struct Dtype {
  ScalarType code;
  std::string_view name;
  std::optional<ElementType> element;
};

constexpr Dtype kDtypes[] = {
    {ScalarType::Bool, "bool", ElementType::kBool},
    {ScalarType::Byte, "uint8", ElementType::kUInt8},
    {ScalarType::Char, "int8", ElementType::kInt8},
    {ScalarType::UInt16, "uint16", ElementType::kUInt16},
    {ScalarType::Short, "int16", ElementType::kInt16},
    {ScalarType::UInt32, "uint32", ElementType::kUInt32},
    {ScalarType::Int, "int32", ElementType::kInt32},
    {ScalarType::UInt64, "uint64", ElementType::kUInt64},
    {ScalarType::Long, "int64", ElementType::kInt64},
    {ScalarType::Half, "float16", ElementType::kFloat16},
    {ScalarType::BFloat16, "bfloat16", ElementType::kBFloat16},
    {ScalarType::Float, "float32", ElementType::kFloat32},
    {ScalarType::Double, "float64", ElementType::kFloat64},
    {ScalarType::Float8_e4m3fn, "float8_e4m3fn", ElementType::kFloat8E4M3},
    {ScalarType::Float8_e5m2, "float8_e5m2", ElementType::kFloat8E5M2},
    {ScalarType::ComplexHalf, "complex32", std::nullopt},
    {ScalarType::ComplexFloat, "complex64", std::nullopt},
    {ScalarType::ComplexDouble, "complex128", std::nullopt},
};

/// torch's name of a dtype: most are ScalarType's own in lower case.
std::string_view dtype_name(ScalarType code) {
  for (const Dtype& known : kDtypes) {
    if (known.code == code) {
      return known.name;
    }
  }
  static const std::vector<std::string> names = [] {
    std::vector<std::string> lower_case;
    for (int i = 0; i < static_cast<int>(ScalarType::NumOptions); ++i) {
      std::string name = torch::headeronly::toString(static_cast<ScalarType>(i));
      std::transform(name.begin(), name.end(), name.begin(), [](char c) {
        return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      });
      lower_case.push_back(name);
    }
    return lower_case;
  }();
  const auto index = static_cast<size_t>(code);
  return index < names.size() ? std::string_view(names[index]) : "an unknown one";
}

} // namespace

std::optional<ElementType> element_type(std::string_view dtype) {
  for (const Dtype& known : kDtypes) {
    if (known.name == dtype) {
      return known.element;
    }
  }
  return std::nullopt;
}

namespace {

template <class... Parts>
std::string join(const Parts&... parts) {
  std::string text;
  (text.append(parts), ...);
  return text;
}

std::string join_numbers(const std::vector<int64_t>& numbers) {
  std::string text;
  for (int64_t number : numbers) {
    text += (text.empty() ? "" : ", ") + std::to_string(number);
  }
  return "[" + text + "]";
}

/// The name that `known` gives a code.
template <size_t N>
std::string_view name_of(
    int32_t code,
    const std::pair<int32_t, std::string_view> (&known)[N],
    std::string_view otherwise) {
  for (const auto& [known_code, name] : known) {
    if (known_code == code) {
      return name;
    }
  }
  return otherwise;
}

/// A text of one line, however long it is and whatever is in it.
std::string quoted(std::string_view text) {
  constexpr size_t kShown = 40;
  std::string shown(text.substr(0, kShown));
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; }, '?');
  return join("'", shown, text.size() > kShown ? "..." : "", "'");
}

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

/// Merges neighbours that one loop can walk, and drops loops of one step.
std::vector<Extent> merged(const std::vector<Extent>& loops) {
  std::vector<Extent> result;
  for (const Extent& loop : loops) {
    if (loop.size == 1) {
      continue;
    }
    if (!result.empty() && result.back().stride == loop.size * loop.stride) {
      result.back() = {result.back().size * loop.size, loop.stride};
    } else {
      result.push_back(loop);
    }
  }
  return result;
}

struct Loops {
  std::vector<Extent> channels;
  std::vector<Extent> rows;
};

Loops loops_of(const std::vector<Extent>& dimensions, const std::vector<int64_t>& kept) {
  Loops loops;
  for (size_t d = 0; d < dimensions.size(); ++d) {
    const bool keep = std::find(kept.begin(), kept.end(), static_cast<int64_t>(d)) != kept.end();
    (keep ? loops.channels : loops.rows).push_back(dimensions[d]);
  }
  // Counting has no order, so rows may be walked in any: the order of memory.
  std::stable_sort(loops.rows.begin(), loops.rows.end(), [](const Extent& a, const Extent& b) {
    return a.stride > b.stride;
  });
  return {merged(loops.channels), merged(loops.rows)};
}

/// Returns the tensor that `make` allocates. If memory is short, throws torch's words for that:
/// torch's own message does not pass the stable ABI. `use` says what the tensor is for.
template <class Make>
Tensor allocated(
    const Tensor& like,
    const std::vector<int64_t>& shape,
    std::string_view dtype,
    std::string_view use,
    const Make& make) {
  try {
    return make();
  } catch (const std::runtime_error&) {
    const std::string_view device = describe(like).device == "cuda" ? "CUDA" : "CPU";
    fail(join(
        "histo: ", device, " out of memory. Tried to allocate a tensor of shape ",
        join_numbers(shape), " ", dtype, " for ", use));
  }
}

/// The same elements as [kept dimensions, other dimensions], contiguous.
Tensor kept_first(const Tensor& input, std::vector<int64_t> order) {
  for (int64_t d = 0; d < input.dim(); ++d) {
    if (std::find(order.begin(), order.end(), d) == order.end()) {
      order.push_back(d);
    }
  }
  std::vector<int64_t> sizes, strides;
  for (int64_t d : order) {
    sizes.push_back(input.size(d));
    strides.push_back(input.stride(d));
  }
  AtenTensorHandle view = nullptr;
  STABLE_TORCH_ERROR_CODE_CHECK(
      aoti_torch_as_strided(input.get(), sizes.data(), strides.data(), &view));
  const Tensor permuted(view);
  return allocated(input, sizes, describe(input).dtype, "a contiguous copy of the input", [&] {
    return torch::stable::contiguous(permuted);
  });
}

/// Allocates without the dispatcher, which would take a third of a small call.
Tensor allocate_on_cpu(const std::vector<int64_t>& shape, ScalarType dtype) {
  std::vector<int64_t> strides(shape.size());
  int64_t elements = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    strides[d] = elements;
    if (__builtin_mul_overflow(elements, std::max<int64_t>(shape[d], 1), &elements)) {
      throw std::runtime_error("more than 2^63 elements");
    }
  }
  AtenTensorHandle tensor = nullptr;
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(
      static_cast<int64_t>(shape.size()), shape.data(), strides.data(), static_cast<int32_t>(dtype),
      aoti_torch_device_type_cpu(), 0, &tensor));
  return Tensor(tensor);
}

/// Uninitialized memory on the device of `like`.
Tensor allocate(
    const Tensor& like, const std::vector<int64_t>& shape, ScalarType dtype, std::string_view use) {
  return allocated(like, shape, dtype_name(dtype), use, [&] {
    return like.is_cpu() ? allocate_on_cpu(shape, dtype)
                         : torch::stable::new_empty(like, shape, dtype);
  });
}

/// A problem without counts, and the tensor that it reads.
struct Read {
  Problem problem;
  Tensor input;
};

Read read_of(const Tensor& input, const Checked& checked, int64_t num_counts) {
  std::vector<Extent> dimensions;
  for (int64_t d = 0; d < input.dim(); ++d) {
    dimensions.push_back({input.size(d), input.stride(d)});
  }
  bool copies = false;
  Read read{loops_as_problem(dimensions, checked, num_counts, copies), input};
  if (copies) {
    read.input = kept_first(input, checked.kept);
  }
  read.problem.data = read.input.const_data_ptr();
  return read;
}

/// `num_counts`: of a channel.
Call prepare(
    const Tensor& input,
    const Checked& checked,
    int64_t num_counts,
    std::string_view use_of_counts) {
  std::vector<int64_t> shape;
  for (int64_t d : checked.kept) {
    shape.push_back(input.size(d));
  }
  shape.push_back(num_counts);
  // The counts come first: a copy of the input may be what memory does not suffice for.
  const Tensor counts = allocate(input, shape, ScalarType::Long, use_of_counts);
  const Read read = read_of(input, checked, num_counts);
  Call call{checked.variant, read.problem, read.input, counts};
  call.problem.counts = static_cast<int64_t*>(call.counts.mutable_data_ptr());
  return call;
}

std::vector<int64_t> sizes_of(const Tensor& tensor) {
  std::vector<int64_t> sizes;
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    sizes.push_back(tensor.size(d));
  }
  return sizes;
}

/// Whether a tensor of these sizes expands to others. Both end with the same dimension.
bool broadcasts(const std::vector<int64_t>& from, const std::vector<int64_t>& to) {
  if (from.size() > to.size()) {
    return false;
  }
  return std::equal(from.rbegin(), from.rend(), to.rbegin(), [](int64_t a, int64_t b) {
    return a == b || a == 1;
  });
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

/// A tensor as a contiguous one of these sizes, which it expands to, or has but for dimensions of
/// one element.
Tensor expanded(const Tensor& tensor, const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size(), 0);
  const int64_t ndim = tensor.dim();
  for (int64_t d = 0; d < std::min(ndim, static_cast<int64_t>(sizes.size())); ++d) {
    const int64_t from = ndim - 1 - d;
    if (tensor.size(from) != 1) {
      strides[sizes.size() - 1 - static_cast<size_t>(d)] = tensor.stride(from);
    }
  }
  AtenTensorHandle view = nullptr;
  // Not as_strided, which takes sizes of as many dimensions as the tensor has.
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch__reinterpret_tensor(
      tensor.get(), static_cast<int64_t>(sizes.size()), sizes.data(), strides.data(), 0, &view));
  const Tensor wide(view);
  return allocated(tensor, sizes, describe(tensor).dtype, "a contiguous copy", [&] {
    return torch::stable::contiguous(wide);
  });
}

void check_same_gpu(
    std::string_view op, std::string_view argument, const Tensor& tensor, const Tensor& other) {
  if (tensor.get_device_index() != other.get_device_index()) {
    fail(join(
        op, ": ", argument, " must be on GPU ", std::to_string(other.get_device_index()), ", got ",
        std::to_string(tensor.get_device_index())));
  }
}

} // namespace

void fail(const std::string& message) {
  throw std::runtime_error(message);
}

Description describe(const Tensor& tensor) {
  int32_t device = 0, dtype = 0, layout = 0;
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(tensor.get(), &device));
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(tensor.get(), &dtype));
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_layout(tensor.get(), &layout));

  static const std::pair<int32_t, std::string_view> devices[] = {
      {aoti_torch_device_type_cpu(), "cpu"},
      {aoti_torch_device_type_cuda(), "cuda"},
      {aoti_torch_device_type_meta(), "meta"},
      {aoti_torch_device_type_xpu(), "xpu"},
      {aoti_torch_device_type_mps(), "mps"},
      {aoti_torch_device_type_privateuse1(), "privateuseone"},
  };
  static const std::pair<int32_t, std::string_view> layouts[] = {
      {aoti_torch_layout_strided(), "strided"},
      {aoti_torch_layout_sparse_coo(), "sparse_coo"},
      {aoti_torch_layout_sparse_csr(), "sparse_csr"},
      {aoti_torch_layout_sparse_csc(), "sparse_csc"},
      {aoti_torch_layout_sparse_bsr(), "sparse_bsr"},
      {aoti_torch_layout_sparse_bsc(), "sparse_bsc"},
      {aoti_torch_layout__mkldnn(), "_mkldnn"},
      {aoti_torch_layout_jagged(), "jagged"},
  };
  const std::string_view layout_name = name_of(layout, layouts, "other than strided");
  return {
      name_of(device, devices, "of another kind"), dtype_name(static_cast<ScalarType>(dtype)),
      layout_name,
      // Only dense tensors know whether they are contiguous.
      layout_name == "strided" && tensor.is_contiguous(), tensor.dim()};
}

Problem loops_as_problem(
    const std::vector<Extent>& dimensions, const Checked& checked, int64_t num_bins, bool& copies) {
  int64_t channels = 1, elements = 1;
  for (size_t d = 0; d < dimensions.size(); ++d) {
    elements *= dimensions[d].size;
  }
  for (int64_t d : checked.kept) {
    channels *= dimensions[static_cast<size_t>(d)].size;
  }
  Problem problem{};
  problem.type = checked.element;
  problem.num_bins = num_bins;
  if (elements == 0) {
    problem.channels[0] = problem.rows[0] = problem.rows[1] = {1, 0};
    problem.channels[1] = {channels, 0};
    problem.rows[2] = {0, 0};
    copies = false;
    return problem;
  }
  Loops loops = loops_of(dimensions, checked.kept);
  copies = loops.channels.size() > std::size(problem.channels) ||
           loops.rows.size() > std::size(problem.rows);
  if (copies) {
    const int64_t rows = elements / channels;
    loops = {{{channels, rows}}, {{rows, 1}}};
  }
  const auto nest = [](const std::vector<Extent>& from, auto& to) {
    std::fill(std::begin(to), std::end(to), Extent{1, 0});
    std::copy(from.begin(), from.end(), std::end(to) - static_cast<ptrdiff_t>(from.size()));
  };
  nest(loops.channels, problem.channels);
  nest(loops.rows, problem.rows);
  return problem;
}

Checked check_channel_histogram(
    const Description& input,
    int64_t num_bins,
    const std::vector<int64_t>& dim,
    std::string_view variant) {
  const std::string_view op = kChannelHistogram;
  check_input(op, "input", input);
  const std::optional<ElementType> element = element_type(input.dtype);
  if (!element || !is_integer(*element)) {
    fail(join(
        op, ": input must have an integer or bool dtype, got ", input.dtype, advice(input.dtype)));
  }
  if (num_bins < 0) {
    fail(join(op, ": num_bins must be at least 0, got ", std::to_string(num_bins)));
  }
  const std::vector<bool> reduced = check_dim(op, input.ndim, dim);
  Checked checked{check_variant(op, variant), *element, {}};
  for (int64_t d = 0; d < input.ndim; ++d) {
    if (!reduced[static_cast<size_t>(d)]) {
      checked.kept.push_back(d);
    }
  }
  check_study_variant(op, "input", input, checked.variant, variant);
  if (input.device == "cuda" && checked.variant != Variant::kAuto) {
    const bool rows_of_channels = input.ndim <= 1 || (input.ndim == 2 && reduced[0] && !reduced[1]);
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

Checked check_text_histogram(const Description& text, std::string_view variant) {
  const std::string_view op = kTextHistogram;
  check_input(op, "text", text);
  if (text.dtype != "uint8" || text.ndim != 1) {
    fail(join(
        op, ": text must be a 1-D uint8 tensor, got a ", std::to_string(text.ndim), "-D ",
        text.dtype, " tensor"));
  }
  const Checked checked{check_variant(op, variant), ElementType::kUInt8, {}};
  check_study_variant(op, "text", text, checked.variant, variant);
  return checked;
}

Checked check_numbers(
    std::string_view op, const Description& input, const std::optional<std::vector<int64_t>>& dim) {
  check_input(op, "input", input);
  const std::optional<ElementType> element = element_type(input.dtype);
  if (!element) {
    fail(join(
        op,
        ": input must have a real dtype (bool, an integer, float16, bfloat16, float32, float64, ",
        "float8_e4m3fn or float8_e5m2), got ", input.dtype, advice_for_numbers(input.dtype)));
  }
  const std::vector<bool> reduced = check_dim(op, input.ndim, dim ? *dim : std::vector<int64_t>());
  Checked checked{Variant::kAuto, *element, {}};
  for (int64_t d = 0; d < input.ndim; ++d) {
    if (!reduced[static_cast<size_t>(d)]) {
      checked.kept.push_back(d);
    }
  }
  return checked;
}

void check_edges(const Description& input, const Description& edges) {
  check_input(kHistogram, "edges", edges);
  const std::optional<ElementType> element = element_type(edges.dtype);
  if (!element || !is_type_of_edges(*element)) {
    fail(join(
        kHistogram, ": edges must be float32, float64 or integers, got ", edges.dtype,
        element ? ": pass edges.float()" : ""));
  }
  if (edges.device != input.device) {
    fail(join(
        kHistogram, ": edges must be on the device of input, ", input.device, ", got ",
        edges.device, ": pass edges.to(input.device)"));
  }
  if (edges.ndim == 0) {
    fail(join(kHistogram, ": edges must have at least one dimension, got a 0-D tensor"));
  }
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
  if (low.device != high.device) {
    fail(join(
        kUniformEdges, ": high must be on the device of low, ", low.device, ", got ", high.device));
  }
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
  if (q.device != input.device) {
    fail(join(
        kQuantile, ": q must be on the device of input, ", input.device, ", got ", q.device,
        ": pass q.to(input.device)"));
  }
  if (q.ndim > 1) {
    fail(join(
        kQuantile, ": q must be 0-D or 1-D, got a ", std::to_string(q.ndim),
        "-D tensor: pass q.flatten()"));
  }
  return check_name(kQuantile, "interpolation", interpolation, kInterpolations);
}

HistogramCall prepare_histogram(
    const Tensor& input,
    const Tensor& edges,
    const std::optional<std::vector<int64_t>>& dim,
    bool flow) {
  const Description of_input = describe(input), of_edges = describe(edges);
  const Checked checked = check_numbers(kHistogram, of_input, dim);
  check_edges(of_input, of_edges);
  check_same_gpu(kHistogram, "edges", edges, input);
  const std::vector<int64_t> given = sizes_of(edges);
  const int64_t bins = given.back() - 1;
  if (bins < 1) {
    fail(join(
        kHistogram, ": edges must hold at least two edges in the last dimension, got ",
        std::to_string(given.back())));
  }
  std::vector<int64_t> full;
  for (int64_t d : checked.kept) {
    full.push_back(input.size(d));
  }
  full.push_back(bins + 1);
  const bool shared =
      std::all_of(given.begin(), given.end() - 1, [](int64_t size) { return size == 1; });
  if (!broadcasts(given, full)) {
    fail(join(
        kHistogram,
        ": edges must be [n + 1], or have sizes that broadcast to the kept dimensions "
        "and n + 1, ",
        join_numbers(full), ", got ", join_numbers(given)));
  }
  HistogramCall prepared{
      prepare(
          input, checked, Flow{flow}.num_counts(bins),
          "the counts: pass fewer bins, or fewer channels at a time"),
      {},
      Flow{flow},
      expanded(edges, shared ? std::vector<int64_t>{bins + 1} : full)};
  prepared.edges = Edges::all(
      prepared.edges_tensor.const_data_ptr(), *element_type(of_edges.dtype), bins, shared);
  return prepared;
}

RangeCall prepare_finite_range(
    const Tensor& input, const std::optional<std::vector<int64_t>>& dim) {
  const std::string_view op = "finite_range";
  const Checked checked = check_numbers(op, describe(input), dim);
  std::vector<int64_t> shape;
  for (int64_t d : checked.kept) {
    shape.push_back(input.size(d));
  }
  const bool in_float32 = !is_integer(checked.element) && checked.element != ElementType::kFloat64;
  const ScalarType dtype = in_float32 ? ScalarType::Float : ScalarType::Double;
  const Read read = read_of(input, checked, 1);
  return {
      read.problem, read.input, allocate(input, shape, dtype, "the extremes"),
      allocate(input, shape, dtype, "the extremes"), in_float32};
}

EdgesCall prepare_uniform_edges(
    const Tensor& low, const Tensor& high, int64_t num_bins, ScalarType dtype) {
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
  EdgesCall call{expanded(low, shape), expanded(high, shape), low, 1, num_bins, {}, {}};
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
    const std::optional<std::vector<int64_t>>& dim,
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
  const Read read = read_of(input, checked, 1);
  QuantileCall call{
      {read.problem, nullptr, q.numel(), float64_ranks, rule, ignore_nan, nullptr, nullptr,
       nullptr},
      read.input,
      torch::stable::contiguous(torch::stable::to(q, ScalarType::Double)),
      allocate(input, shape, dtype, "the values"),
      allocate(input, shape, dtype, "the values"),
      allocate(input, shape, rank_dtype, "the weights"),
      takes_floats ? dtype : ScalarType::Double};
  Selection& selection = call.selection;
  selection.q = static_cast<const double*>(call.q.const_data_ptr());
  selection.below = call.below.mutable_data_ptr();
  selection.above = call.above.mutable_data_ptr();
  selection.weights = call.weights.mutable_data_ptr();
  return call;
}

Call prepare_channel_histogram(
    const Tensor& input,
    int64_t num_bins,
    const std::vector<int64_t>& dim,
    std::string_view variant) {
  const Checked checked = check_channel_histogram(describe(input), num_bins, dim, variant);
  return prepare(
      input, checked, num_bins, "the counts: pass a smaller num_bins, or fewer channels at a time");
}

Call prepare_text_histogram(const Tensor& text, std::string_view variant) {
  const Checked checked = check_text_histogram(describe(text), variant);
  return prepare(text, checked, LetterBinning::num_bins, "the counts");
}

void* Workspace::operator()(int64_t bytes) {
  const std::vector<int64_t> shape{bytes};
  held_.push_back(allocate(like_, shape, ScalarType::Byte, "a workspace"));
  return held_.back().mutable_data_ptr();
}

} // namespace histo
