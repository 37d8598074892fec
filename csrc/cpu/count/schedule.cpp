#include "cpu/count/schedule.h"

#include "cpu/threads.h"

namespace histo::cpu {

using namespace tuning;

Schedule::Schedule(const Problem& problem, const CpuPlan& plan)
    : strips(problem, plan.strip), workers(workers_of(problem)) {
  const int64_t rows = problem.num_rows();
  const bool whole_strips = workers == 1 || (problem.num_counts() >= kMinCountsPastCaches &&
                                             strips.count >= workers * kMinWholeStrips);
  const int64_t wanted_tasks = whole_strips ? 1 : workers * kTasksPerThread;
  const int64_t tiles = plan.way == Way::kProducts ? rows / kProductRows : rows;
  pieces = std::clamp<int64_t>(
      std::min(tiles, rows * plan.strip / kMinElementsPerThread), 1,
      ceil_div(wanted_tasks, strips.count));
  tasks = strips.count * pieces;
}

Tasks::Tasks(const Schedule& schedule)
    : num_ranges_(std::min(schedule.workers, kMaxRanges)),
      batch_(std::max<int64_t>(1, schedule.tasks / (schedule.workers * kTasksPerThread * 8))) {
  for (int64_t i = 0; i < num_ranges_; ++i) {
    TaskRange& range = ranges_[static_cast<size_t>(i)];
    range.next = cut(schedule.tasks, i, num_ranges_);
    range.end = cut(schedule.tasks, i + 1, num_ranges_);
  }
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

} // namespace histo::cpu
