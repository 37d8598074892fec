// The CPU engine. The problem is cut into tasks of channels x rows, one or more a
// thread; a task walks flat panels (two loops, no more) and counts each with the
// kernel that suits its strides. Bytes are counted in small private tables that
// stay in the first-level cache, and binned when a table is emptied.
#include <algorithm>
#include <array>
#include <cstring>

#include <torch/csrc/stable/ops.h>

#include "kernels.h"

namespace histo::cpu {
namespace {

/// `channels x rows` elements: a rectangle of the input.
template <class T>
struct Panel {
  const T* data;
  Extent channels;
  Extent rows;
};

// A table has 64 slots (a cache line of a row of bytes) of 256 16-bit counters:
// 32 KiB. Measured on one core of Zen 5 over [R, 512]: 3.0-3.6 G elements/s; with
// 128 or 16 slots, 1.2.
constexpr int64_t kSlots = 64;
constexpr int64_t kByteValues = 256;
constexpr int64_t kMaxRowsPerTable = 65535; // what a 16-bit counter holds

// Emptying a table costs about as much as counting this many rows one by one.
constexpr int64_t kMinRowsPerTable = 1024;

// How far ahead a row is fetched: on Cascade Lake, over [R, 512], 1.7 G elements/s
// with any distance from 8 to 64 rows, 0.8 without.
constexpr int64_t kRowsAhead = 16;

// Below this many elements a second thread costs more than it saves.
constexpr int64_t kMinElementsPerTask = 1 << 15;

// And below this many counters to clear or to add: 2 MiB, which one thread clears in
// the time that another takes to wake up.
constexpr int64_t kMinCountersPerTask = 1 << 18;

/// Adds `width` neighbouring bytes of every row to one slot each.
/// kWidth fixes the width at compile time, for loops that unroll.
template <int64_t kWidth>
void add_rows(
    const uint8_t* data,
    int64_t row_stride,
    int64_t num_rows,
    int64_t width,
    uint16_t (*table)[kByteValues]) {
  if constexpr (kWidth > 0) {
    width = kWidth;
  }
  for (int64_t row = 0; row < num_rows; ++row, data += row_stride) {
    // One line of every row: too far apart for the hardware to foresee.
    __builtin_prefetch(data + kRowsAhead * row_stride);
    int64_t slot = 0;
#pragma GCC unroll 8
    for (; slot + 8 <= width; slot += 8) {
      uint64_t word;
      std::memcpy(&word, data + slot, 8);
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) {
        ++table[slot + i][(word >> (8 * i)) & 255];
      }
    }
    for (; slot < width; ++slot) {
      ++table[slot][data[slot]];
    }
  }
}

/// Counts rows of `width <= 64` bytes through a table and hands every sum to
/// add(slot, byte, count).
template <class Add>
void count_columns(
    const uint8_t* data, int64_t row_stride, int64_t num_rows, int64_t width, const Add& add) {
  alignas(64) uint16_t table[kSlots][kByteValues];
  for (int64_t row = 0; row < num_rows; row += kMaxRowsPerTable) {
    const int64_t count = std::min(kMaxRowsPerTable, num_rows - row);
    const uint8_t* first = data + row * row_stride;
    std::memset(table, 0, static_cast<size_t>(width) * sizeof(table[0]));
    switch (width) {
      case 8: // one channel, and 2, 4 and 8
        add_rows<8>(first, row_stride, count, width, table);
        break;
      case 24: // RGB
        add_rows<24>(first, row_stride, count, width, table);
        break;
      case kSlots:
        add_rows<kSlots>(first, row_stride, count, width, table);
        break;
      default:
        add_rows<0>(first, row_stride, count, width, table);
    }
    for (int64_t slot = 0; slot < width; ++slot) {
      for (int64_t byte = 0; byte < kByteValues; ++byte) {
        if (table[slot][byte] != 0) {
          add(slot, byte, table[slot][byte]);
        }
      }
    }
  }
}

/// How many bytes of an interleaved stream make a row of the table: a multiple
/// of the channels, of whole 8-byte words where the table has the room.
int64_t stream_width(int64_t channels) {
  int64_t width = channels;
  while (width % 8 != 0 && width + channels <= kSlots) {
    width += channels;
  }
  return width;
}

/// Counts one panel into histograms that lie num_bins apart. kShared: other
/// threads add to the same histograms.
template <class Binning, bool kShared>
class PanelCounter {
 public:
  PanelCounter(const Problem& problem, const Binning& binning)
      : binning_(binning), num_bins_(problem.num_bins) {
    for (int64_t byte = 0; byte < kByteValues; ++byte) {
      bin_of_byte_[static_cast<size_t>(byte)] =
          bin_of_byte(problem.type, binning, static_cast<uint8_t>(byte));
    }
  }

  template <class T>
  void operator()(const Panel<T>& panel, int64_t* histograms) const {
    if constexpr (sizeof(T) == 1) {
      const Panel<uint8_t> bytes{
          reinterpret_cast<const uint8_t*>(panel.data), panel.channels, panel.rows};
      if (count_bytes(bytes, histograms)) {
        return;
      }
    }
    count_elements(panel, histograms);
  }

