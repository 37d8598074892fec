// What a thread finds of channels, whatever their type.
#pragma once

#include "cuda/summary/float_sums.cuh"
#include "cuda/summary/integer_sums.cuh"
#include "cuda/walk/walk.cuh"
#include "cuda/warp.cuh"

namespace histo::cuda {

template <class T>
using SumsOfThread = std::conditional_t<Number<T>::kIsFloat, FloatSums<T>, IntegerSums<T>>;

/// Adds the elements of a vec16 together, and others one by one.
template <class T>
struct GroupsOf {
  SumsOfThread<T>& sums;

  __device__ __forceinline__ void operator()(const Pack<T, 16 / sizeof(T)>& pack) const {
    sums.add(pack.elements);
  }
  __device__ __forceinline__ void operator()(T element) const {
    sums.add(element);
  }
};

} // namespace histo::cuda
