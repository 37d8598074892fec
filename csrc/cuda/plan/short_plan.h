// Channels so short that a block or even a warp counts one after another.
#pragma once

#include <optional>

#include "core/edges.h"
#include "cuda/plan/vec16s.h"
#include "cuda/policy_edges.h"

namespace histo::cuda {

/// How teams count channels one after another: a team is a warp, or a block.
struct ShortChannels {
  ChannelVec16s vec16s;
  unsigned bins;
  unsigned team_bytes; // of shared memory; a multiple of 16
  int32_t buckets;     // of a block, for edges of any kind
};

struct ShortPlan {
  ShortChannels in;
  bool of_warps; // teams
  int64_t blocks;
  int threads;
  int64_t shared_bytes;

  /// The teams of a block.
  int64_t teams() const {
    return of_warps ? threads / 32 : 1;
  }
};

/// Threads of a block that is a team.
int threads_of_short_block(int64_t vec16s, int64_t channels, const DeviceLimits& limits);
/// Whether channels are so short, and so many, that warps are teams.
bool fills_with_warps(const ChannelVec16s& in, const DeviceLimits& limits);
/// The blocks that take `channels` channels, with so many teams each.
int64_t blocks_of_short(
    int64_t channels, int64_t teams, int threads, int64_t shared_bytes, const DeviceLimits& limits);

/// Channels that are read once: their extremes, then their counts. None if they are too long, have
/// too many bins for a table, or do not lie in runs.
std::optional<ShortPlan> plan_own_ranges(
    const Problem& problem, int64_t bins, const DeviceLimits& limits);

/// Short channels of floats of 16 and 32 bits that share their edges. `edge_bytes`: of edges that a
/// block keeps, or 0.
std::optional<ShortPlan> plan_short_channels(
    const Problem& problem, int64_t bins, int64_t edge_bytes, const DeviceLimits& limits);

} // namespace histo::cuda