 private:
  void add(int64_t* histogram, int64_t bin, int64_t count) const {
    if (bin == kNoBin) {
      return;
    }
    if constexpr (kShared) {
      __atomic_fetch_add(histogram + bin, count, __ATOMIC_RELAXED);
    } else {
      histogram[bin] += count;
    }
  }

  /// False where tables would not pay.
  bool count_bytes(const Panel<uint8_t>& panel, int64_t* histograms) const {
    const auto& [data, channels, rows] = panel;
    if (channels.size < kSlots && (channels.stride == 1 || channels.size == 1) &&
        rows.stride == channels.size) {
      return count_stream(data, channels.size, rows.size, histograms);
    }
    if (rows.stride == 1) {
      if (rows.size < kMinRowsPerTable * stream_width(1)) {
        return false; // as each of the streams would
      }
      for (int64_t c = 0; c < channels.size; ++c) {
        count_stream(data + c * channels.stride, 1, rows.size, histograms + c * num_bins_);
      }
      return true;
    }
    if (channels.stride != 1 || rows.size < kMinRowsPerTable) {
      return false;
    }
    for (int64_t c = 0; c < channels.size; c += kSlots) {
      count_columns(
          data + c, rows.stride, rows.size, std::min(kSlots, channels.size - c),
          [&](int64_t slot, int64_t byte, int64_t count) {
            add(histograms + (c + slot) * num_bins_, bin_of_byte_[static_cast<size_t>(byte)],
                count);
          });
    }
    return true;
  }

  /// Rows that follow each other without a gap are one stream, and the table
  /// may take several of them at once.
  bool count_stream(
      const uint8_t* data, int64_t channels, int64_t num_rows, int64_t* histograms) const {
    const int64_t width = stream_width(channels);
    const int64_t bytes = channels * num_rows;
    const int64_t table_rows = bytes / width;
    if (table_rows < kMinRowsPerTable) {
      return false;
    }
    auto add_byte = [&](int64_t slot, int64_t byte, int64_t count) {
      add(histograms + slot % channels * num_bins_, bin_of_byte_[static_cast<size_t>(byte)], count);
    };
    count_columns(data, width, table_rows, width, add_byte);
    for (int64_t i = table_rows * width; i < bytes; ++i) {
      add_byte(i, data[i], 1);
    }
    return true;
  }

  template <class T>
  void count_elements(const Panel<T>& panel, int64_t* histograms) const {
    const auto& [data, channels, rows] = panel;
    if (channels.size > 1 && channels.stride < rows.stride) {
      for (int64_t r = 0; r < rows.size; ++r) {
        const T* row = data + r * rows.stride;
        for (int64_t c = 0; c < channels.size; ++c) {
          add(histograms + c * num_bins_, binning_(row[c * channels.stride]), 1);
        }
      }
      return;
    }
    for (int64_t c = 0; c < channels.size; ++c) {
      count_channel(data + c * channels.stride, rows, histograms + c * num_bins_);
    }
  }

  /// Four tables, so that equal neighbours do not wait for each other's sum.
  template <class T>
  void count_channel(const T* data, const Extent& rows, int64_t* histogram) const {
    constexpr int64_t kTables = 4;
    constexpr int64_t kMaxBins = 2048; // 32 KiB of tables
    int64_t row = 0;
    if (num_bins_ <= kMaxBins && rows.size >= 2 * kTables * num_bins_) {
      alignas(64) uint32_t tables[kTables][kMaxBins + 1];
      while (row + kTables <= rows.size) {
        const int64_t end =
            row + std::min<int64_t>(rows.size - row, int64_t{1} << 32) / kTables * kTables;
        std::memset(tables, 0, sizeof(tables));
        for (; row < end; row += kTables) {
#pragma GCC unroll 4
          for (int64_t i = 0; i < kTables; ++i) {
            // Bin -1, what counts nowhere, is kept in a column of its own.
            ++tables[i][binning_(data[(row + i) * rows.stride]) + 1];
          }
        }
        for (int64_t bin = 0; bin < num_bins_; ++bin) {
          int64_t sum = 0;
          for (const auto& table : tables) {
            sum += table[bin + 1];
          }
          add(histogram, bin, sum);
        }
      }
    }
    for (; row < rows.size; ++row) {
      add(histogram, binning_(data[row * rows.stride]), 1);
    }
  }

