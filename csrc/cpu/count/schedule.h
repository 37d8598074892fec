// The schedule: strips of channels are cut into tasks, and threads take the tasks.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/facts.h"
#include "core/problem.h"
#include "cpu/plan.h"
#include "cpu/tuning.h"

namespace histo::cpu {

/// A strip is a stretch of channels in one run of them.
struct Strips {
  int64_t size; // of a strip, but for the last of a run
  int64_t run;
  int64_t per_run;
  int64_t count;

  Strips(const Problem& problem, int64_t strip)
      : size(strip),
        run(problem.channels[1].size),
        per_run(ceil_div(run, strip)),
        count(problem.channels[0].size * per_run) {
  }
  int64_t first(int64_t strip) const {
    return strip / per_run * run + strip % per_run * size;
  }
  int64_t size_of(int64_t strip) const {
    return std::min(size, run - strip % per_run * size);
  }
};

/// Strips that are counted in tables, as tasks of threads.
struct Schedule {
  Strips strips;
  int64_t workers;
  int64_t pieces; // of the rows of each strip; each is a task
  int64_t tasks;

  Schedule(const Problem& problem, const CpuPlan& plan);
  /// The tables of all threads.
  int64_t scratch_bytes(const CpuPlan& plan) const {
    return workers * (plan.scratch_bytes() + tuning::kScratchGap) - tuning::kScratchGap;
  }
};

/// How threads share a result in which they count without tables.
enum class Sharing {
  kChannels, // each has some of them
  kCopies,   // each has a copy of the result, and these are added
  kAtomic,   // all add to the same counts
};
Sharing sharing_of(const Problem& problem, const CpuPlan& plan);

/// Memory of all threads, besides the counts.
int64_t workspace_bytes(const CpuPlan& plan, const Problem& problem);

/// The facts about a plan, in groups.
Facts facts_of(const CpuPlan& plan, const Problem& problem);

} // namespace histo::cpu
