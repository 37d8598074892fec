#include <algorithm>

#include "core/parts.h"
#include "cuda/select/select.h"
#include "cuda/storage/clear.h"
#include "cuda/storage/gather.h"

namespace histo::cuda {
namespace {

/// All passes for a group of q's. `first` are the counts of the first digit, which all groups share.
void select_group(
    const SelectPasses& in,
    const SelectCall& call,
    unsigned long long* first,
    unsigned long long* others,
    RankTarget* (&targets)[2],
    const Launch& launch) {
  const SelectionPart& part = call.part;
  const int64_t channels = part.selection.problem.num_channels();
  unsigned long long* counts = first;
  for (unsigned pass = 0; pass < in.digits.count(); ++pass) {
    const KeyDigit digit = in.digits.at(pass);
    const SelectPass of{digit, targets[0], counts, digit.first ? 1 : in.slots_of(part.num_q)};
    if (!digit.first || part.first_q == 0) {
      std::visit([&](const auto& layout) { count_digit(layout, call, of, launch); }, in.channels);
    }
    find_digits(in, call, of, first, targets[1], launch);
    std::swap(targets[0], targets[1]);
    counts = digit.first ? others : counts + channels * of.slots * digit.counters();
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
  std::visit([&](const auto& in) { select_layout(in, {plan, part}, launch); }, plan.layout);
}

} // namespace

/// Copies as many channels as there is room for, selects from them, and goes on with the next ones.
void select_layout(const GatherShape& in, const SelectCall& call, const Launch& launch) {
  const Problem& all = call.part.selection.problem;
  const int64_t element_bytes = bytes_of_type(all.type);
  void* copy = launch.allocate(in.bytes(element_bytes));
  for_each_part(all, element_bytes, in.channels, [&](const Problem& some, int64_t first) {
    gather(in, some, copy, launch);
    SelectionPart next = call.part;
    next.selection.problem = problem_of_copy(some, in, copy);
    next.first_channel += first;
    select_part(next, launch);
  });
}

void select_layout(const SelectPasses& in, const SelectCall& call, const Launch& launch) {
  const SelectPlan& plan = call.plan;
  SelectionPart part = call.part;
  const int64_t channels = part.selection.problem.num_channels(), all = part.num_q;
  const int64_t of_first = channels * in.digits.at(0).counters();
  const int64_t words = channels * plan.counters;
  auto* counts = static_cast<unsigned long long*>(launch.allocate(plan.counter_bytes(channels)));
  RankTarget* targets[2];
  for (RankTarget*& some : targets) {
    const int64_t bytes = channels * kTargetsOfQ * in.group * int64_t{sizeof(RankTarget)};
    some = static_cast<RankTarget*>(launch.allocate(bytes));
  }
  for (part.first_q = 0; part.first_q < all; part.first_q += in.group) {
    part.num_q = std::min(in.group, all - part.first_q);
    const int64_t kept = part.first_q == 0 ? 0 : of_first;
    clear(launch, reinterpret_cast<int64_t*>(counts + kept), words - kept, plan.overlaps);
    select_group(in, {plan, part}, counts, counts + of_first, targets, launch);
  }
}

void select(const Selection& selection, const Launch& launch) {
  Selection in = selection;
  in.problem = copied_into_runs(selection.problem, launch);
  select_part({in, 0, in.num_q, 0, in.problem.num_channels()}, launch);
}

} // namespace histo::cuda
