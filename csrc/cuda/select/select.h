// Selects values by rank on a GPU.
//
// A pass counts a digit of the keys, the leading one first. The counts tell which digit the value of
// a rank has, and its rank among the values with that digit: a target. The next pass counts the next
// digit of the values that begin as a target does. Targets that begin alike share the counters of a
// slot.
#pragma once

#include "core/ranks.h"
#include "cuda/launch.h"
#include "cuda/plan/select_plan.h"

namespace histo::cuda {

void select(const Selection& selection, const Launch& launch);

/// A value that is looked for, as far as it is known.
struct RankTarget {
  uint64_t prefix; // of its key
  int64_t rank;    // among the values with this prefix
};

/// A part of a selection: some q's of some channels.
struct SelectionPart {
  Selection selection; // pointers are those of the whole
  int64_t first_q;
  int64_t num_q;
  int64_t first_channel; // of `selection`; that of the data is 0
  int64_t all_channels;

  HISTO_HOST_DEVICE unsigned num_targets() const {
    return static_cast<unsigned>(kTargetsOfQ * num_q);
  }
};

/// A part of a selection, and its plan.
struct SelectCall {
  const SelectPlan& plan;
  const SelectionPart& part;
};

// The layouts of SelectPlan.
void select_layout(const GatherShape& in, const SelectCall& call, const Launch& launch);
void select_layout(const SelectSorted& in, const SelectCall& call, const Launch& launch);
void select_layout(const SelectPatterns& in, const SelectCall& call, const Launch& launch);
void select_layout(const SelectStaged& in, const SelectCall& call, const Launch& launch);
void select_layout(const SelectWhole& in, const SelectCall& call, const Launch& launch);
void select_layout(const SelectSpans& in, const SelectCall& call, const Launch& launch);
void select_layout(const SelectPasses& in, const SelectCall& call, const Launch& launch);
void select_layout(const SelectSampled& in, const SelectCall& call, const Launch& launch);
void select_layout(const SelectStripes& in, const SelectCall& call, const Launch& launch);
void select_layout(const SelectListed& in, const SelectCall& call, const Launch& launch);

/// A pass over all values, as its kernels need it. Counters are [channel][slot][digit].
struct SelectPass {
  KeyDigit digit;
  const RankTarget* targets; // [channels, targets]; none of the first digit
  unsigned long long* counts;
  unsigned slots; // of a channel; the first digit has one
};

/// `overlaps`: the kernel may start before the previous one has ended, and waits for it itself.
inline LaunchShape shape_of(const SelectPlan& plan, unsigned cluster = 1, bool overlaps = false) {
  return {
      grid_of(plan.blocks), dim3(static_cast<unsigned>(plan.threads)), plan.shared_bytes,
      static_cast<int>(cluster), overlaps};
}

/// Counts a digit for SelectPasses.
void count_digit(
    const ChannelStreams& in, const SelectCall& call, const SelectPass& pass, const Launch& launch);
void count_digit(
    const ChannelSpans& in, const SelectCall& call, const SelectPass& pass, const Launch& launch);
void count_digit(
    const ChannelColumns& in, const SelectCall& call, const SelectPass& pass, const Launch& launch);
/// Finds the digits of the targets, or writes the result after the last pass. `first`: the counts of
/// the first digit.
void find_digits(
    const SelectPasses& in,
    const SelectCall& call,
    const SelectPass& pass,
    const unsigned long long* first,
    RankTarget* found,
    const Launch& launch);

} // namespace histo::cuda
