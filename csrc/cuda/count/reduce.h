// Summing the tables that blocks leave in the workspace.
#pragma once

#include <type_traits>

#include "core/axis.h"
#include "cuda/launch.h"

namespace histo::cuda {

void reduce_columns(
    const CountPlan& plan,
    const Problem& problem,
    const ByteAxis& axis,
    const uint4* partials,
    const Launch& launch);

/// Calls f with the words of a table that a block of the reduction sums, as a constant.
template <class F>
void with_reduce_words(int words, const F& f) {
  switch (words) {
    case kFewReduceWords:
      return f(std::integral_constant<int, kFewReduceWords>{});
    case kReduceWords:
      return f(std::integral_constant<int, kReduceWords>{});
    case kManyReduceWords:
      return f(std::integral_constant<int, kManyReduceWords>{});
    default:
      no_kernel("of the reduction");
  }
}

/// The reduction starts after the count has ended. It takes longer if it waits on the SMs.
inline LaunchShape reduce_shape(
    const CountPlan& plan, const ColumnLayout& in, const Launch& launch) {
  const auto slices = static_cast<unsigned>(plan.reduce_blocks) / in.segments();
  return {dim3(in.segments(), slices), kReduceThreads, 0, 1, launch.limits.has_clusters()};
}

} // namespace histo::cuda
