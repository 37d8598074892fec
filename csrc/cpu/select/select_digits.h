// A pass over all keys that finds those with given prefixes: it copies them, or counts them by
// their next digit.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "cpu/run_widest.h"
#include "cpu/select/key_reader.h"
#include "cpu/select/select_keys.h"
#include "cpu/select/select_tiles.h"
#include "cpu/tuning.h"

namespace histo::cpu {

/// Keys with a common prefix, some of which are wanted.
template <class Key>
struct Prefix {
  int64_t channel; // within the block
  Key first;       // the smallest key with the prefix
  int shift;       // bits below the prefix
  int64_t keys;
  Wanted* begin; // ranks count from the prefix's smallest key
  Wanted* end;

  bool contains(Key key) const {
    return (key ^ first) >> shift == 0;
  }
};

/// A prefix in a pass. Its keys are copied, or counted by their next digit.
template <class Key>
struct PrefixTarget {
  Prefix<Key> prefix;
  Key* gathered;                // or null: the next digits are counted
  std::vector<int64_t> counts;  // of digits
  std::atomic<int64_t> next{0}; // keys gathered so far
  size_t table;                 // which of a thread's tables counts digits
};

template <class Key>
class DigitPass {
 public:
  using PrefixTargets = std::vector<std::unique_ptr<PrefixTarget<Key>>>;

  static constexpr int kBits = 8 * sizeof(Key);
  static constexpr int kDigitBits = 16;
  static constexpr int64_t kDigits = 1 << 16;

  /// The targets of a channel follow each other in the order of their prefixes.
  DigitPass(
      KeyReader<Key>& reader,
      int64_t rows,
      int64_t first_channel,
      int64_t channels,
      PrefixTargets& all)
      : reader_(reader), rows_(rows), first_channel_(first_channel), channels_(channels) {
    for (auto& target : all) {
      const auto channel = static_cast<size_t>(target->prefix.channel);
      of_channel_.resize(std::max(of_channel_.size(), channel + 1));
      of_channel_[channel].push_back(target.get());
      if (target->gathered == nullptr) {
        target->table = tables_++;
        target->counts.assign(kDigits, 0);
      }
    }
    of_channel_.resize(static_cast<size_t>(channels));
    for (const auto& targets : of_channel_) {
      const bool looks_up = targets.size() > tuning::kMaxComparedPrefixes;
      maps_.emplace_back(looks_up ? kDigits : 0, uint8_t{0});
      for (size_t i = targets.size(); looks_up && i-- > 0;) {
        maps_.back()[leading(targets[i]->prefix.first)] = static_cast<uint8_t>(i + 1);
      }
    }
  }

  void run() {
    read_tiles(rows_, channels_, [&] { return DigitWorker(*this); });
  }

 private:
  static size_t leading(Key key) {
    return static_cast<size_t>(key >> (kBits - kDigitBits));
  }

  class DigitWorker {
   public:
    explicit DigitWorker(DigitPass& pass)
        : pass_(pass),
          keys_(static_cast<size_t>(pass.channels_ * kStep)),
          tables_(pass.tables_ * 2 * kDigits) {
    }

    void read(int64_t begin, int64_t size) {
      const int64_t together = pass_.channels_;
      pass_.reader_.read(pass_.first_channel_, together, begin, size, keys_.data(), kStep);
      for (int64_t channel = 0; channel < together; ++channel) {
        const auto& targets = pass_.of_channel_[static_cast<size_t>(channel)];
        if (!targets.empty()) {
          take(channel, targets, keys_.data() + channel * kStep, size);
        }
      }
      counted_ += size;
      if (counted_ >= kMaxCounted) {
        finish();
      }
    }
    void finish() {
      const std::lock_guard<std::mutex> guard(pass_.mutex_);
      for (const auto& targets : pass_.of_channel_) {
        for (PrefixTarget<Key>* target : targets) {
          if (target->gathered == nullptr) {
            const uint32_t* table = tables_.data() + target->table * 2 * kDigits;
            for (int64_t i = 0; i < kDigits; ++i) {
              target->counts[static_cast<size_t>(i)] += int64_t{table[i]} + table[kDigits + i];
            }
          }
        }
      }
      std::fill(tables_.begin(), tables_.end(), 0);
      counted_ = 0;
    }

   private:
    static constexpr int64_t kStep = tuning::kKeysPerTile + kLineKeys;
    static constexpr int64_t kMaxCounted = int64_t{1} << 31;

    void take(
        int64_t channel,
        const std::vector<PrefixTarget<Key>*>& targets,
        const Key* keys,
        int64_t size) {
      if (targets.size() == 1) {
        const Prefix<Key>& prefix = targets[0]->prefix;
        if (prefix.shift == kBits) { // all keys
          return keep(*targets[0], keys, size);
        }
        return keep(*targets[0], matching_.data(), match(prefix, keys, size));
      }
      if (targets.size() <= tuning::kMaxComparedPrefixes) {
        for (PrefixTarget<Key>* target : targets) {
          keep(*target, matching_.data(), match(target->prefix, keys, size));
        }
        return;
      }
      look_up(pass_.maps_[static_cast<size_t>(channel)], targets, keys, size);
    }

