// Tasks that workers take as they become free: a thread that is held up holds up no other.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "cpu/threads.h"
#include "cpu/tuning.h"

namespace histo::cpu {

class Tasks {
 public:
  Tasks(int64_t tasks, int64_t workers)
      : num_ranges_(std::min(workers, tuning::kMaxRanges)),
        batch_(std::max<int64_t>(1, tasks / (workers * tuning::kTasksPerThread * 8))) {
    for (int64_t i = 0; i < num_ranges_; ++i) {
      TaskRange& range = ranges_[static_cast<size_t>(i)];
      range.next = cut(tasks, i, num_ranges_);
      range.end = cut(tasks, i + 1, num_ranges_);
    }
  }

  /// Calls f(task) for the tasks of a worker: first those of its own range, then those that others
  /// have not taken yet.
  template <class F>
  void run(int64_t worker, const F& f) {
    for (int64_t i = 0; i < num_ranges_; ++i) {
      TaskRange& range = ranges_[static_cast<size_t>((worker + i) % num_ranges_)];
      for (int64_t begin; (begin = range.next.fetch_add(batch_)) < range.end;) {
        for (int64_t task = begin; task < std::min(range.end, begin + batch_); ++task) {
          f(task);
        }
      }
    }
  }

 private:
  /// Tasks that follow each other. Each range has a line of its own.
  struct alignas(tuning::kLineBytes) TaskRange {
    std::atomic<int64_t> next;
    int64_t end;
  };

  std::array<TaskRange, tuning::kMaxRanges> ranges_;
  int64_t num_ranges_;
  int64_t batch_;
};

} // namespace histo::cpu
