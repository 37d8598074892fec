// Counts that a caller keeps, and a call adds to.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "torch/arguments.h"

namespace histo {

/// Throws unless these are int64 counts of `sizes` beside the input, each in memory of its own.
void check_counts(const Tensor& counts, const Tensor& input, const std::vector<int64_t>& sizes);

/// Whether two tensors on one device may have bytes in common.
bool share_memory(const Tensor& a, const Tensor& b);

/// Tells autograd that an argument is about to change, as torch's own operators do: by its version.
void mark_changed(std::string_view op, std::string_view argument, const Tensor& tensor);

} // namespace histo
