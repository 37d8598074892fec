// The ways of counting: a file each (count_*.cpp). A way is a class with
//   Pattern                             the unsigned type of what it counts
//   Way(plan, result, scratch)          scratch: plan.scratch_bytes() of the thread that has it
//   count(panel, next)                  `next` is likely to be counted next, and fetched meanwhile
//   reduce()                            adds all counts to the result, and clears them
#pragma once

#include <cstdint>

#include "cpu/count/pattern_axis.h"
#include "cpu/count/schedule.h"
#include "cpu/digitize/digitize.h"
#include "cpu/plan.h"
#include "cpu/tasks.h"

namespace histo::cpu {

/// The part of a call that all threads share.
struct Job {
  const Problem& problem;
  const PatternAxis& axis;
  const CpuPlan& plan;
  const Schedule& schedule;
  Tasks& tasks;
  char* scratch;                    // of all workers
  const Digitization* digitization; // null: the elements are counted as they are

  char* scratch_of(int64_t worker) const {
    return scratch + worker * (plan.scratch_bytes() + tuning::kScratchGap);
  }
};

// One thread's part of a job.
void count_byte_streams(const Job& job, int64_t worker);    // up to 256 values
void count_value_streams(const Job& job, int64_t worker);   // up to 4096 bins
void count_indexed_streams(const Job& job, int64_t worker); // more bins
void count_columns(const Job& job, int64_t worker);

/// Counts in the result itself, in all threads.
void count_directly(
    const Problem& problem,
    const PatternAxis& axis,
    const CpuPlan& plan,
    const Digitization* digitization,
    Allocator& allocate);

} // namespace histo::cpu
