// A problem of standard input, made by the function that makes those of the operators.
#pragma once

#include <iostream>
#include <vector>

#include "cuda/plan/layouts.h"
#include "torch/arguments.h"

namespace histo {

template <class T = int64_t>
T read() {
  int64_t number = 0;
  std::cin >> number;
  return static_cast<T>(number);
}

/// The element type, the bins, the number of dimensions, their sizes and strides, the number of those
/// that the result keeps, and which ones. `copies`: the strides are too many loops.
inline Problem read_problem(bool& copies) {
  const auto type = static_cast<ElementType>(read());
  const int64_t num_bins = read();
  std::vector<Extent> dimensions(read<size_t>());
  for (Extent& dimension : dimensions) {
    dimension.size = read();
    dimension.stride = read();
  }
  std::vector<int64_t> kept(read<size_t>());
  for (int64_t& dimension : kept) {
    dimension = read();
  }
  Copies needed;
  const Problem problem = loops_as_problem({{type, dimensions}}, kept, num_bins, needed);
  copies = !needed[0].empty();
  return problem;
}

/// The GPU's SMs, shared memory of a block and of an SM, and capability.
inline cuda::DeviceLimits read_limits() {
  cuda::DeviceLimits limits{};
  limits.sm_count = read<int>();
  limits.shared_per_block = read();
  limits.shared_per_sm = read();
  limits.capability = read<int>();
  return limits;
}

} // namespace histo
