// Counts, extremes and exact moments of each channel, from one read.
#include <algorithm>
#include <cstdint>
#include <mutex>
#include <vector>

#include "cpu/count/panel.h"
#include "cpu/float_mode.h"
#include "cpu/kernels.h"
#include "cpu/plan.h"
#include "cpu/summary/blocks.h"
#include "cpu/threads.h"

namespace histo::cpu {
namespace {

/// Channels that lie side by side are read together: those of a line of memory.
template <class T>
constexpr int64_t kStrip = tuning::kLineBytes / static_cast<int64_t>(sizeof(T));

/// A part of a panel, channel after channel.
template <class T>
class Tile {
 public:
  static constexpr int64_t kRows = 256; // of several channels

  /// Calls f(values, rows, channel) with all rows of up to kStrip channels, block by block.
  template <class F>
  void for_each_block(const InputPanel<T>& panel, const F& f) {
    const int64_t most = panel.channels.size == 1 ? kBlock : kRows;
    for (int64_t row = 0; row < panel.rows.size; row += most) {
      const int64_t rows = std::min(most, panel.rows.size - row);
      copy(panel.from(row).first(rows));
      for (int64_t c = 0; c < panel.channels.size; ++c) {
        f(values_ + c * kStep, static_cast<int>(rows), c);
      }
    }
  }

 private:
  // Lines of several channels are not a multiple of 4096 bytes apart.
  static constexpr int64_t kStep = kRows + kStrip<T>;
  static constexpr int64_t kAhead = 16; // rows that are fetched ahead

  void copy(const InputPanel<T>& panel) {
    const auto& [data, channels, rows] = panel;
    if (channels.size == 1) {
      if (rows.stride == 1) {
        std::copy(data, data + rows.size, values_);
      } else {
        for (int64_t row = 0; row < rows.size; ++row) {
          values_[row] = data[row * rows.stride];
        }
      }
      return;
    }
    for (int64_t row = 0; row < rows.size; ++row) {
      const T* from = data + row * rows.stride;
      __builtin_prefetch(from + kAhead * rows.stride);
      for (int64_t c = 0; c < channels.size; ++c) {
        values_[c * kStep + row] = from[c * channels.stride];
      }
    }
  }

  T values_[std::max<int64_t>(kBlock, kStrip<T>* kStep)];
};

/// Reads rows [begin, end) of channels [first, last), a strip at a time. Calls put(channel, offset)
/// for the channels of each strip when it was read: `offset` counts from `first`.
template <class T>
class Reader {
 public:
  explicit Reader(const Problem& input)
      : input_(input), strip_(static_cast<size_t>(is_interleaved() ? kStrip<T> : 1)) {
  }

  template <class Put>
  void read(int64_t first, int64_t last, int64_t begin, int64_t end, const Put& put) {
    int64_t channel = first;
    for_each_run(input_.channels, first, last, [&](int64_t offset, const Extent& run) {
      for (int64_t c = 0; c < run.size; c += strip()) {
        const Extent strip_of_run{std::min(strip(), run.size - c), run.stride};
        read_strip(offset + c * run.stride, strip_of_run, begin, end);
        for (int64_t i = 0; i < strip_of_run.size; ++i) {
          Channel<T>& own = strip_[static_cast<size_t>(i)];
          own.make_canonical();
          put(channel + c + i, own);
        }
      }
      channel += run.size;
    });
  }

 private:
  bool is_interleaved() const {
    return are_side_by_side(input_.channels[1], input_.rows[2]);
  }
  int64_t strip() const {
    return static_cast<int64_t>(strip_.size());
  }
  void read_strip(int64_t offset, const Extent& channels, int64_t begin, int64_t end) {
    for (Channel<T>& channel : strip_) {
      channel.clear();
    }
    const T* data = static_cast<const T*>(input_.data) + offset;
    for_each_run(input_.rows, begin, end, [&](int64_t row, const Extent& rows) {
      tile_.for_each_block(
          InputPanel<T>{data + row, channels, rows}, [&](const T* values, int size, int64_t c) {
            add_block(values, size, strip_[static_cast<size_t>(c)]);
          });
    });
  }

  const Problem& input_;
  std::vector<Channel<T>> strip_;
  Tile<T> tile_;
};

/// Each thread has channels of its own.
template <class T>
void summarize_by_channels(const Problem& input, int64_t workers, const Summary& summary) {
  const int64_t channels = input.num_channels(), rows = input.num_rows();
  run_workers(workers, [&](int64_t worker) {
    const ExactFloats exact;
    Reader<T> reader(input);
    const int64_t first = cut(channels, worker, workers);
    const int64_t last = cut(channels, worker + 1, workers);
    reader.read(first, last, 0, rows, [&](int64_t channel, const Channel<T>& found) {
      found.put(rows, channel, channels, summary);
    });
  });
}

/// Each thread has rows of all channels.
template <class T>
void summarize_by_rows(const Problem& input, int64_t workers, const Summary& summary) {
  const int64_t channels = input.num_channels(), rows = input.num_rows();
  std::vector<Channel<T>> all(static_cast<size_t>(channels));
  for (Channel<T>& channel : all) {
    channel.clear();
  }
  std::mutex mutex;
  run_workers(workers, [&](int64_t worker) {
    const ExactFloats exact;
    Reader<T> reader(input);
    const int64_t begin = cut(rows, worker, workers), end = cut(rows, worker + 1, workers);
    reader.read(0, channels, begin, end, [&](int64_t channel, const Channel<T>& found) {
      const std::lock_guard<std::mutex> lock(mutex);
      all[static_cast<size_t>(channel)].add(found);
    });
  });
  const ExactFloats exact;
  for (int64_t channel = 0; channel < channels; ++channel) {
    all[static_cast<size_t>(channel)].put(rows, channel, channels, summary);
  }
}

} // namespace

void summarize(const Problem& input, const Summary& summary) {
  visit_number_type(input.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const int64_t workers = workers_of(input);
    // So few channels a thread are not worth a strip each.
    const bool by_rows = workers > 1 && input.num_channels() < workers * kStrip<T>;
    by_rows ? summarize_by_rows<T>(input, workers, summary)
            : summarize_by_channels<T>(input, workers, summary);
  });
}

} // namespace histo::cpu