  Binning binning_;
  int64_t num_bins_;
  std::array<int64_t, kByteValues> bin_of_byte_;
};

/// Calls f(first, run) for every stretch of [begin, end) that stays within one
/// step of the outer loop: `first` is its offset in elements.
template <class F>
void for_each_run(const Extent (&loops)[2], int64_t begin, int64_t end, const F& f) {
  const auto& [outer, inner] = loops;
  for (int64_t i = begin; i < end;) {
    const int64_t within = i % inner.size;
    const int64_t size = std::min(inner.size - within, end - i);
    f(i / inner.size * outer.stride + within * inner.stride, Extent{size, inner.stride});
    i += size;
  }
}

/// How the problem is cut: `channel_parts x row_parts` tasks. Channels are cut at
/// multiples of `grain`.
struct Split {
  int64_t grain;
  int64_t channel_parts;
  int64_t row_parts;
};

Split split(const Problem& problem) {
  const int64_t channels = problem.num_channels();
  const int64_t rows = problem.num_rows();
  const int64_t threads = torch::stable::get_num_threads();
  const int64_t tasks = std::clamp<int64_t>(channels * rows / kMinElementsPerTask, 1, threads);
  // Interleaved channels share cache lines and are kept together; planar ones
  // may be cut anywhere.
  const bool interleaved = problem.channels[1].stride < problem.rows[1].stride;
  const int64_t grain = interleaved ? std::min(kSlots, problem.channels[1].size) : 1;
  const int64_t channel_parts = std::min(tasks, ceil_div(channels, grain));
  return {grain, channel_parts, std::min(ceil_div(tasks, channel_parts), rows)};
}

/// Where part `part` of `parts` begins, in multiples of grain.
int64_t cut(int64_t size, int64_t grain, int64_t part, int64_t parts) {
  const int64_t grains = ceil_div(size, grain);
  return std::min(size, (grains / parts * part + grains % parts * part / parts) * grain);
}

void add_into(const int64_t* copies, int64_t num_copies, int64_t size, int64_t* counts) {
  torch::stable::parallel_for(0, size, kMinCountersPerTask, [&](int64_t begin, int64_t end) {
    std::copy(copies + begin, copies + end, counts + begin);
    for (int64_t copy = 1; copy < num_copies; ++copy) {
      for (int64_t i = begin; i < end; ++i) {
        counts[i] += copies[copy * size + i];
      }
    }
  });
}

void fill_zero(int64_t* counts, int64_t size) {
  torch::stable::parallel_for(0, size, kMinCountersPerTask, [&](int64_t begin, int64_t end) {
    std::fill(counts + begin, counts + end, 0);
  });
}

/// Runs every task; task (c, r) counts into copy r of `copies`, which are
/// `copy_stride` counters apart (0: all into the same).
template <bool kShared, class Binning>
void run_tasks(
    const Problem& problem,
    const Binning& binning,
    const Split& parts,
    int64_t* copies,
    int64_t copy_stride) {
  const PanelCounter<Binning, kShared> count_panel(problem, binning);
  const int64_t channels = problem.num_channels();
  const int64_t rows = problem.num_rows();
  torch::stable::parallel_for(
      0, parts.channel_parts * parts.row_parts, 1, [&](int64_t begin, int64_t end) {
        for (int64_t task = begin; task < end; ++task) {
          const int64_t c = task % parts.channel_parts;
          const int64_t r = task / parts.channel_parts;
          const int64_t first_channel = cut(channels, parts.grain, c, parts.channel_parts);
          const int64_t last_channel = cut(channels, parts.grain, c + 1, parts.channel_parts);
          const int64_t first_row = cut(rows, 1, r, parts.row_parts);
          const int64_t last_row = cut(rows, 1, r + 1, parts.row_parts);
          visit_binned_type(problem.type, binning, [&](auto tag) {
            const auto* data = static_cast<const typename decltype(tag)::type*>(problem.data);
            int64_t* histograms = copies + r * copy_stride + first_channel * problem.num_bins;
            for_each_run(
                problem.channels, first_channel, last_channel,
                [&](int64_t channel_offset, const Extent& channel_run) {
                  for_each_run(
                      problem.rows, first_row, last_row,
                      [&](int64_t row_offset, const Extent& row_run) {
                        count_panel(
                            Panel<typename decltype(tag)::type>{
                                data + channel_offset + row_offset, channel_run, row_run},
                            histograms);
                      });
                  histograms += channel_run.size * problem.num_bins;
                });
          });
        }
      });
}

} // namespace

template <class Binning>
void count(const Problem& problem, const Binning& binning, const Allocator& allocate) {
  const int64_t size = problem.num_counts();
  if (size == 0) {
    return;
  }
  const int64_t elements = problem.num_channels() * problem.num_rows();
  if (elements == 0) {
    fill_zero(problem.counts, size);
    return;
  }
  const Split parts = split(problem);
  if (parts.row_parts == 1) {
    fill_zero(problem.counts, size);
    run_tasks<false>(problem, binning, parts, problem.counts, 0);
  } else if (parts.row_parts * size <= elements) {
    auto* copies = static_cast<int64_t*>(
        allocate(parts.row_parts * size * static_cast<int64_t>(sizeof(int64_t))));
    fill_zero(copies, parts.row_parts * size);
    run_tasks<false>(problem, binning, parts, copies, size);
    add_into(copies, parts.row_parts, size, problem.counts);
  } else {
    // More counters than elements: a private copy a thread would cost more than
    // atomic additions, which seldom meet.
    fill_zero(problem.counts, size);
    run_tasks<true>(problem, binning, parts, problem.counts, 0);
  }
}

template void count(const Problem&, const ValueBinning&, const Allocator&);
template void count(const Problem&, const LetterBinning&, const Allocator&);

} // namespace histo::cpu
