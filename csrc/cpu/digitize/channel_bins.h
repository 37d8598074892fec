// The thresholds of some channels, and the fastest search among them that is right everywhere.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/locate.h"
#include "cpu/digitize/search.h"
#include "cpu/tuning.h"

namespace histo::cpu {

template <class T>
class ChannelBins {
 public:
  using Compared = ComparedAs<T>;
  using G = GuessOf<Compared>;

  struct Channel {
    bool valid; // its edges do not decrease, and none is NaN
    ChannelSearch<Compared> search;
    Line<G> nearest;
    bool nearest_is_right;
  };

  void find(const Edges& edges, int64_t first_channel, int64_t channels, int64_t values) {
    bins_ = edges.bins;
    num_buckets_ =
        values < tuning::kMinValuesOfManyBuckets ? tuning::kFewBuckets : tuning::kManyBuckets;
    thresholds_.resize(static_cast<size_t>(channels * stride()));
    channels_.resize(static_cast<size_t>(channels));
    buckets_.resize(static_cast<size_t>(channels));
    for (int64_t channel = 0; channel < channels; ++channel) {
      find_channel(edges, first_channel + channel, channel);
    }
  }
  const Channel& operator[](int64_t channel) const {
    return channels_[static_cast<size_t>(channel)];
  }
  const Compared* thresholds() const {
    return thresholds_.data();
  }
  /// From the first threshold of a channel to that of the next one.
  int64_t stride() const {
    return bins_ + 2;
  }
  /// The most that the line of the nearest threshold gives.
  G most_edge() const {
    return rounded_down<G>(bins_);
  }

 private:
  /// A threshold that no value reaches. A value reaches the largest integer, so integers have
  /// a limit of how many are reached.
  static constexpr Compared kNever = std::numeric_limits<Compared>::has_quiet_NaN
                                         ? std::numeric_limits<Compared>::quiet_NaN()
                                         : std::numeric_limits<Compared>::max();

  void find_channel(const Edges& edges, int64_t channel, int64_t i) {
    const Real low = edges.at(channel, 0), high = edges.at(channel, bins_);
    const auto lines = Lines<G>::between(low, high, bins_);
    bool valid = true, affine_is_right = true, nearest_is_right = true;
    bool then_compare_is_right = bins_ <= kMostBinsOfClose;
    Compared* thresholds = thresholds_.data() + i * stride();
    int32_t limit = 0;
    for (int64_t k = 0; k <= bins_; ++k) {
      const CheckedEdge<T> edge = check_edge<T>(edges, channel, k, lines);
      thresholds[k] =
          edge.exists ? static_cast<Compared>(Number<T>::wide_at(edge.ordinal)) : kNever;
      limit += edge.exists;
      valid = valid && edge.valid;
      affine_is_right = affine_is_right && edge.affine_is_right;
      nearest_is_right = nearest_is_right && edge.nearest_is_right;
      then_compare_is_right = then_compare_is_right && edge.then_compare_is_right;
    }
    thresholds[bins_ + 1] = kNever;

    Channel& found = channels_[static_cast<size_t>(i)];
    found.valid = valid;
    found.nearest = lines.nearest;
    found.nearest_is_right = valid && nearest_is_right;
    ChannelSearch<Compared>& search = found.search;
    search = {};
    search.thresholds = thresholds;
    search.last = static_cast<int32_t>(bins_ + 1);
    search.limit = limit;
    if (affine_is_right) {
      search.line = lines.affine;
      search.most = rounded_down<G>(bins_ + 1);
    } else if (nearest_is_right && then_compare_is_right) {
      search.line = lines.then_compare;
      search.most = static_cast<G>(static_cast<double>(bins_ + 1) + kEndOfSlots);
      search.width = 1;
      search.then_compare = true;
    } else if (nearest_is_right) {
      search.line = lines.nearest;
      search.most = most_edge();
      search.width = 1;
    } else if (valid) {
      choose_buckets(low, high, buckets_[static_cast<size_t>(i)], search);
    }
  }

  /// Takes the buckets of values, or those of their bits where these need fewer steps.
  void choose_buckets(
      Real low, Real high, std::vector<int32_t>& buckets, ChannelSearch<Compared>& search) const {
    search.line = bucket_line<G>(low, high, num_buckets_);
    search.most = static_cast<G>(num_buckets_ - 1);
    search.bits = BitBuckets<G>::between(low, high, num_buckets_);
    buckets.resize(static_cast<size_t>(num_buckets_));
    search.over_bits = true;
    const int32_t width_over_bits = fill_buckets(buckets, search);
    search.width = width_over_bits;
    if (search.line.rises()) {
      search.over_bits = false;
      search.width = fill_buckets(buckets, search);
      if (search.width > width_over_bits) {
        search.over_bits = true;
        search.width = fill_buckets(buckets, search);
      }
    }
    search.buckets = buckets.data();
  }
  static int64_t bucket_of(Compared threshold, const ChannelSearch<Compared>& search) {
    const auto value = static_cast<G>(threshold);
    return search.over_bits ? search.bits.at(value)
                            : static_cast<int64_t>(search.line.clamped(value, search.most));
  }
  /// Counts the thresholds below each bucket, and inverts the count if the bucket has thresholds.
  /// Returns the first width of a search in any bucket.
  static int32_t fill_buckets(
      std::vector<int32_t>& buckets, const ChannelSearch<Compared>& search) {
    int32_t most = 1, below = 0, k = 0;
    for (size_t bucket = 0; bucket < buckets.size(); ++bucket) {
      while (k < search.limit &&
             bucket_of(search.thresholds[k], search) <= static_cast<int64_t>(bucket)) {
        ++k;
      }
      buckets[bucket] = k > below ? ~below : below;
      most = std::max(most, k - below);
      below = k;
    }
    int32_t width = 1;
    while (width <= most / 2) {
      width *= 2;
    }
    return width;
  }

  int32_t num_buckets_ = 0; // of each channel
  int64_t bins_ = 0;
  std::vector<Compared> thresholds_;
  std::vector<Channel> channels_;
  std::vector<std::vector<int32_t>> buckets_;
};

} // namespace histo::cpu
