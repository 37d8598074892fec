// Quantiles of short channels. A cache line of keys holds one row of several channels. These are sorted
// together, each in its own lane of vectors.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "core/ranks.h"
#include "cpu/float_mode.h"
#include "cpu/plan.h"
#include "cpu/run_widest.h"
#include "cpu/select/key_reader.h"
#include "cpu/tasks.h"
#include "cpu/threads.h"
#include "cpu/tuning.h"

namespace histo::cpu {

/// Puts the smaller keys of each lane into `a`, and the larger ones into `b`.
template <class Keys, class Key>
[[gnu::always_inline]] inline void exchange(Key* a, Key* b) {
  Keys x, y;
  std::memcpy(&x, a, sizeof x);
  std::memcpy(&y, b, sizeof y);
  const Keys less = x < y ? x : y, more = x < y ? y : x;
  std::memcpy(a, &less, sizeof less);
  std::memcpy(b, &more, sizeof more);
}

/// Sorts each lane of `rows` lines by Batcher's merge exchange (Knuth 5.2.2, algorithm M): it
/// compares the same rows whatever the keys are.
template <class Key>
void sort_lanes(Key* keys, int64_t rows) {
  run_widest_vectors([&](auto bytes) __attribute__((always_inline)) {
    using Keys = typename VectorOf<Key, decltype(bytes)::value>::Type;
    constexpr auto kKeys = static_cast<int64_t>(sizeof(Keys) / sizeof(Key));
    int64_t top = 1;
    while (2 * top < rows) {
      top *= 2;
    }
    for (int64_t p = top; p > 0; p /= 2) {
      int64_t distance = p, first = 0;
      for (int64_t q = top;; q /= 2) {
        for (int64_t begin = first; begin < rows - distance; begin += 2 * p) {
          const int64_t end = std::min(begin + p, rows - distance);
          for (int64_t i = begin * kLanes<Key>; i < end * kLanes<Key>; i += kKeys) {
            exchange<Keys>(keys + i, keys + i + distance * kLanes<Key>);
          }
        }
        if (q == p) {
          break;
        }
        distance = q - p;
        first = p;
      }
    }
  });
}

/// Selects in up to kLanes neighbouring channels at a time.
template <class Key>
class ShortSelection {
 public:
  ShortSelection(const Selection& selection, const KeyReader<Key>& reader)
      : selection_(selection), reader_(reader), rows_(selection.problem.num_rows()) {
    std::fill_n(keys_.data(), rows_ * kLanes<Key>, Key{0}); // of lanes without a channel, too
  }

  void run(int64_t first, int64_t channels) {
    reader_.read_lanes(first, channels, keys_.data());
    sort_lanes(keys_.data(), rows_);
    std::array<int64_t, kLanes<Key>> nans{};
    for (int64_t lane = 0; reader_.has_nan() && lane < channels; ++lane) {
      nans[lane] = nans_of(lane);
    }
    for (int64_t i = 0; i < selection_.num_q; ++i) {
      write(selection_.q[i], i * selection_.problem.num_channels() + first, channels, nans.data());
    }
  }

 private:
  static constexpr Key kNan = std::numeric_limits<Key>::max();

  Key at(int64_t row, int64_t lane) const {
    return keys_[static_cast<size_t>(row * kLanes<Key> + lane)];
  }
  int64_t nans_of(int64_t lane) const {
    int64_t nans = 0;
    while (nans < rows_ && at(rows_ - 1 - nans, lane) == kNan) {
      ++nans;
    }
    return nans;
  }
  void write(double q, int64_t to, int64_t channels, const int64_t* nans) {
    std::array<Key, kLanes<Key>> below, above;
    Ranks ranks = ranks_of(selection_, q, rows_, nans[0]);
    for (int64_t lane = 0; lane < channels; ++lane) {
      if (lane > 0 && nans[lane] != nans[lane - 1]) {
        ranks = ranks_of(selection_, q, rows_, nans[lane]);
      }
      below[static_cast<size_t>(lane)] = ranks.is_nan ? kNan : at(ranks.below, lane);
      above[static_cast<size_t>(lane)] = ranks.is_nan ? kNan : at(ranks.above, lane);
      selection_.put_weight(to + lane, ranks.weight);
    }
    reader_.write(below.data(), channels, selection_.below, to);
    reader_.write(above.data(), channels, selection_.above, to);
  }

  const Selection& selection_;
  const KeyReader<Key>& reader_;
  int64_t rows_;
  alignas(tuning::kLineBytes) std::array<Key, tuning::kMaxSortedRowsOfSeveral * kLanes<Key>> keys_;
};

/// The most rows that are sorted faster than they are selected. A line that is not full, or of long
/// keys, sorts few channels at once. More quantiles cost nothing once keys are sorted. Bytes are counted
/// fast anyway.
template <class Key>
int64_t most_sorted_rows(int64_t channels, int64_t num_q) {
  constexpr auto kSize = sizeof(Key);
  if (channels < kLanes<Key> || (num_q == 1 && kSize == 8)) {
    return tuning::kMaxSortedRows;
  }
  return num_q == 1 || kSize == 1 ? tuning::kMaxSortedRowsOfMany : tuning::kMaxSortedRowsOfSeveral;
}

template <class Key>
void select_short(const Selection& selection, const KeyReader<Key>& reader) {
  const int64_t channels = selection.problem.num_channels();
  const int64_t blocks = ceil_div(channels, kLanes<Key>);
  const int64_t workers = std::min(blocks, workers_of(selection.problem));
  Tasks tasks(blocks, workers);
  run_workers(workers, [&](int64_t worker) {
    const ExactFloats exact; // q and weights may be subnormal
    ShortSelection<Key> selects(selection, reader);
    tasks.run(worker, [&](int64_t block) {
      const int64_t first = block * kLanes<Key>;
      selects.run(first, std::min(kLanes<Key>, channels - first));
    });
  });
}

} // namespace histo::cpu
