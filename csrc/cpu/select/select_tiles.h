// The tiles of keys that workers take one after another, to select quantiles of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "core/problem.h"
#include "cpu/run_widest.h"
#include "cpu/tasks.h"
#include "cpu/threads.h"
#include "cpu/tuning.h"

namespace histo::cpu {

constexpr int64_t kLineKeys = 64; // from one channel's keys to the next: not a power of two apart

/// Hands the tiles of all rows to workers: each is made by `make()`, and calls read(begin, size)
/// for a tile and finish() after its last one.
template <class Make>
void read_tiles(int64_t rows, int64_t channels, const Make& make) {
  const int64_t tiles = ceil_div(rows, tuning::kKeysPerTile);
  const int64_t workers =
      std::clamp<int64_t>(rows * channels / tuning::kMinElementsPerThread, 1, num_threads());
  Tasks tasks(tiles, workers);
  run_workers(std::min(workers, tiles), [&](int64_t i) {
    auto worker = make();
    tasks.run(i, [&](int64_t tile) {
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
