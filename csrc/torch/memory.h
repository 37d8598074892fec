// Tensors that an operator makes.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "torch/arguments.h"

namespace histo {

/// Uninitialized memory on the device of `like`. If there is none, an error in torch's words tells
/// what it was for.
Tensor allocate(
    const Tensor& like, const std::vector<int64_t>& shape, ScalarType dtype, std::string_view use);

/// The same, a tensor of these sizes. Its dimensions lie in memory in this order, outer ones first.
Tensor allocate_in_order(
    const Tensor& like,
    const std::vector<int64_t>& sizes,
    const std::vector<int64_t>& order,
    ScalarType dtype,
    std::string_view use);

/// The elements that loops visit, outer ones first, as a contiguous tensor of their sizes.
Tensor contiguous_copy(const Tensor& input, const std::vector<Extent>& loops);

/// A contiguous tensor of the elements that this one has when it is expanded to `sizes`.
Tensor expanded(const Tensor& tensor, const std::vector<int64_t>& sizes);

} // namespace histo
