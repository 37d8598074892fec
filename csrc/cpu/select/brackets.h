// A sample of all keys tells in which ranges the wanted keys are. The ranges hold few keys: one
// pass of comparisons copies them and counts the others (Floyd and Rivest, "Expected time bounds
// for selection", 1975). A sample may mislead: then the keys must be found in another way.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "cpu/run_widest.h"
#include "cpu/tuning.h"

namespace histo::cpu {

/// A key that is looked for: that of a rank, which counts from 0, and where it is to be written.
struct Wanted {
  int64_t rank;
  int64_t at;
};

/// Keys from `low` on and below `high`. There may be none.
template <class Key>
struct Bracket {
  Key low;
  Key high;
};

/// Adds to `from[i]` how many keys are at least the low end of bracket i. Copies the keys that are
/// in a bracket to `out`, and returns how many they are. `size` is at most kKeysPerTile; `out` has
/// room for as many keys.
template <class Key>
int64_t compare(
    const Key* keys,
    int64_t size,
    const std::vector<Bracket<Key>>& brackets,
    int64_t* from,
    Key* out);

/// Keys of fewer bits are counted by few digits.
template <class Key>
constexpr bool kHasBrackets = sizeof(Key) >= 4;

/// How many of `keys` are sampled for `num_q` quantiles, so that both the sample and the keys in
/// brackets are few.
inline int64_t sample_size(int64_t keys, size_t num_q) {
  const double root = std::cbrt(static_cast<double>(keys) * static_cast<double>(num_q));
  const double sampled = root * root * tuning::kShareOfSample;
  return std::min(static_cast<int64_t>(sampled), keys / tuning::kMinKeysPerSampled);
}

/// The row of a sampled key: there is one in each of `sampled` parts of all rows. Its position
/// within the part varies, so that a sample does not follow a period of the data.
inline int64_t sampled_row(int64_t part, int64_t sampled, int64_t rows) {
  constexpr uint32_t kGoldenRatio = 0x9e3779b9; // of 2^32
  const double within = static_cast<uint32_t>(part) * kGoldenRatio * 0x1p-32;
  const double row = (static_cast<double>(part) + within) * static_cast<double>(rows) /
                     static_cast<double>(sampled);
  return std::min(static_cast<int64_t>(row), rows - 1);
}

/// The brackets of a channel. They are in order, and do not overlap.
template <class Key>
class Brackets {
 public:
  /// `ranks`: those of the wanted keys in the sample, in order.
  Brackets(const std::vector<Wanted>& ranks, int64_t sampled) : sampled_(sampled) {
    const auto gap = static_cast<int64_t>(std::sqrt(static_cast<double>(sampled)));
    const int64_t outer = kOuterKnots * gap;
    for (const Wanted& wanted : ranks) {
      const int64_t margin = std::max(gap / 2, margin_of(wanted.rank));
      const int64_t first = wanted.rank - margin, last = wanted.rank + margin;
      if (!spans_.empty() && first - outer <= spans_.back().last + outer) {
        spans_.back().last = std::max(spans_.back().last, last);
      } else {
        spans_.push_back({first, last, 0, 0});
      }
    }
    for (Span& span : spans_) {
      span.begin = knots_.size();
      for (int64_t rank = span.first - outer; rank < span.last; rank += gap) {
        add_knot(rank);
      }
      for (int64_t rank = span.last; rank <= span.last + outer; rank += gap) {
        add_knot(rank);
      }
      span.end = knots_.size();
    }
  }

  /// The part of all keys that is expected in brackets.
  double share() const {
    int64_t ranks = 0;
    for (const Span& span : spans_) {
      ranks += span.last - span.first;
    }
    return static_cast<double>(ranks) / static_cast<double>(sampled_);
  }
  /// The order statistics of the sample that tell the brackets.
  std::vector<Wanted>& knots() {
    return knots_;
  }

