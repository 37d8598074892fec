#include "torch/describe.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string>
#include <utility>

#include <torch/headeronly/core/Layout.h>

#include "torch/messages.h"

namespace histo {

namespace {

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

} // namespace

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

std::optional<ElementType> element_type(std::string_view dtype) {
  for (const Dtype& known : kDtypes) {
    if (known.name == dtype) {
      return known.element;
    }
  }
  return std::nullopt;
}

std::vector<int64_t> sizes_of(const Tensor& tensor) {
  std::vector<int64_t> sizes;
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    sizes.push_back(tensor.size(d));
  }
  return sizes;
}

Description describe(std::string_view op, std::string_view argument, const Tensor& tensor) {
  if (!tensor.defined()) {
    fail(join(op, ": ", argument, " must be a torch.Tensor, got None"));
  }
  return describe(tensor);
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

} // namespace histo
