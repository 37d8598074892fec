// Edges in global memory: for channels that need no table, and for the 256 values of a byte.
#pragma once

#include <cstdint>

#include "core/edges.h"

namespace histo::cuda {

/// How many thresholds of a channel a number reaches. Edges and number are compared as they are.
/// `edges` are Edges, or have the same `bins` and `at`.
template <class E>
__device__ __forceinline__ int64_t search_edges(const E& edges, int64_t channel, Real value) {
  // Only values beyond the last edge reach it.
  if (is_below(edges.at(channel, edges.bins), value)) {
    return edges.bins + 1;
  }
  int64_t low = 0, high = edges.bins;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (is_at_most(edges.at(channel, middle), value)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/// Whether the edges of a channel do not decrease and none is NaN, asked by a whole block.
template <class E>
__device__ __forceinline__ bool are_valid(const E& edges, int64_t channel) {
  bool valid = true;
  for (int64_t k = threadIdx.x; k < edges.bins; k += blockDim.x) {
    valid = valid && is_at_most(edges.at(channel, k), edges.at(channel, k + 1));
  }
  return __syncthreads_and(valid);
}

} // namespace histo::cuda
