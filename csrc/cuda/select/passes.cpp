#include <algorithm>

#include "core/parts.h"
#include "cuda/select/select.h"
#include "cuda/storage/clear.h"
#include "cuda/storage/gather.h"

namespace histo::cuda {
namespace {

/// All passes for a group of q's. `first` are the counts of the first digit, which all groups share.
void select_group(
    const SelectPlan& plan,
    const SelectionPart& part,
    unsigned long long* first,
    unsigned long long* others,
    RankTarget* (&targets)[2],
    const Launch& launch) {
  const int64_t channels = part.selection.problem.num_channels();
  const auto count_digit =
      plan.layout == SelectLayout::kColumns ? count_digit_columns : count_digit_streams;
  unsigned long long* counts = first;
  for (unsigned pass = 0; pass < plan.digits.count(); ++pass) {
    const KeyDigit digit = plan.digits.at(pass);
    const SelectPass of{digit, targets[0], counts, digit.first ? 1 : plan.slots_of(part.num_q)};
    if (!digit.first || part.first_q == 0) {
      count_digit(plan, part, of, launch);
    }
    find_digits(plan, part, of, first, targets[1], launch);
    std::swap(targets[0], targets[1]);
    counts = digit.first ? others : counts + channels * of.slots * digit.counters();
  }
}

void select_in_passes(const SelectPlan& plan, SelectionPart part, const Launch& launch) {
  const int64_t channels = part.selection.problem.num_channels(), all = part.num_q;
  const int64_t of_first = channels * plan.digits.at(0).counters();
  const int64_t words = channels * plan.counters;
  auto* counts = static_cast<unsigned long long*>(launch.allocate(plan.counter_bytes(channels)));
  RankTarget* targets[2];
  for (RankTarget*& some : targets) {
    const int64_t bytes = channels * kTargetsOfQ * plan.group * int64_t{sizeof(RankTarget)};
    some = static_cast<RankTarget*>(launch.allocate(bytes));
  }
  for (part.first_q = 0; part.first_q < all; part.first_q += plan.group) {
    part.num_q = std::min(plan.group, all - part.first_q);
    const int64_t kept = part.first_q == 0 ? 0 : of_first;
    clear(launch, reinterpret_cast<int64_t*>(counts + kept), words - kept, plan.overlaps);
    select_group(plan, part, counts, counts + of_first, targets, launch);
  }
}

/// The first `size` channels of one of the two loops, or those behind them.
SelectionPart some_channels(const SelectionPart& part, int loop, int64_t size, bool behind) {
  SelectionPart some = part;
  Problem& problem = some.selection.problem;
  Extent& channels = problem.channels[loop];
  if (behind) {
    const int64_t element_bytes = bytes_of_type(problem.type);
    problem.data =
        static_cast<const uint8_t*>(problem.data) + size * channels.stride * element_bytes;
    some.first_channel += size * (loop == 0 ? problem.channels[1].size : 1);
    channels.size -= size;
  } else {
    channels.size = size;
  }
  return some;
}

void select_part(const SelectionPart& part, const Launch& launch);

/// Copies as many channels as there is room for, selects from them, and goes on with the next ones.
void select_gathered(const SelectPlan& plan, const SelectionPart& part, const Launch& launch) {
  const Problem& all = part.selection.problem;
  const GatherShape& shape = plan.gathered;
  const int64_t element_bytes = bytes_of_type(all.type);
  void* copy = launch.allocate(shape.bytes(element_bytes));
  for_each_part(all, element_bytes, shape.channels, [&](const Problem& some, int64_t first) {
    gather(shape, some, copy, launch);
    SelectionPart next = part;
    next.selection.problem = problem_of_copy(some, shape, copy);
    next.first_channel += first;
    select_part(next, launch);
  });
}

void select_part(const SelectionPart& part, const Launch& launch) {
  const Problem& problem = part.selection.problem;
  const SelectPlan plan =
      plan_select(problem, part.num_q, values_of_q(part.selection.interpolation), launch.limits);
  if (plan.halves) {
    const int loop = problem.channels[0].size > 1 ? 0 : 1;
    const int64_t size = problem.channels[loop].size;
    // Halves of many columns begin with whole stripes.
    const int64_t half = size > 256 ? size / 2 / 128 * 128 : size / 2;
    select_part(some_channels(part, loop, half, false), launch);
    return select_part(some_channels(part, loop, half, true), launch);
  }
  switch (plan.layout) {
    case SelectLayout::kGathered:
      return select_gathered(plan, part, launch);
    case SelectLayout::kSort:
      return select_sorted(plan, part, launch);
    case SelectLayout::kPatterns:
      return select_patterns(plan, part, launch);
    case SelectLayout::kStaged:
      return select_staged(plan, part, launch);
    case SelectLayout::kWhole:
      return select_whole(plan, part, launch);
    case SelectLayout::kSpans:
      return select_spans(plan, part, launch);
    case SelectLayout::kSampled:
      return select_sampled(plan, part, launch);
    case SelectLayout::kStripes:
      return select_stripes(plan, part, launch);
    case SelectLayout::kListed:
      return select_listed(plan, part, launch);
    case SelectLayout::kStreams:
    case SelectLayout::kColumns:
      return select_in_passes(plan, part, launch);
  }
  no_kernel("select");
}

} // namespace

void select(const Selection& selection, const Launch& launch) {
  Selection in = selection;
  in.problem = copied_into_runs(selection.problem, launch);
  select_part({in, 0, in.num_q, 0, in.problem.num_channels()}, launch);
}

} // namespace histo::cuda
