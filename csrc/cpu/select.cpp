// Quantiles without sorting. A sample tells where the wanted keys are, and one pass finds them.
// Narrow types, many quantiles, and samples that misled need digits: the leading 16 bits of all keys
// are counted, which tells the prefix of each wanted key. Then the keys with these prefixes are
// copied, or counted by their next 16 bits if they are too many.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

#include "../quantile.h"
#include "kernels.h"
#include "key_reader.h"
#include "run_widest.h"
#include "schedule.h"
#include "select_keys.h"
#include "threads.h"
#include "tuning.h"

namespace histo::cpu {
namespace {

using namespace tuning;

constexpr int64_t kDigits = 1 << 16;
constexpr int64_t kLineKeys = 64; // from one channel's keys to the next: not a power of two apart

/// The quantiles of a channel: what is wanted, and what was found.
template <class Key>
class Quantiles {
 public:
  Quantiles(const Selection& selection, const KeyReader<Key>& reader)
      : selection_(selection), reader_(reader), found_(2 * static_cast<size_t>(selection.num_q)) {
    wanted_.reserve(found_.size());
  }

  /// The wanted keys, in the order of their ranks; those of quantiles that are NaN are not wanted.
  std::vector<Wanted>& wanted(int64_t rows, int64_t nans) {
    wanted_.clear();
    ranks_.clear();
    for (int64_t i = 0; i < selection_.num_q; ++i) {
      const Ranks ranks = ranks_of(selection_, selection_.q[i], rows, nans);
      ranks_.push_back(ranks);
      if (!ranks.is_nan) {
        wanted_.push_back({ranks.below, 2 * i});
        wanted_.push_back({ranks.above, 2 * i + 1});
      }
    }
    std::sort(wanted_.begin(), wanted_.end(), [](const Wanted& a, const Wanted& b) {
      return a.rank < b.rank;
    });
    return wanted_;
  }
  Key* found() {
    return found_.data();
  }
  size_t size() const {
    return static_cast<size_t>(selection_.num_q);
  }
  void write(int64_t channel) const {
    for (int64_t i = 0; i < selection_.num_q; ++i) {
      const Ranks& ranks = ranks_[static_cast<size_t>(i)];
      const int64_t at = i * selection_.problem.num_channels() + channel;
      const Key* keys = found_.data() + 2 * i;
      constexpr Key kNone = std::numeric_limits<Key>::max();
      reader_.write(ranks.is_nan ? kNone : keys[0], selection_.below, at);
      reader_.write(ranks.is_nan ? kNone : keys[1], selection_.above, at);
      selection_.put_weight(at, ranks.weight);
    }
  }

