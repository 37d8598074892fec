// The CPU engine. Channels are cut into strips that share tables of small counters, and
// strips into tasks by their rows; a thread takes a task, counts in its tables and reduces
// them into the result. ways.h lists the ways of counting, plan.h says when each is taken.
#include <array>
#include <memory>
#include <mutex>

#include "cpu/count/result.h"
#include "cpu/count/strips.h"
#include "cpu/count/ways.h"
#include "cpu/digitize/digitize.h"
#include "cpu/digitize/patterns.h"
#include "cpu/huge_pages.h"
#include "cpu/kernels.h"

namespace histo::cpu {
namespace {

using namespace tuning;

void count_streams(const Job& job, int64_t worker) {
  if (job.plan.counting == Counting::kIndexed) {
    count_indexed_streams(job, worker);
  } else if (job.axis.num_bytes > 0) {
    count_byte_streams(job, worker);
  } else {
    count_value_streams(job, worker);
  }
}

/// One thread's part.
void count_job(const Job& job, int64_t worker) {
  switch (job.plan.way) {
    case Way::kStreams:
      return count_streams(job, worker);
    case Way::kColumns:
      return count_columns(job, worker);
    case Way::kDirect:
      break;
  }
  throw InternalError("count_job: a way of counting without tables");
}

void count_in_tables(
    const Problem& problem,
    const PatternAxis& axis,
    const CpuPlan& plan,
    const Digitization* digitization,
    Allocator& allocate) {
  const Schedule schedule(problem, plan);
  // A strip that is one task writes all its counts.
  if (schedule.pieces > 1 && !problem.adds) {
    fill_zero(problem.counts, problem.num_counts());
  }
  const int64_t scratch_bytes = schedule.scratch_bytes(plan);
  // The tables of a small call are on the stack: nothing is allocated but the result.
  alignas(kLineBytes) char on_stack[kStackBytes];
  char* scratch =
      scratch_bytes <= kStackBytes ? on_stack : static_cast<char*>(allocate(scratch_bytes));
  Tasks tasks(schedule.tasks, schedule.workers);
  const Job job{problem, axis, plan, schedule, tasks, scratch, digitization};
  run_workers(schedule.workers, [&](int64_t worker) { count_job(job, worker); });
}

} // namespace

std::mutex& lock_of(int64_t strip) {
  static std::array<std::mutex, 64> locks;
  return locks[static_cast<size_t>(strip) % locks.size()];
}

namespace {

void count(
    const Problem& problem,
    const PatternAxis& axis,
    const CpuPlan& plan,
    const Digitization* digitization,
    Allocator& allocate) {
  advise_huge_pages(problem.counts, problem.num_counts() * static_cast<int64_t>(sizeof(int64_t)));
  if (plan.way == Way::kDirect) {
    count_directly(problem, axis, plan, digitization, allocate);
  } else {
    count_in_tables(problem, axis, plan, digitization, allocate);
  }
}

} // namespace

void count(const Problem& problem, const PatternAxis& axis, Allocator& allocate) {
  if (problem.num_counts() > 0) {
    count(problem, axis, plan_of(problem), nullptr, allocate);
  }
}

void count_between(
    const Problem& input,
    const Edges& edges,
    const UniformRanges* ranges,
    const Flow& flow,
    Allocator& allocate) {
  if (input.num_counts() == 0 || count_patterns(input, edges, ranges, flow, allocate)) {
    return;
  }
  Problem slots = input;
  slots.type = slot_type_of(input, edges.bins, flow);
  const std::unique_ptr<Digitization> digitization =
      digitize_between(edges, ranges, flow, input, slots.type);
  count_slots(slots, *digitization, allocate);
}

void count_slots(const Problem& slots, const Digitization& digitization, Allocator& allocate) {
  const PatternAxis axis = pattern_axis(slots.type, ValueBinning{slots.num_bins});
  count(slots, axis, plan_of_slots(slots), &digitization, allocate);
}

} // namespace histo::cpu
