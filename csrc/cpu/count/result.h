// The counts of a strip on their way to the result.
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>

#include "core/problem.h"
#include "cpu/count/pattern_axis.h"

namespace histo::cpu {

/// The histograms of the channels that one thread counts at a time.
class Result {
 public:
  Result(const Problem& problem, const PatternAxis& axis) : problem_(problem), axis_(axis) {
  }

  /// Chooses channels. With a lock, other threads may add to the same counts while they hold it.
  /// Without a lock no other thread does, and the counts are not initialized unless the problem
  /// adds.
  void choose(int64_t first_channel, int64_t channels, std::mutex* lock) {
    histograms_ = problem_.counts + first_channel * axis_.num_bins;
    num_channels_ = channels;
    lock_ = lock;
    fresh_ = lock == nullptr && !problem_.adds;
  }

  int64_t num_channels() const {
    return num_channels_;
  }
  const PatternAxis& axis() const {
    return axis_;
  }

  /// Calls f, which writes counts, while no other thread writes the same ones.
  template <class F>
  void locked(const F& f) {
    std::unique_lock<std::mutex> locked;
    if (lock_ != nullptr) {
      locked = std::unique_lock<std::mutex>(*lock_);
    }
    f();
    fresh_ = false;
  }

  /// Adds the count of every pattern to its bin. A fresh histogram is written instead.
  template <class CountOf>
  void put(int64_t channel, const CountOf& count_of) const {
    int64_t* histogram = histogram_of(channel);
    const int64_t own = axis_.own_bins;
    if (fresh_) {
      for (int64_t bin = 0; bin < own; ++bin) {
        histogram[bin] = count_of(bin);
      }
    } else {
      for (int64_t bin = 0; bin < own; ++bin) {
        histogram[bin] += count_of(bin);
      }
    }
    put_rest(channel, count_of);
  }

  /// Takes elements away that were counted in bin 0.
  void take(int64_t channel, int64_t count) const {
    histogram_of(channel)[0] -= count;
  }

 private:
  /// Adds the counts of bytes that are not their own bins. The other bins of a fresh histogram are
  /// empty.
  template <class CountOf>
  void put_rest(int64_t channel, const CountOf& count_of) const {
    int64_t* histogram = histogram_of(channel);
    if (fresh_) {
      std::fill(histogram + axis_.own_bins, histogram + axis_.num_bins, 0);
    }
    for (int64_t byte = axis_.own_bins; byte < axis_.num_bytes; ++byte) {
      if (const int64_t bin = axis_.bin_of_byte[byte]; bin != kNoBin) {
        histogram[bin] += count_of(byte);
      }
    }
  }

  int64_t* histogram_of(int64_t channel) const {
    return histograms_ + channel * axis_.num_bins;
  }

  const Problem& problem_;
  const PatternAxis& axis_;
  int64_t* histograms_ = nullptr;
  int64_t num_channels_ = 0;
  std::mutex* lock_ = nullptr;
  bool fresh_ = false;
};

} // namespace histo::cpu