 private:
  const Selection& selection_;
  const KeyReader<Key>& reader_;
  std::vector<Wanted> wanted_;
  std::vector<Ranks> ranks_;
  std::vector<Key> found_;
};

/// Tasks that workers take in turns, some at once.
class Turns {
 public:
  Turns(int64_t tasks, int64_t workers)
      : tasks_(tasks), batch_(std::max<int64_t>(1, tasks / (workers * kTasksPerThread))) {
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

/// How many channels are read together: those that lie closer to each other than their rows do.
int64_t channels_per_block(const Problem& problem, int64_t most) {
  const auto distance = [](const Extent& loop) {
    return loop.stride < 0 ? -loop.stride : loop.stride;
  };
  const bool are_neighbours = problem.channels[1].size > 1 && problem.rows[2].size > 1 &&
                              distance(problem.channels[1]) < distance(problem.rows[2]);
  return are_neighbours ? std::clamp<int64_t>(most, 1, kChannelsPerBlock) : 1;
}

// --- Channels that are copied

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

template <class Key>
void select_copied(const Selection& selection, KeyReader<Key>& reader, Allocator& allocate) {
  const Problem& problem = selection.problem;
  const int64_t rows = problem.num_rows(), step = rows + kLineKeys;
  const auto key_bytes = static_cast<int64_t>(sizeof(Key));
  const Strips blocks(problem, channels_per_block(problem, 8 * kCopiedBytes / (step * key_bytes)));
  const int64_t elements = rows * problem.num_channels();
  const int64_t workers = std::clamp<int64_t>(
      std::min(blocks.count, elements / kMinElementsPerThread), 1, num_threads());
  const int64_t keys_of_worker = (blocks.size + 1) * step;
  auto* scratch = static_cast<Key*>(allocate(workers * keys_of_worker * key_bytes));
  Turns turns(blocks.count, workers);
  run_workers(workers, [&](int64_t worker) {
    Key* keys = scratch + worker * keys_of_worker;
    Quantiles<Key> quantiles(selection, reader);
    KeySelector<Key> selector;
    turns.take([&](int64_t block) {
      const int64_t channels = blocks.size_of(block);
      reader.read(blocks.first(block), channels, 0, rows, keys, step);
      for (int64_t i = 0; i < channels; ++i) {
        Key* of_channel = keys + i * step;
        const int64_t nans = reader.has_nan() ? count_nan(of_channel, rows) : 0;
        std::vector<Wanted>& wanted = quantiles.wanted(rows, nans);
        Wanted* begin = wanted.data();
        selector.select(
            of_channel, keys + blocks.size * step, rows, begin, begin + wanted.size(),
            quantiles.found());
        quantiles.write(blocks.first(block) + i);
      }
    });
  });
}

// --- Channels that are counted

/// Hands the tiles of all rows to workers: each is made by `make()`, and calls read(begin, size) for
/// a tile and finish() after its last one.
template <class Make>
void read_tiles(int64_t rows, int64_t channels, const Make& make) {
  const int64_t tiles = ceil_div(rows, kKeysPerTile);
  const int64_t workers =
      std::clamp<int64_t>(rows * channels / kMinElementsPerThread, 1, num_threads());
  Turns turns(tiles, workers);
  run_workers(std::min(workers, tiles), [&](int64_t) {
    auto worker = make();
    turns.take([&](int64_t tile) {
      const int64_t begin = tile * kKeysPerTile;
      worker.read(begin, std::min(kKeysPerTile, rows - begin));
    });
    worker.finish();
  });
}

/// Keys with a common prefix, some of which are wanted.
template <class Key>
struct Prefix {
  int64_t channel; // within the block
  Key first;       // the smallest key with the prefix
  int shift;       // bits below the prefix
  int64_t keys;
  Wanted* begin; // ranks count from the prefix's smallest key
  Wanted* end;

  bool holds(Key key) const {
    return (key ^ first) >> shift == 0;
  }
};

/// A prefix in a pass. Its keys are copied, or counted by their next digit.
template <class Key>
struct Target {
  Prefix<Key> prefix;
  Key* gathered;                // or null: the next digits are counted
  std::vector<int64_t> counts;  // of digits
  std::atomic<int64_t> next{0}; // keys gathered so far
  size_t table;                 // which of a thread's tables counts digits
};

template <class Key>
class Pass {
 public:
  using Targets = std::vector<std::unique_ptr<Target<Key>>>;

  static constexpr int kBits = 8 * sizeof(Key);
  static constexpr int kDigitBits = kBits < 16 ? kBits : 16;

  /// The targets of a channel follow each other in the order of their prefixes.
  Pass(KeyReader<Key>& reader, int64_t rows, int64_t first_channel, int64_t channels, Targets& all)
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
      const bool looks_up = targets.size() > kMaxComparedPrefixes;
      maps_.emplace_back(looks_up ? kDigits : 0, uint8_t{0});
      for (size_t i = targets.size(); looks_up && i-- > 0;) {
        maps_.back()[leading(targets[i]->prefix.first)] = static_cast<uint8_t>(i + 1);
      }
    }
  }

  void run() {
    read_tiles(rows_, channels_, [&] { return Worker(*this); });
  }

 private:
  static size_t leading(Key key) {
    return static_cast<size_t>(key >> (kBits - kDigitBits));
  }

  class Worker {
   public:
    explicit Worker(Pass& pass)
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
      held_ += size;
      if (held_ >= kMaxHeld) {
        finish();
      }
    }
    void finish() {
      const std::lock_guard<std::mutex> guard(pass_.mutex_);
      for (const auto& targets : pass_.of_channel_) {
        for (Target<Key>* target : targets) {
          if (target->gathered == nullptr) {
            const uint32_t* table = tables_.data() + target->table * 2 * kDigits;
            for (int64_t i = 0; i < kDigits; ++i) {
              target->counts[static_cast<size_t>(i)] += int64_t{table[i]} + table[kDigits + i];
            }
          }
        }
      }
      std::fill(tables_.begin(), tables_.end(), 0);
      held_ = 0;
    }

   private:
    static constexpr int64_t kStep = kKeysPerTile + kLineKeys;
    static constexpr int64_t kMaxHeld = int64_t{1} << 31;

