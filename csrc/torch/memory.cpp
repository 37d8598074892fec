#include "torch/memory.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>

#include <torch/csrc/stable/ops.h>

#include "torch/describe.h"
#include "torch/messages.h"

namespace histo {

namespace {

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

/// Allocates on the device of `like`, a CPU or CUDA. A call by name would take a third of a small
/// call's time.
Tensor allocate_beside(const Tensor& like, const std::vector<int64_t>& shape, ScalarType dtype) {
  std::vector<int64_t> strides(shape.size());
  int64_t elements = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    strides[d] = elements;
    if (__builtin_mul_overflow(elements, std::max<int64_t>(shape[d], 1), &elements)) {
      throw std::runtime_error("more than 2^63 elements");
    }
  }
  constexpr int64_t kMostBytes = 8; // of an element of any tensor that is allocated here
  if (elements > std::numeric_limits<int64_t>::max() / kMostBytes) {
    throw std::runtime_error("more than 2^63 bytes"); // torch 2.11 ends the process on CUDA
  }
  AtenTensorHandle tensor = nullptr;
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(
      static_cast<int64_t>(shape.size()), shape.data(), strides.data(), static_cast<int32_t>(dtype),
      like.is_cpu() ? aoti_torch_device_type_cpu() : aoti_torch_device_type_cuda(),
      like.is_cpu() ? 0 : like.get_device_index(), &tensor));
  return Tensor(tensor);
}

/// A view of the elements of a tensor that lie at these strides from its first one.
Tensor view_at(
    const Tensor& tensor, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
  AtenTensorHandle handle = nullptr;
  // Not as_strided, which takes sizes of as many dimensions as the tensor has.
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch__reinterpret_tensor(
      tensor.get(), static_cast<int64_t>(sizes.size()), sizes.data(), strides.data(), 0, &handle));
  return Tensor(handle);
}

/// The same elements, contiguous.
Tensor contiguous_at(
    const Tensor& tensor,
    const std::vector<int64_t>& sizes,
    const std::vector<int64_t>& strides,
    std::string_view use) {
  const Tensor view = view_at(tensor, sizes, strides);
  return allocated(
      tensor, sizes, describe(tensor).dtype, use, [&] { return torch::stable::contiguous(view); });
}

} // namespace

Tensor allocate(
    const Tensor& like, const std::vector<int64_t>& shape, ScalarType dtype, std::string_view use) {
  return allocated(
      like, shape, dtype_name(dtype), use, [&] { return allocate_beside(like, shape, dtype); });
}

Tensor allocate_in_order(
    const Tensor& like,
    const std::vector<int64_t>& sizes,
    const std::vector<int64_t>& order,
    ScalarType dtype,
    std::string_view use) {
  std::vector<int64_t> shape;
  for (const int64_t d : order) {
    shape.push_back(sizes[static_cast<size_t>(d)]);
  }
  const Tensor memory = allocate(like, shape, dtype, use);
  std::vector<int64_t> strides(sizes.size());
  for (size_t i = 0; i < order.size(); ++i) {
    strides[static_cast<size_t>(order[i])] = memory.stride(static_cast<int64_t>(i));
  }
  return view_at(memory, sizes, strides);
}

Tensor contiguous_copy(const Tensor& input, const std::vector<Extent>& loops) {
  std::vector<int64_t> sizes, strides;
  for (const Extent& loop : loops) {
    sizes.push_back(loop.size);
    strides.push_back(loop.stride);
  }
  return contiguous_at(input, sizes, strides, "a contiguous copy of the input");
}

Tensor expanded(const Tensor& tensor, const std::vector<int64_t>& sizes) {
  const auto multiplied = [](int64_t product, int64_t size) { return product * size; };
  if (tensor.is_contiguous() &&
      tensor.numel() == std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, multiplied)) {
    return tensor; // no element is repeated
  }
  std::vector<int64_t> strides(sizes.size(), 0);
  const int64_t ndim = tensor.dim();
  for (int64_t d = 0; d < std::min(ndim, static_cast<int64_t>(sizes.size())); ++d) {
    const int64_t from = ndim - 1 - d;
    if (tensor.size(from) != 1) {
      strides[sizes.size() - 1 - static_cast<size_t>(d)] = tensor.stride(from);
    }
  }
  return contiguous_at(tensor, sizes, strides, "a contiguous copy");
}

void* Workspace::operator()(int64_t bytes) {
  const std::vector<int64_t> shape{bytes};
  held_.push_back(allocate(like_, shape, ScalarType::Byte, "a workspace"));
  return held_.back().mutable_data_ptr();
}

} // namespace histo
