// Summing the tables that blocks leave in the workspace.
#pragma once

#include <type_traits>

#include "../binning.h"
#include "launch.h"

namespace histo::cuda {

void fold_columns(
    const Plan& plan,
    const Problem& problem,
    const ByteAxis& axis,
    const uint4* partials,
    const Launch& launch);

/// Calls f with the words of a table that a block of the fold sums, as a constant.
template <class F>
void with_fold_words(int words, const F& f) {
  switch (words) {
    case kFewFoldWords:
      return f(std::integral_constant<int, kFewFoldWords>{});
    case kFoldWords:
      return f(std::integral_constant<int, kFoldWords>{});
    case kManyFoldWords:
      return f(std::integral_constant<int, kManyFoldWords>{});
    default:
      no_kernel("of the fold");
  }
}

/// It starts after the count has ended: waiting on the SMs it takes longer.
inline Shape fold_shape(const Plan& plan, const Columns& in, const Launch& launch) {
  const auto slices = static_cast<unsigned>(plan.fold_blocks) / in.units();
  return {dim3(in.units(), slices), kFoldThreads, 0, 1, launch.limits.has_clusters()};
}

} // namespace histo::cuda
