// Quantiles. Only short channels are sorted: see select_short.h. Bytes are counted as a histogram
// counts them. For others a sample tells where the wanted keys are, and one pass finds them. Keys of
// 16 bits, many quantiles, and samples that misled need digits: the leading 16 bits of all keys are
// counted, which tells the prefix of each wanted key. Then the keys with these prefixes are copied,
// or counted by their next 16 bits if they are too many.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "core/parts.h"
#include "core/ranks.h"
#include "cpu/count/schedule.h"
#include "cpu/float_mode.h"
#include "cpu/kernels.h"
#include "cpu/select/key_reader.h"
#include "cpu/select/select_brackets.h"
#include "cpu/select/select_digits.h"
#include "cpu/select/select_keys.h"
#include "cpu/select/select_short.h"
#include "cpu/select/select_tiles.h"
#include "cpu/threads.h"
#include "cpu/tuning.h"

namespace histo::cpu {
namespace {

using namespace tuning;

/// The quantiles of a channel: the wanted ranks, and the keys that were found.
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
    const ExactFloats exact; // q may be subnormal
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
    const ExactFloats exact; // weights may be subnormal
    for (int64_t i = 0; i < selection_.num_q; ++i) {
      const Ranks& ranks = ranks_[static_cast<size_t>(i)];
      const int64_t at = i * selection_.problem.num_channels() + channel;
      const Key* keys = found_.data() + 2 * i;
      constexpr Key kNone = std::numeric_limits<Key>::max();
      reader_.write(ranks.is_nan ? &kNone : keys, 1, selection_.below, at);
      reader_.write(ranks.is_nan ? &kNone : keys + 1, 1, selection_.above, at);
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

/// How many channels are read together: those of a line of memory, if they lie closer to each other
/// than their rows do.
template <class Key>
int64_t channels_per_block(const Problem& problem, int64_t most) {
  const auto distance = [](const Extent& loop) {
    return loop.stride < 0 ? -loop.stride : loop.stride;
  };
  const bool are_neighbours = problem.channels[1].size > 1 && problem.rows[2].size > 1 &&
                              distance(problem.channels[1]) < distance(problem.rows[2]);
  return are_neighbours ? std::clamp<int64_t>(most, 1, kLineBytes / sizeof(Key)) : 1;
}

// --- Channels that are copied

template <class Key>
void select_copied(const Selection& selection, KeyReader<Key>& reader, Allocator& allocate) {
  const Problem& problem = selection.problem;
  const int64_t rows = problem.num_rows(), step = rows + kLineKeys;
  const auto key_bytes = static_cast<int64_t>(sizeof(Key));
  const Strips blocks(
      problem, channels_per_block<Key>(problem, 8 * kCopiedBytes / (step * key_bytes)));
  const int64_t workers = std::min(blocks.count, workers_of(problem));
  const int64_t keys_of_worker = (blocks.size + 1) * step;
  auto* scratch = static_cast<Key*>(allocate(workers * keys_of_worker * key_bytes));
  Tasks tasks(blocks.count, workers);
  run_workers(workers, [&](int64_t worker) {
    Key* keys = scratch + worker * keys_of_worker;
    Quantiles<Key> quantiles(selection, reader);
    KeySelector<Key> selector;
    tasks.run(worker, [&](int64_t block) {
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
        capacity_(std::min<int64_t>(kGatheredBytes / int64_t{sizeof(Key)}, rows_ * most_channels)) {
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
  using Pass = DigitPass<Key>;

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
    typename BracketPass<Key>::BracketedChannels all;
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
          !channel.brackets.locate(
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
    typename Pass::PrefixTargets all;
    for (int64_t i = 0; i < channels_; ++i) {
      all.push_back(std::make_unique<PrefixTarget<Key>>());
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
  void narrow(const PrefixTarget<Key>& target) {
    const Prefix<Key>& prefix = target.prefix;
    const int shift = prefix.shift - Pass::kDigitBits;
    for (const WantedRange& range :
         ranges_of_digits(prefix.begin, prefix.end, target.counts.data())) {
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
    typename Pass::PrefixTargets all;
    std::vector<Prefix<Key>> later;
    int64_t room = capacity_, counted = 0;
    for (const Prefix<Key>& prefix : waiting_) {
      const bool gathers = prefix.keys <= room;
      const bool counts = prefix.keys > capacity_ && counted < kMaxCountedPrefixes;
      if (all.size() == kMaxPrefixes || !(gathers || counts)) {
        later.push_back(prefix);
        continue;
      }
      all.push_back(std::make_unique<PrefixTarget<Key>>());
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
        const PrefixTarget<Key>& target = *all[static_cast<size_t>(i)];
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
  const Strips blocks(problem, channels_per_block<Key>(problem, kMaxCountedPrefixes));
  BlockSelection<Key> selects(selection, reader, blocks.size, allocate);
  for (int64_t block = 0; block < blocks.count; ++block) {
    selects.run(blocks.first(block), blocks.size_of(block));
  }
}

// --- Bytes

constexpr int64_t kByteKeys = 256;

/// The bin of a byte is its key.
template <class T>
PatternAxis axis_of_byte_keys() {
  PatternAxis axis{kByteKeys, 0, kByteKeys, {}};
  for (int64_t byte = 0; byte < kByteKeys; ++byte) {
    axis.bin_of_byte[byte] = SortKey<T>::of(bits_as<T>(static_cast<uint8_t>(byte)));
  }
  return axis;
}

/// `counts`: [channels of the part, kByteKeys]; the part's first channel is `first` of all.
void select_of_counts(
    const Selection& selection,
    const KeyReader<uint8_t>& reader,
    const Problem& part,
    int64_t first) {
  const int64_t rows = part.num_rows();
  const int64_t of_task = std::max<int64_t>(kMinCountersPerTask / kByteKeys / selection.num_q, 1);
  parallel_for(part.num_channels(), of_task, [&](int64_t i, int64_t end) {
    Quantiles<uint8_t> quantiles(selection, reader);
    for (; i < end; ++i) {
      const int64_t* counts = part.counts + i * kByteKeys;
      std::vector<Wanted>& wanted =
          quantiles.wanted(rows, reader.has_nan() ? counts[kByteKeys - 1] : 0);
      Wanted* begin = wanted.data();
      KeySelector<uint8_t>::write(
          ranges_of_digits(begin, begin + wanted.size(), counts), 0, quantiles.found());
      quantiles.write(first + i);
    }
  });
}

void select_bytes(
    const Selection& selection,
    const KeyReader<uint8_t>& reader,
    const PatternAxis& axis,
    Allocator& allocate) {
  constexpr auto kChannelBytes = static_cast<int64_t>(kByteKeys * sizeof(int64_t));
  const int64_t most = std::min(kGatheredBytes / kChannelBytes, selection.problem.num_channels());
  Problem bytes = selection.problem;
  bytes.type = ElementType::kUInt8; // the axis maps patterns to keys
  bytes.num_bins = kByteKeys;
  bytes.counts = static_cast<int64_t*>(allocate(most * kChannelBytes));
  for_each_part(bytes, 1, most, [&](const Problem& part, int64_t first) {
    count(part, axis, allocate);
    select_of_counts(selection, reader, part, first);
  });
}

} // namespace

void select(const Selection& selection, Allocator& allocate) {
  visit_number_type(selection.problem.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using Key = typename SortKey<T>::Key;
    KeyReaderOf<T> reader(selection.problem);
    const int64_t rows = selection.problem.num_rows();
    if (rows <= most_sorted_rows<Key>(selection.problem.num_channels(), selection.num_q)) {
      return select_short<Key>(selection, reader);
    }
    if constexpr (sizeof(Key) == 1) {
      return select_bytes(selection, reader, axis_of_byte_keys<T>(), allocate);
    } else {
      // Threads share copied channels, but count one after another.
      const int64_t threads = num_threads();
      const bool shares = threads > 2 && selection.problem.num_channels() >= threads;
      const int64_t copied = copied_bytes(sizeof(T), selection.num_q, shares);
      rows* int64_t{sizeof(T)} <= copied ? select_copied<Key>(selection, reader, allocate)
                                         : select_counted<Key>(selection, reader, allocate);
    }
  });
}

} // namespace histo::cpu