    void take(
        int64_t channel, const std::vector<Target<Key>*>& targets, const Key* keys, int64_t size) {
      if (targets.size() == 1) {
        const Prefix<Key>& prefix = targets[0]->prefix;
        if (prefix.shift == kBits) { // all keys
          return keep(*targets[0], keys, size);
        }
        return keep(*targets[0], matching_.data(), match(prefix, keys, size));
      }
      if (targets.size() <= kMaxComparedPrefixes) {
        for (Target<Key>* target : targets) {
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
        for (; i + kComparedKeys <= size; i += kComparedKeys) {
          Key any = 0;
          for (int64_t j = 0; j < kComparedKeys; ++j) {
            any |= static_cast<Key>((keys[i + j] ^ first) >> shift == 0);
          }
          for (int64_t j = 0; any != 0 && j < kComparedKeys; ++j) {
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

    void look_up(
        const std::vector<uint8_t>& map,
        const std::vector<Target<Key>*>& targets,
        const Key* keys,
        int64_t size) {
      sizes_.fill(0);
      int64_t kept = 0;
      for (int64_t i = 0; i < size; ++i) {
        const uint8_t slot = map[leading(keys[i])];
        if (slot == 0) {
          continue;
        }
        size_t target = slot - size_t{1};
        while (target < targets.size() && !targets[target]->prefix.holds(keys[i]) &&
               targets[target]->prefix.first < keys[i]) {
          ++target;
        }
        if (target < targets.size() && targets[target]->prefix.holds(keys[i])) {
          matching_[static_cast<size_t>(kept)] = keys[i];
          slots_[static_cast<size_t>(kept++)] = static_cast<uint8_t>(target);
          ++sizes_[target];
        }
      }
      // Sorted by target, so that each takes its keys at once.
      int64_t offset = 0;
      for (size_t target = 0; target < targets.size(); ++target) {
        starts_[target] = offset;
        offset += sizes_[target];
      }
      for (int64_t i = 0; i < kept; ++i) {
        sorted_[static_cast<size_t>(starts_[slots_[static_cast<size_t>(i)]]++)] =
            matching_[static_cast<size_t>(i)];
      }
      for (size_t target = 0; target < targets.size(); ++target) {
        if (sizes_[target] > 0) {
          keep(*targets[target], sorted_.data() + starts_[target] - sizes_[target], sizes_[target]);
        }
      }
    }

    void keep(Target<Key>& target, const Key* keys, int64_t size) {
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

    Pass& pass_;
    std::vector<Key> keys_;
    std::vector<uint32_t> tables_;
    std::array<Key, kKeysPerTile + 1> matching_;
    std::array<Key, kKeysPerTile> sorted_;
    std::array<uint8_t, kKeysPerTile> slots_;
    std::array<int64_t, kMaxPrefixes> sizes_;
    std::array<int64_t, kMaxPrefixes> starts_;
    int64_t held_ = 0;
  };

  KeyReader<Key>& reader_;
  int64_t rows_;
  int64_t first_channel_;
  int64_t channels_;
  std::vector<std::vector<Target<Key>*>> of_channel_;
  std::vector<std::vector<uint8_t>> maps_; // from a leading digit to 1 + the first target
  size_t tables_ = 0;
  std::mutex mutex_;
};

/// A channel in a pass that compares keys with the bounds of brackets.
template <class Key>
struct Bracketed {
  Brackets<Key> brackets;
  Key* copied; // keys in brackets
  int64_t room;
  std::vector<int64_t> from;    // how many keys are from each bracket's low end on
  std::atomic<int64_t> next{0}; // keys in brackets so far; more than fit are not copied
};

template <class Key>
class BracketPass {
 public:
  using Channels = std::vector<std::unique_ptr<Bracketed<Key>>>;

  BracketPass(KeyReader<Key>& reader, int64_t first_channel, Channels& all)
      : reader_(reader), first_channel_(first_channel), all_(all) {
  }
  void run(int64_t rows) {
    read_tiles(rows, static_cast<int64_t>(all_.size()), [&] { return Worker(*this); });
  }

 private:
  class Worker {
   public:
    explicit Worker(BracketPass& pass) : pass_(pass), keys_(pass.all_.size() * kStep) {
      for (const auto& channel : pass.all_) {
        from_.emplace_back(channel->brackets.get().size());
      }
    }
    void read(int64_t begin, int64_t size) {
      const auto together = static_cast<int64_t>(from_.size());
      pass_.reader_.read(pass_.first_channel_, together, begin, size, keys_.data(), kStep);
      for (size_t i = 0; i < from_.size(); ++i) {
        Bracketed<Key>& channel = *pass_.all_[i];
        const Key* keys = keys_.data() + i * kStep;
        const int64_t copied =
            compare(keys, size, channel.brackets.get(), from_[i].data(), copied_.data());
        const int64_t at = copied > 0 ? channel.next.fetch_add(copied) : 0;
        if (at + copied <= channel.room) {
          std::copy_n(copied_.data(), copied, channel.copied + at);
        }
      }
    }
    void finish() {
      const std::lock_guard<std::mutex> guard(pass_.mutex_);
      for (size_t i = 0; i < from_.size(); ++i) {
        Bracketed<Key>& channel = *pass_.all_[i];
        for (size_t j = 0; j < from_[i].size(); ++j) {
          channel.from[j] += from_[i][j];
        }
      }
    }

   private:
    static constexpr size_t kStep = kKeysPerTile + kLineKeys;

    BracketPass& pass_;
    std::vector<Key> keys_;
    std::array<Key, kKeysPerTile> copied_;
    std::vector<std::vector<int64_t>> from_;
  };

  KeyReader<Key>& reader_;
  int64_t first_channel_;
  Channels& all_;
  std::mutex mutex_;
};

/// Selects in a block of channels.
template <class Key>
class BlockSelection {
 public:
  BlockSelection(
      const Selection& selection,
      KeyReader<Key>& reader,
      int64_t most_channels,
      Allocator& allocate)
      : reader_(reader),
        rows_(selection.problem.num_rows()),
        capacity_(std::min<int64_t>(kGatheredBytes / int64_t{sizeof(Key)}, rows_)) {
    for (int64_t i = 0; i < most_channels; ++i) {
      quantiles_.emplace_back(selection, reader);
    }
    gathered_ = static_cast<Key*>(allocate(2 * capacity_ * static_cast<int64_t>(sizeof(Key))));
  }

  void run(int64_t first_channel, int64_t channels) {
    first_channel_ = first_channel;
    channels_ = channels;
    bool selected = false;
    if constexpr (kHasBrackets<Key>) {
      selected = select_sampled();
    }
    if (!selected) {
      count_leading_digits();
      while (!waiting_.empty()) {
        refine();
      }
    }
    for (int64_t i = 0; i < channels; ++i) {
      quantiles_[static_cast<size_t>(i)].write(first_channel + i);
    }
  }

 private:
  using Pass = histo::cpu::Pass<Key>;

  Quantiles<Key>& quantiles_of(const Prefix<Key>& prefix) {
    return quantiles_[static_cast<size_t>(prefix.channel)];
  }

  /// One pass that compares keys with those of a sample; returns false if the sample misled.
  bool select_sampled() {
    if (2 * quantiles_[0].size() > kMaxBrackets) {
      return false;
    }
    const int64_t room = capacity_ / channels_;
    const int64_t sampled = std::min(sample_size(rows_, quantiles_[0].size()), capacity_);
    KeySelector<Key> selector;
    typename BracketPass<Key>::Channels all;
    for (int64_t i = 0; i < channels_; ++i) {
      const int64_t nans = sample(first_channel_ + i, sampled);
      Brackets<Key> brackets(quantiles_[static_cast<size_t>(i)].wanted(sampled, nans), sampled);
      if (brackets.share() * static_cast<double>(rows_) > static_cast<double>(room) ||
          !selector.set(brackets, gathered_, gathered_ + capacity_, sampled)) {
        return false;
      }
      const std::vector<int64_t> from(brackets.get().size());
      all.emplace_back(new Bracketed<Key>{brackets, gathered_ + i * room, room, from});
    }
    BracketPass<Key>(reader_, first_channel_, all).run(rows_);
    for (int64_t i = 0; i < channels_; ++i) {
      const Bracketed<Key>& channel = *all[static_cast<size_t>(i)];
      Quantiles<Key>& quantiles = quantiles_[static_cast<size_t>(i)];
      const int64_t nans = reader_.has_nan() ? channel.from.back() : 0;
      std::vector<Wanted>& wanted = quantiles.wanted(rows_, nans);
      if (channel.next > room ||
          !channel.brackets.place(
              rows_, channel.from, channel.copied, channel.next, wanted, quantiles.found())) {
        return false;
      }
      Wanted* begin = wanted.data();
      selector.select(
          channel.copied, gathered_ + capacity_, channel.next, begin, begin + wanted.size(),
          quantiles.found());
    }
    return true;
  }

  /// Copies a sample of a channel; returns how many of its keys are NaN.
  int64_t sample(int64_t channel, int64_t sampled) {
    parallel_for(sampled, kMinSampledPerThread, [&](int64_t begin, int64_t end) {
      std::vector<int64_t> rows;
      for (int64_t i = begin; i < end; ++i) {
        rows.push_back(sampled_row(i, sampled, rows_));
      }
      reader_.read_rows(channel, rows.data(), end - begin, gathered_ + begin);
    });
    return reader_.has_nan() ? count_nan(gathered_, sampled) : 0;
  }

  void count_leading_digits() {
    typename Pass::Targets all;
    for (int64_t i = 0; i < channels_; ++i) {
      all.push_back(std::make_unique<Target<Key>>());
      all.back()->prefix = {i, 0, Pass::kBits, rows_, nullptr, nullptr};
    }
    Pass(reader_, rows_, first_channel_, channels_, all).run();
    for (const auto& target : all) {
      const size_t last = (size_t{1} << Pass::kDigitBits) - 1;
      const int64_t nans = reader_.has_nan() ? target->counts[last] : 0;
      std::vector<Wanted>& wanted = quantiles_of(target->prefix).wanted(rows_, nans);
      target->prefix.begin = wanted.data();
      target->prefix.end = wanted.data() + wanted.size();
      narrow(*target);
    }
  }

  /// Knowing the counts of the next digits, finds which of them the wanted keys have.
  void narrow(const Target<Key>& target) {
    const Prefix<Key>& prefix = target.prefix;
    const int shift = prefix.shift - Pass::kDigitBits;
    const auto count = [&](int64_t digit) { return target.counts[static_cast<size_t>(digit)]; };
    for (const WantedRange& range : ranges_of_digits(prefix.begin, prefix.end, count)) {
      const auto first = static_cast<Key>(prefix.first | static_cast<Key>(range.digit) << shift);
      if (shift == 0) {
        for (const Wanted* wanted = range.begin; wanted != range.end; ++wanted) {
          quantiles_of(prefix).found()[wanted->at] = first;
        }
      } else {
        waiting_.push_back({prefix.channel, first, shift, range.keys, range.begin, range.end});
      }
    }
  }

  /// One pass for as many of the prefixes as fit.
  void refine() {
    typename Pass::Targets all;
    std::vector<Prefix<Key>> later;
    int64_t room = capacity_, counted = 0;
    for (const Prefix<Key>& prefix : waiting_) {
      const bool gathers = prefix.keys <= room;
      const bool counts = prefix.keys > capacity_ && counted < kMaxCountedPrefixes;
      if (all.size() == kMaxPrefixes || !(gathers || counts)) {
        later.push_back(prefix);
        continue;
      }
      all.push_back(std::make_unique<Target<Key>>());
      all.back()->prefix = prefix;
      all.back()->gathered = gathers ? gathered_ + (capacity_ - room) : nullptr;
      room -= gathers ? prefix.keys : 0;
      counted += counts;
    }
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
      return a->prefix.first < b->prefix.first;
    });
    waiting_ = std::move(later);
    Pass(reader_, rows_, first_channel_, channels_, all).run();
    parallel_for(static_cast<int64_t>(all.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Target<Key>& target = *all[static_cast<size_t>(i)];
        if (target.gathered != nullptr) {
          KeySelector<Key> selector;
          selector.select(
              target.gathered, target.gathered + capacity_, target.prefix.keys, target.prefix.begin,
              target.prefix.end, quantiles_of(target.prefix).found());
        }
      }
    });
    for (const auto& target : all) {
      if (target->gathered == nullptr) {
        narrow(*target);
      }
    }
  }

  KeyReader<Key>& reader_;
  int64_t rows_;
  int64_t capacity_;
  Key* gathered_; // and as much spare memory after it
  std::vector<Quantiles<Key>> quantiles_;
  std::vector<Prefix<Key>> waiting_;
  int64_t first_channel_ = 0;
  int64_t channels_ = 0;
};

template <class Key>
void select_counted(const Selection& selection, KeyReader<Key>& reader, Allocator& allocate) {
  const Problem& problem = selection.problem;
  const Strips blocks(problem, channels_per_block(problem, kMaxCountedPrefixes));
  BlockSelection<Key> selects(selection, reader, blocks.size, allocate);
  for (int64_t block = 0; block < blocks.count; ++block) {
    selects.run(blocks.first(block), blocks.size_of(block));
  }
}

} // namespace

void select(const Selection& selection, Allocator& allocate) {
  visit_number_type(selection.problem.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using Key = typename SortKey<T>::Key;
    KeyReaderOf<T> reader(selection.problem);
    const int64_t copied = selection.num_q < kManyQuantiles ? kCopiedBytes : kCopiedBytesOfMany;
    if (selection.problem.num_rows() * int64_t{sizeof(T)} <= copied) {
      select_copied<Key>(selection, reader, allocate);
    } else {
      select_counted<Key>(selection, reader, allocate);
    }
  });
}

} // namespace histo::cpu
