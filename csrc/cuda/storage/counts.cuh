// Writing a block's sums to the result.
#pragma once

#include <cstdint>

namespace histo::cuda {

/// kAdd: other blocks add to the same counter, or it holds a number that is kept. Otherwise this is
/// its only writer.
template <bool kAdd, class Sum>
__device__ __forceinline__ void put(unsigned long long* counter, Sum sum) {
  if (!kAdd) {
    *counter = sum;
  } else if (sum != 0) {
    atomicAdd(counter, static_cast<unsigned long long>(sum));
  }
}

template <class Sum>
__device__ __forceinline__ void put_or_add(unsigned long long* counter, Sum sum, bool add) {
  add ? put<true>(counter, sum) : put<false>(counter, sum);
}

} // namespace histo::cuda
