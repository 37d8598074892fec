// The type and the sizes of a tensor, as torch names them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "torch/arguments.h"

namespace histo {

/// torch's name of a dtype: most are ScalarType's own in lower case.
std::string_view dtype_name(ScalarType code);

std::vector<int64_t> sizes_of(const Tensor& tensor);

} // namespace histo
