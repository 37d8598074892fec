// Order statistics of keys in memory, by their digits from the leading one on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "cpu/run_widest.h"
#include "cpu/select/brackets.h"
#include "cpu/tuning.h"

namespace histo::cpu {

/// Wanted keys [begin, end) of those with a common digit.
struct WantedRange {
  int64_t digit;
  int64_t keys;   // that have the digit
  int64_t before; // keys with smaller digits
  Wanted* begin;
  Wanted* end;
};

/// Cuts wanted keys, in order of their ranks, into those of a digit each. `count(digit)` tells how
/// many keys have it.
template <class Count>
std::vector<WantedRange> ranges_of_digits(Wanted* begin, Wanted* end, const Count& count) {
  std::vector<WantedRange> ranges;
  int64_t before = 0;
  for (int64_t digit = 0; begin != end; ++digit) {
    const int64_t keys = count(digit);
    Wanted* next = begin;
    for (; next != end && next->rank < before + keys; ++next) {
      next->rank -= before;
    }
    if (next != begin) {
      ranges.push_back({digit, keys, before, begin, next});
      begin = next;
    }
    before += keys;
  }
  return ranges;
}

/// Adds the digits of keys to two tables, which belong together. Neighbours are counted apart: a
/// counter that was just written takes long to read.
template <class Key, class DigitOf>
void count_digits(
    const Key* keys, int64_t size, uint32_t* even, uint32_t* odd, const DigitOf& digit) {
  for (int64_t i = 0; i + 1 < size; i += 2) {
    ++even[digit(keys[i])];
    ++odd[digit(keys[i + 1])];
  }
  if (size % 2 != 0) {
    ++even[digit(keys[size - 1])];
  }
}

/// The memory of one thread is held here.
template <class Key>
class KeySelector {
 public:
  KeySelector() : tables_(std::make_unique<DigitTables>()) {
  }

  /// Writes the wanted keys, which are in order of their ranks, to `found`. `spare` is memory for
  /// as many keys; both are overwritten.
  void select(Key* keys, Key* spare, int64_t size, Wanted* begin, Wanted* end, Key* found) {
    if (size <= tuning::kSortedKeys) {
      return sort(keys, size, begin, end, found);
    }
    if constexpr (kHasBrackets<Key>) {
      if (size >= tuning::kMinKeysOfSample &&
          select_sampled(keys, spare, size, begin, end, found)) {
        return;
      }
    }
    const auto [low, high] = extremes(keys, size);
    if (low == high) {
      for (; begin != end; ++begin) {
        found[begin->at] = low;
      }
      return;
    }
    const LeadingDigit digit = leading_digit(low, high, size);
    const std::vector<WantedRange> ranges = ranges_of(keys, size, digit, begin, end);
    if (digit.shift == 0) {
      return write(ranges, static_cast<Key>(low & ~digit.mask), found);
    }
    gather(keys, spare, size, digit, ranges);
    for (const WantedRange& range : ranges) {
      select(spare, keys, range.keys, range.begin, range.end, found);
      spare += range.keys;
      keys += range.keys;
    }
  }

  /// Sets brackets from a sample; returns false if they are too many.
  bool set(Brackets<Key>& brackets, Key* sample, Key* spare, int64_t sampled) {
    std::vector<Wanted>& knots = brackets.knots();
    std::vector<Key> keys(knots.size());
    select(sample, spare, sampled, knots.data(), knots.data() + knots.size(), keys.data());
    brackets.set(keys);
    return brackets.get().size() <= tuning::kMaxBrackets;
  }

 private:
  static constexpr int kShortDigit = 8;
  static constexpr int kLongDigit = 11;
  static constexpr int64_t kDigits = 1 << kLongDigit;

  struct LeadingDigit {
    int shift;
    uint64_t mask;

    size_t operator()(Key key) const {
      return static_cast<size_t>(key >> shift & mask);
    }
  };
  struct DigitTables {
    uint32_t counts[2][kDigits];
    uint16_t range_of[kDigits]; // 1 + the range, or 0
    Key* next[kDigits + 1];
    Key unwanted;
  };

  static std::pair<Key, Key> extremes(const Key* keys, int64_t size) {
    std::pair<Key, Key> found;
    run_widest([&]() __attribute__((always_inline)) {
      // Variables of this function stay in registers.
      Key least = keys[0], largest = keys[0];
      for (int64_t i = 0; i < size; ++i) {
        least = std::min(least, keys[i]);
        largest = std::max(largest, keys[i]);
      }
      found = {least, largest};
    });
    return found;
  }

