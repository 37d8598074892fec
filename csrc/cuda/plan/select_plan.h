// How a GPU selects values by rank: the plan, made on the host from the problem and the limits of
// the device alone.
#pragma once

#include <cmath>

#include "core/ranks.h"
#include "cuda/plan/channels.h"
#include "cuda/plan/gather_plan.h"
#include "cuda/plan/vec16s.h"
#include "cuda/policy_select.h"

namespace histo::cuda {

/// Some bits of a key, which a pass counts.
struct KeyDigit {
  unsigned shift;
  unsigned bits;
  bool first; // the leading one, of all values; NaN has a counter of its own behind the others
  bool last;

  HISTO_HOST_DEVICE unsigned values() const {
    return 1u << bits;
  }
  HISTO_HOST_DEVICE unsigned counters() const {
    return values() + first;
  }
};

/// The digits of a key: `bits` each, and the rest.
struct Digits {
  unsigned key_bits;
  unsigned bits;

  HISTO_HOST_DEVICE unsigned count() const {
    return (key_bits + bits - 1) / bits;
  }
  HISTO_HOST_DEVICE KeyDigit at(unsigned pass) const {
    const unsigned left = key_bits - pass * bits, taken = bits < left ? bits : left;
    return {left - taken, taken, pass == 0, left == taken};
  }
};

/// Two values are selected for each q.
constexpr unsigned kTargetsOfQ = 2;
/// A lane of a warp has a target.
constexpr unsigned kMaxTargets = 32;

enum class SelectLayout {
  kGathered, // short channels that are not runs: copied into runs, and then planned again
  kSort,     // short channels: a warp sorts one in registers
  kPatterns, // types of one byte: all values are counted, and their counts scanned
  kStaged,   // short channels: a warp or a block keeps one in shared memory
  kWhole,    // a block has a channel
  kSpans,    // the blocks of a cluster have a channel, and may keep it in shared memory
  kStreams,  // channels one after another, each for several blocks
  kSampled,  // the same for one q of long channels: a sample tells where its values lie
  kColumns,  // channels side by side, a lane each
  kStripes,  // the same, all passes in one kernel
  kListed,   // the same of long channels: a sample tells which values are listed and looked through
};

constexpr int kPatterns = 256; // of a byte
constexpr int kThreadsOfPatterns = kPatterns;

/// A table has a few counters more than `room`: products that find counters are rounded up.
constexpr unsigned kSpareCounters = 4;
/// NaN, the values above and below a window, and those equal to its first key.
constexpr unsigned kCountersBesideWindow = 4;

/// How many neighbouring keys share a counter, if `keys` keys have `room` counters. If two passes
/// can find a key, those that share a counter are so few that each has its own in the next pass.
HISTO_HOST_DEVICE uint64_t keys_of_counter(uint64_t keys, uint64_t room) {
  if (keys < room) {
    return 1;
  }
  const uint64_t root = static_cast<uint64_t>(std::sqrt(static_cast<double>(keys))) + 2;
  return root <= room ? root : keys / room + 1;
}

/// The most prefixes of a column that kStripes and kColumns count together: they are in registers.
constexpr unsigned kMostSlotsOfColumn = 6;

/// kStripes: what a block has room for.
struct StripeShape {
  unsigned targets; // that are looked for together
  unsigned slots;   // prefixes of a column whose next digits are counted together
};

/// kSpans: the words of a block's shared memory, and what it does with them.
struct SpannedShape {
  unsigned cluster;     // blocks of a channel
  unsigned group;       // q's that are selected together
  unsigned table_words; // a multiple of four
  unsigned sum_words;   // the same, of the sums over the cluster; 0 if one block has a channel
};

/// kStaged: what a team has room for.
struct StagedShape {
  ChannelVec16s vec16s;
  unsigned group;       // q's that are selected together
  unsigned values_of_q; // that may differ
  unsigned slots;       // prefixes of these
  unsigned team_bytes;  // of shared memory
};

/// kListed: what is sampled and listed.
struct ListedShape {
  int64_t sample; // elements of a channel
  int64_t room;   // values of a list, of one q and channel
};

struct SelectPlan {
  SelectLayout layout;
  GatherShape gathered;   // kGathered: the channels that are copied at a time
  ChannelStreams streams; // of kWhole and kSampled, too
  ChannelSpans spans;     // of kSpans
  SpannedShape spanned;
  StagedShape staged;
  bool of_warps;          // kStaged: teams
  bool keeps;             // kSpans: elements stay in shared memory
  ChannelColumns columns; // of kStripes, too
  StripeShape stripe;
  Digits digits;
  int64_t blocks;
  int threads;
  int64_t shared_bytes;
  unsigned values_of_q; // that may differ: 2 if the quantile lies between two
  unsigned slots;       // prefixes of a channel that a table has room for
  int64_t group;        // q's that are selected together, or whose lists are filled together
  unsigned sorted;      // kSort: the elements that a warp sorts, a power of two
  int64_t counters;     // of a channel, in memory
  int64_t sample;       // kSampled: the elements of a channel that are looked at first
  unsigned room;        // kSampled: the counters that a window may have
  unsigned passes;      // kSampled: as many as any data need
  bool overlaps;        // kernels start before the one before ends
  bool halves;          // counters take too much memory: half of the channels is selected first
  ListedShape listed;
  bool across_spans; // kStreams: blocks read `spans`, since channels lie in short runs

  unsigned slots_of(int64_t num_q) const {
    return static_cast<unsigned>(num_q) * values_of_q;
  }
  int64_t counter_bytes(int64_t channels) const {
    return channels * counters * int64_t{sizeof(int64_t)};
  }
};

/// `values_of_q`: how many values of a q may differ.
SelectPlan plan_select(
    const Problem& problem, int64_t num_q, unsigned values_of_q, const DeviceLimits& limits);

} // namespace histo::cuda
