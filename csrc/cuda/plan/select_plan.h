// How a GPU selects values by rank: the plan, made on the host from the problem and the limits of
// the device alone.
#pragma once

#include <cmath>
#include <variant>

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

constexpr int kPatterns = 256; // of a byte

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

/// The most prefixes of a column that are counted together: they are in registers.
constexpr unsigned kMostSlotsOfColumn = 6;

/// Digits that are counted for some q's together.
struct DigitGroups {
  Digits digits;
  int64_t group;        // q's that are selected together
  unsigned values_of_q; // that may differ: 2 if the quantile lies between two

  /// The prefixes of a channel whose next digits are counted, if so many q's are selected.
  unsigned slots_of(int64_t num_q) const {
    return static_cast<unsigned>(num_q) * values_of_q;
  }
  /// The counters of all digits of a channel.
  int64_t counters() const {
    int64_t sum = 0;
    for (unsigned pass = 0; pass < digits.count(); ++pass) {
      const KeyDigit digit = digits.at(pass);
      sum += (digit.first ? 1 : slots_of(group)) * digit.counters();
    }
    return sum;
  }
};

/// Short channels: a warp sorts one in registers.
struct SelectSorted {
  unsigned size; // the elements that a warp sorts, a power of two
};

/// Types of one byte: all values are counted, and their counts scanned.
struct SelectPatterns {};

/// The shared memory of a team that keeps a channel.
struct StagedShape {
  ChannelVec16s vec16s;
  unsigned group;       // q's that are selected together
  unsigned values_of_q; // that may differ
  unsigned slots;       // prefixes of these
  unsigned team_bytes;  // of shared memory
};

/// Short channels: a team keeps one in shared memory.
struct SelectStaged {
  StagedShape shape;
  bool of_warps; // teams are warps, and not blocks
};

/// A block has a channel.
struct SelectWhole : DigitGroups {
  ChannelStreams streams;
};

/// The words of a block's shared memory, and what it does with them.
struct SpannedShape {
  unsigned cluster;     // blocks of a channel
  unsigned group;       // q's that are selected together
  unsigned table_words; // a multiple of four
  unsigned sum_words;   // the same, of the sums over the cluster; 0 if one block has a channel
};

/// The blocks of a cluster have a channel, and may keep it in shared memory.
struct SelectSpans {
  ChannelSpans spans;
  Digits digits;
  SpannedShape shape;
  bool keeps;
};

/// A kernel counts each digit. Several blocks read a channel of ChannelStreams or, if it lies in
/// short runs, of ChannelSpans. ChannelColumns lie side by side, a lane each.
struct SelectPasses : DigitGroups {
  std::variant<ChannelStreams, ChannelSpans, ChannelColumns> channels;
};

/// One q of long channels. Several blocks read each; a sample tells where its values lie.
struct SelectSampled {
  ChannelStreams streams;
  int64_t sample;  // elements of a channel
  unsigned room;   // the counters that a window may have
  unsigned passes; // as many as the worst data need
};

/// The shared memory of a block that has rows of a stripe of columns.
struct StripeShape {
  unsigned targets; // that are looked for together
  unsigned slots;   // prefixes of a column whose next digits are counted together
};

/// Channels side by side, a lane each, all passes in one kernel.
struct SelectStripes {
  ChannelColumns columns;
  StripeShape shape;
};

/// Long channels side by side: a sample tells which values are listed and looked through.
struct SelectListed {
  ChannelColumns columns;
  ChannelStreams streams; // of a channel that is read again, because its sample was bad
  Digits digits;
  int64_t group;  // q's whose lists are filled together
  int64_t sample; // elements of a channel
  int64_t room;   // values of a list, of one q and channel
};

/// Short channels that are not runs are copied into runs of a GatherShape, and then planned again.
struct SelectPlan {
  std::variant<
      GatherShape,
      SelectSorted,
      SelectPatterns,
      SelectStaged,
      SelectWhole,
      SelectSpans,
      SelectPasses,
      SelectSampled,
      SelectStripes,
      SelectListed>
      layout;
  int64_t blocks = 0;
  int threads = 0;
  int64_t shared_bytes = 0;
  int64_t counters = 0;  // of a channel, in memory
  bool overlaps = false; // kernels start before the one before ends
  bool halves = false;   // counters take too much memory: half of the channels is selected first

  int64_t counter_bytes(int64_t channels) const {
    return channels * counters * int64_t{sizeof(int64_t)};
  }
};

/// `values_of_q`: how many values of a q may differ.
SelectPlan plan_select(
    const Problem& problem, int64_t num_q, unsigned values_of_q, const DeviceLimits& limits);

} // namespace histo::cuda