  /// The first bits in which keys from `low` to `high` differ.
  static LeadingDigit leading_digit(Key low, Key high, int64_t size) {
    const int bits = size < tuning::kMinKeysOfLongDigits ? kShortDigit : kLongDigit;
    int shift = 0;
    while (static_cast<Key>(low ^ high) >> shift >> bits != 0) {
      ++shift;
    }
    return {shift, (uint64_t{1} << bits) - 1};
  }

  /// Counts the digits of the keys, and cuts the wanted ones into those of a digit each.
  std::vector<WantedRange> ranges_of(
      const Key* keys, int64_t size, const LeadingDigit& digit, Wanted* begin, Wanted* end) {
    for (uint32_t* counts : tables_->counts) {
      std::fill_n(counts, digit.mask + 1, 0);
    }
    count_digits(keys, size, tables_->counts[0], tables_->counts[1], digit);
    return ranges_of_digits(begin, end, [&](int64_t value) {
      return int64_t{tables_->counts[0][value]} + tables_->counts[1][value];
    });
  }

  /// Writes keys that have no bits but `upper` and their digit.
  static void write(const std::vector<WantedRange>& ranges, Key upper, Key* found) {
    for (const WantedRange& range : ranges) {
      for (const Wanted* wanted = range.begin; wanted != range.end; ++wanted) {
        found[wanted->at] = static_cast<Key>(upper | static_cast<uint64_t>(range.digit));
      }
    }
  }

  bool select_sampled(
      Key* keys, Key* spare, int64_t size, const Wanted* begin, const Wanted* end, Key* found) {
    std::vector<Wanted> wanted(begin, end);
    const int64_t sampled = sample_size(size, (wanted.size() + 1) / 2);
    for (Wanted& one : wanted) {
      one.rank = static_cast<int64_t>(
          static_cast<double>(one.rank) * static_cast<double>(sampled) / static_cast<double>(size));
    }
    Brackets<Key> brackets(wanted, sampled);
    if (brackets.share() > tuning::kMaxShareOfBrackets) {
      return false;
    }
    for (int64_t i = 0; i < sampled; ++i) {
      spare[i] = keys[sampled_row(i, sampled, size)];
    }
    if (!set(brackets, spare, spare + sampled, sampled)) {
      return false;
    }
    std::vector<int64_t> from(brackets.get().size());
    int64_t copied = 0;
    for (int64_t i = 0; i < size; i += tuning::kKeysPerTile) {
      const int64_t tile = std::min(tuning::kKeysPerTile, size - i);
      copied += compare(keys + i, tile, brackets.get(), from.data(), spare + copied);
    }
    wanted.assign(begin, end);
    if (copied > size / 2 || !brackets.locate(size, from, spare, copied, wanted, found)) {
      return false;
    }
    Wanted* rest = wanted.data();
    select(spare, keys, copied, rest, rest + wanted.size(), found);
    return true;
  }

  void sort(Key* keys, int64_t size, Wanted* begin, Wanted* end, Key* found) {
    const bool sorts = end - begin > 2;
    if (sorts) {
      std::sort(keys, keys + size);
    }
    Key* from = keys;
    for (const Wanted* wanted = begin; wanted != end; ++wanted) {
      Key* at = keys + wanted->rank;
      if (!sorts && wanted != begin && at == from + 1) {
        std::iter_swap(at, std::min_element(at, keys + size));
      } else if (!sorts) {
        std::nth_element(from, at, keys + size);
      }
      from = at;
      found[wanted->at] = *at;
    }
  }

  /// Copies the keys of the ranges, one range after another.
  void gather(
      const Key* keys,
      Key* out,
      int64_t size,
      const LeadingDigit& digit,
      const std::vector<WantedRange>& ranges) {
    if (ranges.size() <= 2) {
      for (const WantedRange& range : ranges) {
        // A key with another digit is overwritten by the next one.
        int64_t kept = 0;
        for (int64_t i = 0; kept < range.keys; ++i) {
          out[kept] = keys[i];
          kept += digit(keys[i]) == static_cast<size_t>(range.digit);
        }
        out += range.keys;
      }
      return;
    }
    std::fill_n(tables_->range_of, digit.mask + 1, uint16_t{0});
    tables_->next[0] = &tables_->unwanted;
    for (size_t i = 0; i < ranges.size(); ++i) {
      tables_->range_of[ranges[i].digit] = static_cast<uint16_t>(i + 1);
      tables_->next[i + 1] = out;
      out += ranges[i].keys;
    }
    for (int64_t i = 0; i < size; ++i) {
      const uint16_t range = tables_->range_of[digit(keys[i])];
      *tables_->next[range] = keys[i];
      tables_->next[range] += range != 0;
    }
  }

  std::unique_ptr<DigitTables> tables_;
};

} // namespace histo::cpu