  /// Sets the brackets, knowing the keys of the knots. A key that three neighbours have is
  /// frequent: it is in no bracket but lies between two. The last bracket begins at NaN, and is
  /// empty.
  void set(const std::vector<Key>& keys) {
    for (const Span& span : spans_) {
      Key low = span.first < 0 ? Key{0} : keys[span.begin + kOuterKnots];
      for (size_t i = span.begin + 2; i < span.end; ++i) {
        const bool begins = i == span.begin + 2 || keys[i - 3] != keys[i];
        if (begins && keys[i - 2] == keys[i]) {
          add(low, keys[i]);
          low = after(keys[i]);
        }
      }
      add(low, span.last >= sampled_ ? kLast : after(keys[span.end - 1 - kOuterKnots]));
    }
    add(kLast, kLast);
  }
  const std::vector<Bracket<Key>>& get() const {
    return brackets_;
  }

  /// `from`: the counts of all `keys`; `copied`: the keys in brackets. Keeps the wanted keys that
  /// are copied, with their ranks among these, and writes the others to `found`. False: the
  /// sample misled.
  bool locate(
      int64_t keys,
      const std::vector<int64_t>& from,
      const Key* copied,
      int64_t num_copied,
      std::vector<Wanted>& wanted,
      Key* found) const {
    std::vector<int64_t> from_copied(brackets_.size() + 1);
    for (size_t i = 0; i < brackets_.size(); ++i) {
      from_copied[i] = count_from(brackets_[i].low, copied, num_copied);
    }
    size_t next = 0, kept = 0; // the first bracket above a wanted key
    for (const Wanted& one : wanted) {
      while (next < brackets_.size() && one.rank >= keys - from[next]) {
        ++next;
      }
      if (next == 0) {
        return false;
      }
      const Bracket<Key>& bracket = brackets_[next - 1];
      const int64_t rank = one.rank - (keys - from[next - 1]); // from the bracket's low end on
      if (rank < from_copied[next - 1] - from_copied[next]) {
        wanted[kept++] = {num_copied - from_copied[next - 1] + rank, one.at};
        continue;
      }
      const Key last = next < brackets_.size() ? static_cast<Key>(brackets_[next].low - 1) : kLast;
      if (bracket.high != last) {
        return false;
      }
      found[one.at] = last;
    }
    wanted.resize(kept);
    return true;
  }

 private:
  static constexpr Key kLast = std::numeric_limits<Key>::max();
  static constexpr int kOuterKnots = 2; // on each side of a span

  /// Neighbouring ranks of the sample and their knots.
  struct Span {
    int64_t first;
    int64_t last;
    size_t begin;
    size_t end;
  };

  static Key after(Key key) {
    return key == kLast ? key : static_cast<Key>(key + 1);
  }
  static int64_t count_from(Key low, const Key* keys, int64_t size) {
    int64_t count = 0;
    run_widest([&]() __attribute__((always_inline)) {
      int64_t found = 0;
      for (int64_t i = 0; i < size; ++i) {
        found += keys[i] >= low;
      }
      count = found;
    });
    return count;
  }
  /// Four standard deviations: a wanted key is in its bracket almost always.
  int64_t margin_of(int64_t rank) const {
    const double part = static_cast<double>(rank) / static_cast<double>(sampled_);
    return static_cast<int64_t>(4 * std::sqrt(part * static_cast<double>(sampled_ - rank)));
  }
  void add_knot(int64_t rank) {
    knots_.push_back(
        {std::clamp<int64_t>(rank, 0, sampled_ - 1), static_cast<int64_t>(knots_.size())});
  }
  void add(Key low, Key high) {
    const Key least = brackets_.empty() ? Key{0} : brackets_.back().high;
    brackets_.push_back({std::max(low, least), std::max(high, least)});
  }

  int64_t sampled_;
  std::vector<Span> spans_;
  std::vector<Wanted> knots_;
  std::vector<Bracket<Key>> brackets_;
};

} // namespace histo::cpu
