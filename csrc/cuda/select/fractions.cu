#include "cuda/select/fractions.h"

#include <algorithm>

namespace histo::cuda {
namespace {

/// The numbers that one launch writes.
struct SomeFractions {
  static constexpr int kMost = 32;
  double numbers[kMost];
  int size;
};

__global__ void write_fractions_kernel(const __grid_constant__ SomeFractions some, double* to) {
  if (static_cast<int>(threadIdx.x) < some.size) {
    to[threadIdx.x] = some.numbers[threadIdx.x];
  }
}

} // namespace

void write_fractions(const double* fractions, int64_t size, double* to, const Launch& launch) {
  for (int64_t first = 0; first < size; first += SomeFractions::kMost) {
    SomeFractions some{};
    some.size = static_cast<int>(std::min<int64_t>(size - first, SomeFractions::kMost));
    std::copy_n(fractions + first, some.size, some.numbers);
    start(
        launch, "write_fractions", write_fractions_kernel, dim3(1), dim3(SomeFractions::kMost), 0,
        some, to + first);
  }
}

} // namespace histo::cuda
