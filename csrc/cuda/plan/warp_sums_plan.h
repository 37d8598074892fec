// How a GPU sums weights of many short channels: each warp has a table for one channel after another,
// and writes rounded sums.
#pragma once

#include <optional>

#include "core/edges.h"
#include "core/facts.h"
#include "cuda/plan/weights_plan.h"

namespace histo::cuda {

/// A warp has the numbers of its channel's sums in shared memory: [slot][word], and behind the words of
/// a slot one with flags.
struct WarpSums {
  Extent channels[2];
  Extent rows[3]; // of values; strides are elements
  Extent weight_channels[2];
  Extent weight_rows[3];
  int64_t num_channels;
  unsigned num_rows;
  unsigned slots; // of a channel: underflow, the bins, overflow and NaN
  int32_t buckets;
  WordTable table; // of a warp

  /// Words of all tables, a multiple of 4.
  HISTO_HOST_DEVICE unsigned words_of_tables(unsigned warps) const {
    return table.size(warps * slots);
  }
};

struct WarpSumsPlan {
  WarpSums in;
  int64_t blocks;
  int threads;
  int64_t shared_bytes;
};

/// None if channels are few, long, or have too many bins or edges of their own; and if values or
/// weights are of other types. This depends on the sizes of the problem, not on its strides.
std::optional<WarpSumsPlan> plan_warp_sums(
    const Problem& problem, const Edges& edges, const DeviceLimits& limits);

Facts facts_of(const WarpSumsPlan& plan);

} // namespace histo::cuda
