// The plans of the other layouts. They are none if elements lie otherwise, or another layout is
// faster.
#pragma once

#include "cuda/plan/common.h"

namespace histo::cuda {

/// A few MiB of bytes in channels side by side: clusters of blocks, and no reduction.
std::optional<CountPlan> plan_clustered(const Request& request);
/// Runs that begin at any address: channels one after another, or rows of channels.
std::optional<CountPlan> plan_runs(const Request& request);
/// One channel in more bins than a table holds.
std::optional<CountPlan> plan_partitioned(const Request& request);
/// Any strides.
CountPlan plan_generic(const Request& request);
/// The same, with tables that may take the shared memory of a whole multiprocessor.
CountPlan plan_generic_in_large_tables(const Request& request);
/// The same, counted in the result whatever the bins.
CountPlan plan_generic_in_result(const Request& request);

} // namespace histo::cuda
