#include "cuda/plan/teams.h"

#include <algorithm>

#include "cuda/plan/channels.h"
#include "cuda/plan/common.h"

namespace histo::cuda {
namespace {

// What a thread adds to an index, up to twice as many steps as loads are in flight, fits 32 bits.
constexpr int64_t kMaxVec16s = int64_t{1} << 28;

/// The segments of channels, if they are long enough to be read by vec16s.
std::optional<ChannelTeams> segments_of(const Problem& problem) {
  const int64_t bytes = bytes_of_type(problem.type), of_vec16 = kVec16Bytes / bytes;
  const Extent& run = problem.rows[2];
  if (run.stride != 1 || run.size * bytes < kMinBytesOfSegment || run.size >= kMaxRows ||
      address_of(problem) % bytes != 0) {
    return std::nullopt;
  }
  ChannelTeams in{};
  std::copy_n(problem.channels, 2, in.channels);
  std::copy_n(problem.rows, 2, in.segments);
  in.num_channels = problem.num_channels();
  in.length = run.size;
  in.span_of_channel = run.size;
  for (const Extent& loop : in.segments) {
    in.span_of_channel += (loop.size - 1) * loop.stride;
  }
  in.span = in.span_of_channel;
  in.whole = address_of(problem) % kVec16Bytes == 0 && run.size % of_vec16 == 0;
  for (const Extent& loop : in.channels) {
    in.span += (loop.size - 1) * loop.stride;
  }
  for (const Extent& loop : {in.channels[0], in.channels[1], in.segments[0], in.segments[1]}) {
    in.whole = in.whole && (loop.size == 1 || loop.stride % of_vec16 == 0);
  }
  const int64_t of_segment =
      in.whole ? run.size / of_vec16 : (run.size + 2 * of_vec16 - 2) / of_vec16;
  const int64_t segments = in.segments[0].size * in.segments[1].size;
  if (segments * of_segment > kMaxVec16s) {
    return std::nullopt;
  }
  in.vec16s = static_cast<uint32_t>(segments * of_segment);
  in.by_segment = Divider(static_cast<uint32_t>(of_segment));
  in.by_segments = Divider(static_cast<uint32_t>(in.segments[1].size));
  return in;
}

/// How long the grid takes, in bytes that an SM reads in that time.
int64_t cost_of(const ChannelTeams& in, const TeamMemory& memory, const DeviceLimits& limits) {
  const int64_t warps = in.warps, teams = in.teams;
  const int64_t of_item = ceil_div(in.vec16s, int64_t{in.parts}) * kVec16Bytes;
  const int64_t at_once = teams * limits.sm_count;
  const int64_t full = in.items() / at_once, left = in.items() % at_once;
  // With few warps an SM does not read as fast as it could.
  const int64_t least = ceil_div(kBusyWarps, warps);
  const int64_t of_last = left == 0 ? 0 : std::max(ceil_div(left, int64_t{limits.sm_count}), least);
  const int64_t tables = (full * teams + of_last) * 2 * memory.of_team;
  return (full * std::max(teams, least) + of_last) * of_item + tables +
         (full + (left > 0)) * kSetupBytesOfItem + (in.parts > 1 ? kSetupBytesOfParts : 0);
}

} // namespace

std::optional<ChannelTeams> teams_of(
    const Problem& problem, const TeamMemory& memory, const DeviceLimits& limits) {
  std::optional<ChannelTeams> segments = segments_of(problem), best;
  if (!segments) {
    return std::nullopt;
  }
  ChannelTeams in = *segments;
  const int64_t room = std::min(kMostSharedOfTeams, limits.shared_per_block) - memory.of_block;
  const int64_t elements = int64_t{in.vec16s} * kVec16Bytes / bytes_of_type(problem.type);
  const int64_t least_parts = ceil_div(elements, kMaxRows); // counters have 32 bits
  int64_t least_cost = 0;
  for (const int64_t warps : {int64_t{1}, int64_t{2}, int64_t{4}, int64_t{8}, kWarpsOfTeams}) {
    in.warps = static_cast<unsigned>(warps);
    const int64_t most_teams = kWarpsOfTeams / warps;
    const int64_t fit = memory.of_team == 0 ? most_teams : room / memory.of_team;
    const int64_t teams = std::min(most_teams, fit);
    if (teams * warps < kMinWarpsOfTeams) {
      continue;
    }
    in.teams = static_cast<unsigned>(teams);
    const int64_t at_once = int64_t{in.teams} * limits.sm_count;
    const int64_t least_waves = ceil_div(in.num_channels * least_parts, at_once);
    for (int64_t waves = least_waves; waves <= least_waves + kMoreWaves; ++waves) {
      const int64_t most_parts = ceil_div(int64_t{in.vec16s}, warps * 32);
      const int64_t parts =
          std::max(std::min(waves * at_once / in.num_channels, most_parts), least_parts);
      in.parts = static_cast<unsigned>(parts);
      const int64_t cost = cost_of(in, memory, limits);
      if (in.items() < kMaxRows && (!best || cost < least_cost)) {
        best = in;
        least_cost = cost;
      }
    }
  }
  return best;
}

int64_t blocks_of(const ChannelTeams& in, const DeviceLimits& limits) {
  return std::min<int64_t>(limits.sm_count, in.items());
}

} // namespace histo::cuda
