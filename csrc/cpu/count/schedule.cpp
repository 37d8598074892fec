#include "cpu/count/schedule.h"

#include "cpu/threads.h"

namespace histo::cpu {

using namespace tuning;

Schedule::Schedule(const Problem& problem, const CpuPlan& plan)
    : strips(problem, plan.strip), workers(workers_of(problem)) {
  const int64_t rows = problem.num_rows();
  const bool whole_strips = workers == 1 || (problem.num_counts() >= kMinCountsOfWholeStrips &&
                                             strips.count >= workers * kMinWholeStrips);
  const int64_t wanted_tasks = whole_strips ? 1 : workers * kTasksPerThread;
  pieces = std::clamp<int64_t>(
      rows * plan.strip / kMinElementsPerThread, 1, ceil_div(wanted_tasks, strips.count));
  tasks = strips.count * pieces;
}

Sharing sharing_of(const Problem& problem, const CpuPlan& plan) {
  const int64_t workers = workers_of(problem);
  if (ceil_div(problem.num_channels(), plan.strip) >= workers) {
    return Sharing::kChannels;
  }
  // Copies could take more memory than the input. Threads then add atomically. They seldom meet,
  // because there are many counters.
  const int64_t copies_bytes = workers * problem.num_counts() * int64_t{sizeof(int64_t)};
  const int64_t input_bytes = problem.num_channels() * problem.num_rows() * size_of(problem.type);
  return copies_bytes <= input_bytes ? Sharing::kCopies : Sharing::kAtomic;
}

namespace {

const char* name_of(Way way) {
  switch (way) {
    case Way::kDirect:
      return "direct";
    case Way::kStreams:
      return "streams";
    case Way::kColumns:
      return "columns";
  }
  throw InternalError("a way of counting without a name");
}

const char* name_of(Sharing sharing) {
  switch (sharing) {
    case Sharing::kChannels:
      return "channels";
    case Sharing::kCopies:
      return "copies";
    case Sharing::kAtomic:
      return "atomic";
  }
  throw InternalError("a way of sharing without a name");
}

/// The widest counters of a table; values that differ may have narrower ones besides.
int counter_bits_of(const CpuPlan& plan) {
  return plan.way == Way::kDirect ? 64 : plan.counting == Counting::kIn16Bits ? 16 : 32;
}

} // namespace

int64_t workspace_bytes(const CpuPlan& plan, const Problem& problem) {
  if (plan.way != Way::kDirect) {
    return Schedule(problem, plan).scratch_bytes(plan);
  }
  const bool has_copies = sharing_of(problem, plan) == Sharing::kCopies;
  return has_copies ? workers_of(problem) * problem.num_counts() * int64_t{sizeof(int64_t)} : 0;
}

Facts facts_of(const CpuPlan& plan, const Problem& problem) {
  const Facts layout{
      {"method", name_of(plan.way)}, {"neighbours", plan.joint}, {"strip", plan.strip}};
  Facts table{{"counter_bits", counter_bits_of(plan)}};
  Facts threads;
  if (plan.way == Way::kDirect) {
    threads = {{"threads", workers_of(problem)}, {"sharing", name_of(sharing_of(problem, plan))}};
  } else {
    const Schedule schedule(problem, plan);
    const Group &distinct = plan.tables_if_distinct, &repeated = plan.tables_if_repeated;
    table.insert(
        table.end(), {{"byte_counters", plan.byte_values},
                      {"tables", distinct.tables + repeated.tables},
                      {"table_keys", std::max(distinct.indices, repeated.indices)},
                      {"table_bytes", plan.table_bytes}});
    threads = {
        {"threads", schedule.workers},
        {"strips", schedule.strips.count},
        {"tasks", schedule.tasks}};
  }
  return {{"layout", layout}, {"table", table}, {"threads", threads}};
}

} // namespace histo::cpu
