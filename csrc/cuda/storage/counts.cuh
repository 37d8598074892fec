// Writing a block's sums to the result.
#pragma once

#include <cstdint>

namespace histo::cuda {

/// kAdd: other blocks add to the same counter. Otherwise this is its only writer.
template <bool kAdd>
__device__ __forceinline__ void put(unsigned long long* counter, uint32_t sum) {
  if (!kAdd) {
    *counter = sum;
  } else if (sum != 0) {
    atomicAdd(counter, static_cast<unsigned long long>(sum));
  }
}

__device__ __forceinline__ void put_or_add(unsigned long long* counter, uint32_t sum, bool add) {
  add ? put<true>(counter, sum) : put<false>(counter, sum);
}

} // namespace histo::cuda
