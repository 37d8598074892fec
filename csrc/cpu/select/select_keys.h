// Order statistics of keys in memory, by their digits from the leading one on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
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

/// Digits whose counts are added up, to see whether a wanted key has one of them.
constexpr int64_t kDigitsTogether = 32;

/// Cuts wanted keys, in order of their ranks, into those of a digit each. `counts[digit]` tells how
/// many keys have it; there are a multiple of kDigitsTogether digits.
template <class Count>
std::vector<WantedRange> ranges_of_digits(Wanted* begin, Wanted* end, const Count* counts) {
  std::vector<WantedRange> ranges;
  run_widest([&]() __attribute__((always_inline)) {
    int64_t before = 0, digit = 0;
    for (Wanted* next = begin; next != end; begin = next) {
      while (digit % kDigitsTogether == 0) {
        Count together = 0;
        for (int64_t i = 0; i < kDigitsTogether; ++i) {
          together += counts[digit + i];
        }
        if (next->rank < before + static_cast<int64_t>(together)) {
          break;
        }
        before += static_cast<int64_t>(together);
        digit += kDigitsTogether;
      }
      const auto keys = static_cast<int64_t>(counts[digit]);
      for (; next != end && next->rank < before + keys; ++next) {
        next->rank -= before;
      }
      if (next != begin) {
        ranges.push_back({digit, keys, before, begin, next});
      }
      before += keys;
      ++digit;
    }
  });
  return ranges;
}

