// Sums and products that round once. On a GPU the compiler would make one operation of two.
#pragma once

#include "core/axis.h"

namespace histo {

template <class T>
HISTO_HOST_DEVICE T rounded_sum(T a, T b) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) == 4) {
    return __fadd_rn(a, b);
  } else {
    return __dadd_rn(a, b);
  }
#else
  return a + b;
#endif
}
template <class T>
HISTO_HOST_DEVICE T rounded_product(T a, T b) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) == 4) {
    return __fmul_rn(a, b);
  } else {
    return __dmul_rn(a, b);
  }
#else
  return a * b;
#endif
}

} // namespace histo