    /// Copies the keys with a prefix; returns how many they are.
    int64_t match(const Prefix<Key>& prefix, const Key* keys, int64_t size) {
      int64_t matches = 0;
      run_widest([&]() __attribute__((always_inline)) {
        // Local variables stay in registers, members do not.
        Key* out = matching_.data();
        const Key first = prefix.first;
        const int shift = prefix.shift;
        int64_t kept = 0, i = 0;
        for (; i + tuning::kComparedKeys <= size; i += tuning::kComparedKeys) {
          Key any = 0;
          for (int64_t j = 0; j < tuning::kComparedKeys; ++j) {
            any |= static_cast<Key>((keys[i + j] ^ first) >> shift == 0);
          }
          for (int64_t j = 0; any != 0 && j < tuning::kComparedKeys; ++j) {
            out[kept] = keys[i + j];
            kept += (keys[i + j] ^ first) >> shift == 0;
          }
        }
        for (; i < size; ++i) {
          out[kept] = keys[i];
          kept += (keys[i] ^ first) >> shift == 0;
        }
        matches = kept;
      });
      return matches;
    }

    /// Hands keys to many targets, each all of its keys at once.
    void look_up(
        const std::vector<uint8_t>& map,
        const std::vector<PrefixTarget<Key>*>& targets,
        const Key* keys,
        int64_t size) {
      sort_by_target(find_matching(map, targets, keys, size), targets.size());
      for (size_t target = 0; target < targets.size(); ++target) {
        if (sizes_[target] > 0) {
          keep(*targets[target], sorted_.data() + ends_[target] - sizes_[target], sizes_[target]);
        }
      }
    }

    /// Copies the keys that have a target; returns how many they are.
    int64_t find_matching(
        const std::vector<uint8_t>& map,
        const std::vector<PrefixTarget<Key>*>& targets,
        const Key* keys,
        int64_t size) {
      sizes_.fill(0);
      int64_t kept = 0;
      for (int64_t i = 0; i < size; ++i) {
        const uint8_t first = map[leading(keys[i])]; // 1 + the target, or 0
        if (first == 0) {
          continue;
        }
        size_t target = first - size_t{1};
        while (target < targets.size() && !targets[target]->prefix.contains(keys[i]) &&
               targets[target]->prefix.first < keys[i]) {
          ++target;
        }
        if (target < targets.size() && targets[target]->prefix.contains(keys[i])) {
          matching_[static_cast<size_t>(kept)] = keys[i];
          target_of_[static_cast<size_t>(kept++)] = static_cast<uint8_t>(target);
          ++sizes_[target];
        }
      }
      return kept;
    }

    /// Sorts them by target, and finds the ends of each target's keys.
    void sort_by_target(int64_t kept, size_t targets) {
      int64_t offset = 0;
      for (size_t target = 0; target < targets; ++target) {
        ends_[target] = offset; // the beginning at first
        offset += sizes_[target];
      }
      for (int64_t i = 0; i < kept; ++i) {
        sorted_[static_cast<size_t>(ends_[target_of_[static_cast<size_t>(i)]]++)] =
            matching_[static_cast<size_t>(i)];
      }
    }

    void keep(PrefixTarget<Key>& target, const Key* keys, int64_t size) {
      if (target.gathered != nullptr) {
        if (size > 0) {
          std::copy_n(keys, size, target.gathered + target.next.fetch_add(size));
        }
        return;
      }
      uint32_t* counts = tables_.data() + target.table * 2 * kDigits;
      const int shift = target.prefix.shift - kDigitBits;
      count_digits(keys, size, counts, counts + kDigits, [shift](Key key) {
        return static_cast<size_t>(key >> shift) % kDigits;
      });
    }

    DigitPass& pass_;
    std::vector<Key> keys_;
    std::vector<uint32_t> tables_;
    std::array<Key, tuning::kKeysPerTile + 1> matching_;
    std::array<Key, tuning::kKeysPerTile> sorted_;
    std::array<uint8_t, tuning::kKeysPerTile> target_of_;
    std::array<int64_t, tuning::kMaxPrefixes> sizes_;
    std::array<int64_t, tuning::kMaxPrefixes> ends_;
    int64_t counted_ = 0;
  };

  KeyReader<Key>& reader_;
  int64_t rows_;
  int64_t first_channel_;
  int64_t channels_;
  std::vector<std::vector<PrefixTarget<Key>*>> of_channel_;
  std::vector<std::vector<uint8_t>> maps_; // from a leading digit to 1 + the first target
  size_t tables_ = 0;
  std::mutex mutex_;
};

} // namespace histo::cpu
