// The preparations of a count: zeroed counts, where they are added to, and memory for tables.
#pragma once

#include "cuda/launch.h"

namespace histo::cuda {

/// Clears counts. If `overlaps`, a kernel does it; the next kernel starts early and waits for it.
void clear(const Launch& launch, int64_t* counts, int64_t size, bool overlaps);
inline void clear(const Launch& launch, const Problem& problem, bool overlaps) {
  clear(launch, problem.counts, problem.num_counts(), overlaps);
}

struct Prepared {
  uint4* partials; // memory for the tables that are to be reduced; null if none are
  bool starts_early;
};
/// For the kernels that count columns.
Prepared prepare(const CountPlan& plan, const Problem& problem, const Launch& launch);

} // namespace histo::cuda
