// The tiles of keys that workers take one after another, to select quantiles of them.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>

#include "core/problem.h"
#include "cpu/run_widest.h"
#include "cpu/threads.h"
#include "cpu/tuning.h"

namespace histo::cpu {

constexpr int64_t kLineKeys = 64; // from one channel's keys to the next: not a power of two apart

/// Tasks that workers take as they become free, some at once.
class TaskQueue {
 public:
  TaskQueue(int64_t tasks, int64_t workers)
      : tasks_(tasks), batch_(std::max<int64_t>(1, tasks / (workers * tuning::kTasksPerThread))) {
  }
  /// Called by each worker: calls f(task) for what it takes.
  template <class F>
  void take(const F& f) {
    for (int64_t first; (first = next_.fetch_add(batch_)) < tasks_;) {
      for (int64_t task = first; task < std::min(first + batch_, tasks_); ++task) {
        f(task);
      }
    }
  }

 private:
  int64_t tasks_;
  int64_t batch_;
  std::atomic<int64_t> next_{0};
};

/// Hands the tiles of all rows to workers: each is made by `make()`, and calls read(begin, size)
/// for a tile and finish() after its last one.
template <class Make>
void read_tiles(int64_t rows, int64_t channels, const Make& make) {
  const int64_t tiles = ceil_div(rows, tuning::kKeysPerTile);
  const int64_t workers =
      std::clamp<int64_t>(rows * channels / tuning::kMinElementsPerThread, 1, num_threads());
  TaskQueue tasks(tiles, workers);
  run_workers(std::min(workers, tiles), [&](int64_t) {
    auto worker = make();
    tasks.take([&](int64_t tile) {
      const int64_t begin = tile * tuning::kKeysPerTile;
      worker.read(begin, std::min(tuning::kKeysPerTile, rows - begin));
    });
    worker.finish();
  });
}

template <class Key>
int64_t count_nan(const Key* keys, int64_t size) {
  int64_t nans = 0;
  run_widest([&]() __attribute__((always_inline)) {
    int64_t found = 0;
    for (int64_t i = 0; i < size; ++i) {
      found += keys[i] == std::numeric_limits<Key>::max();
    }
    nans = found;
  });
  return nans;
}

} // namespace histo::cpu
