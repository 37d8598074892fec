// The numbers of teams of warps: more of policy.h.
#pragma once

#include "cuda/policy.h"

namespace histo::cuda {

// An SM has one block, whose teams have so many warps together.
constexpr int64_t kWarpsOfTeams = 24;
constexpr int kThreadsOfTeams = kWarpsOfTeams * 32;
constexpr int64_t kMinWarpsOfTeams = 16;
// So many warps read as fast as an SM can.
constexpr int64_t kBusyWarps = 20;
// Shared memory of a block: the rest is L1, which loads need.
constexpr int64_t kMostSharedOfTeams = 160 << 10;
// An item takes as long to begin and to end as reading so many bytes, and parts, which add to
// cleared counts, take as much longer.
constexpr int64_t kSetupBytesOfItem = 16 << 10;
constexpr int64_t kSetupBytesOfParts = 48 << 10;
// Shorter segments are read element by element.
constexpr int64_t kMinBytesOfSegment = 32;
// Loads of a thread in flight.
constexpr int kTeamVec16s = 4;
// A few long channels are counted sooner by blocks of one channel: with such runs, if an SM reads so
// many bytes; and if the range of each must be found, too. Cases: float32 [2^28], bfloat16
// [8, 1792, 4096] over (1, 2).
constexpr int64_t kMinLongRunOfStream = 128 << 10;
constexpr int64_t kMinBytesOfLongStreams = 512 << 10;
constexpr int64_t kMinBytesOfLongOwnStreams = 2 << 20;

} // namespace histo::cuda
