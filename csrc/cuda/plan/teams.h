// How teams of warps share the elements of many channels, whatever they do with them.
#pragma once

#include <optional>

#include "cuda/plan/layouts.h"
#include "cuda/policy_edges.h"

namespace histo::cuda {

/// A team of warps takes one item at a time: a channel, or one of `parts` parts of it. A channel is
/// a list of segments, whose elements follow each other: a row, or one row of each image. Its
/// vec16s are those that the segments meet, so the last ones of a segment may hold none of it.
struct ChannelTeams {
  Extent channels[2];
  Extent segments[2];
  int64_t num_channels;
  int64_t length;          // elements of a segment
  int64_t span;            // elements from the first to the last one of the problem
  int64_t span_of_channel; // the same of a channel
  uint32_t vec16s;         // of a channel; its parts take them in turns
  Divider by_segment;      // vec16s of a segment
  Divider by_segments;     // segments of the inner loop
  unsigned parts;          // of a channel
  unsigned teams;          // of a block
  unsigned warps;          // of a team
  bool whole;              // segments consist of aligned vec16s

  HISTO_HOST_DEVICE int64_t items() const {
    return num_channels * parts;
  }
  int threads() const {
    return static_cast<int>(teams * warps) * 32;
  }
};

/// Shared memory of a block.
struct TeamMemory {
  int64_t of_block;
  int64_t of_team;
};

/// The teams that end soonest, or none if the elements of channels do not lie in segments.
std::optional<ChannelTeams> teams_of(
    const Problem& problem, const TeamMemory& memory, const DeviceLimits& limits);

/// The blocks that are resident at the same time.
int64_t blocks_of(const ChannelTeams& in, const DeviceLimits& limits);

} // namespace histo::cuda