/// Adds the digits of keys to two tables, which belong together. Neighbours are counted apart: a
/// counter that was just written takes long to read.
template <class Key, class DigitOf>
[[gnu::always_inline]] inline void count_digits(
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
    if (size <= kRankedKeys) {
      return rank(keys, size, begin, end, found);
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
    const LeadingDigit digit = leading_digit(low, high);
    const std::vector<WantedRange> ranges = ranges_of(keys, size, digit, begin, end);
    if (digit.shift == 0) {
      return write(ranges, low, found);
    }
    if (gather(keys, spare, digit, ranges) == spare) {
      std::swap(keys, spare);
    }
    for (const WantedRange& range : ranges) {
      select(keys, spare, range.keys, range.begin, range.end, found);
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

  /// Writes keys that are as far from `low` as their digit tells.
  static void write(const std::vector<WantedRange>& ranges, Key low, Key* found) {
    for (const WantedRange& range : ranges) {
      for (const Wanted* wanted = range.begin; wanted != range.end; ++wanted) {
        found[wanted->at] = static_cast<Key>(low + static_cast<Key>(range.digit));
      }
    }
  }

 private:
  static constexpr size_t kMostDigits = 1 << 11;
  static constexpr int64_t kRankedKeys = tuning::kRankedBytes / sizeof(Key);

  /// The leading bits of the distance from the smallest key.
  struct LeadingDigit {
    Key low;
    int shift;
    size_t digits; // that there may be

    size_t operator()(Key key) const {
      return static_cast<size_t>(static_cast<Key>(key - low) >> shift);
    }
  };
  struct DigitTables {
    uint32_t counts[2][kMostDigits];
    uint16_t range_of[kMostDigits]; // 1 + the range, or 0
    Key* next[kMostDigits + 1];
  };

  static std::pair<Key, Key> extremes(const Key* keys, int64_t size) {
    std::pair<Key, Key> found;
    run_widest([&]() __attribute__((always_inline)) {
      // Variables of this function stay in registers. GCC vectorizes what begins with constants.
      Key least = std::numeric_limits<Key>::max(), largest = 0;
      for (int64_t i = 0; i < size; ++i) {
        least = std::min(least, keys[i]);
        largest = std::max(largest, keys[i]);
      }
      found = {least, largest};
    });
    return found;
  }

  /// So that the keys from `low` to `high` have as many digits as there may be.
  static LeadingDigit leading_digit(Key low, Key high) {
    LeadingDigit digit{low, 0, 0};
    while (digit(high) >= kMostDigits) {
      ++digit.shift;
    }
    digit.digits = (digit(high) / kDigitsTogether + 1) * kDigitsTogether;
    return digit;
  }

  /// Counts the digits of the keys, and cuts the wanted ones into those of a digit each.
  std::vector<WantedRange> ranges_of(
      const Key* keys, int64_t size, const LeadingDigit& digit, Wanted* begin, Wanted* end) {
    for (uint32_t* counts : tables_->counts) {
      std::fill_n(counts, digit.digits, 0);
    }
    uint32_t *even = tables_->counts[0], *odd = tables_->counts[1];
    run_widest([&]() __attribute__((always_inline)) {
      const LeadingDigit digit_of = digit; // in registers
      count_digits(keys, size, even, odd, digit_of);
      for (size_t i = 0; i < digit.digits; ++i) {
        even[i] += odd[i];
      }
    });
    return ranges_of_digits(begin, end, even);
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

  /// Finds keys by their ranks: compares each with each, which has no branches.
  static void rank(const Key* keys, int64_t size, Wanted* begin, Wanted* end, Key* found) {
    run_widest_vectors([&](auto bytes) __attribute__((always_inline)) {
      using Keys = typename VectorOf<Key, decltype(bytes)::value>::Type;
      constexpr int64_t kLanes = sizeof(Keys) / sizeof(Key);
      constexpr int64_t kVectors = tuning::kRankedBytes / sizeof(Keys);
      Key padded[kRankedKeys];
      std::fill_n(padded, kRankedKeys, std::numeric_limits<Key>::max());
      std::copy_n(keys, size, padded);
      Keys all[kVectors], less[kVectors]; // how many keys are less
      std::memcpy(all, padded, sizeof all);
      const int64_t vectors = ceil_div(size, kLanes);
      for (int64_t v = 0; v < vectors; ++v) {
        Keys before = {};
        for (int64_t i = 0; i < size; ++i) {
          before -= reinterpret_cast<Keys>(padded[i] < all[v]); // true is -1
        }
        less[v] = before;
      }
      for (const Wanted* wanted = begin; wanted != end; ++wanted) {
        const auto rank = static_cast<Key>(wanted->rank);
        Keys most = {};
        for (int64_t v = 0; v < vectors; ++v) {
          const Keys candidates = less[v] <= rank ? all[v] : Keys{};
          most = candidates > most ? candidates : most;
        }
        Key lanes[kLanes];
        std::memcpy(lanes, &most, sizeof most);
        found[wanted->at] = *std::max_element(lanes, lanes + kLanes);
      }
    });
  }

  /// Moves the keys of the ranges to `spare`, and from there back, one range after another, if
  /// there are several. Returns where they are.
  Key* gather(
      Key* keys, Key* spare, const LeadingDigit& digit, const std::vector<WantedRange>& ranges) {
    std::fill_n(tables_->range_of, digit.digits, uint16_t{0});
    Key* next = keys;
    for (size_t i = 0; i < ranges.size(); ++i) {
      tables_->range_of[ranges[i].digit] = static_cast<uint16_t>(i + 1);
      tables_->next[i + 1] = next;
      next += ranges[i].keys;
    }
    const int64_t wanted = next - keys;
    run_widest([&]() __attribute__((always_inline)) {
      const LeadingDigit digit_of = digit; // in registers
      const uint16_t* range_of = tables_->range_of;
      Key* out = spare;
      // A key of no range is overwritten by the next one.
      for (const Key* key = keys; out != spare + wanted; ++key) {
        *out = *key;
        out += range_of[digit_of(*key)] != 0;
      }
    });
    if (ranges.size() == 1) {
      return spare;
    }
    for (int64_t i = 0; i < wanted; ++i) {
      *tables_->next[tables_->range_of[digit(spare[i])]]++ = spare[i];
    }
    return keys;
  }

  std::unique_ptr<DigitTables> tables_;
};

} // namespace histo::cpu
