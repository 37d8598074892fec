// Counts in the bins of a sketch, and extremes, of one read. Both are added where they are kept.
#include <algorithm>
#include <cstring>
#include <mutex>

#include "core/sketch_elements.h"
#include "cpu/count/panel.h"
#include "cpu/float_mode.h"
#include "cpu/kernels.h"
#include "cpu/plan.h"
#include "cpu/run_widest.h"
#include "cpu/threads.h"
#include "cpu/tuning.h"

namespace histo::cpu {
namespace {

using namespace tuning;

/// Adds one to each count of some indices. A run of one index would wait for each addition before
/// the next one, so eight of one index are added at once.
void add_ones(const int32_t* indices, int64_t size, int64_t* counts) {
  constexpr int64_t kTurn = 8;
  const int64_t whole = size / kTurn * kTurn;
  for (int64_t i = 0; i < whole; i += kTurn) {
    uint64_t pairs[kTurn / 2];
    std::memcpy(pairs, indices + i, sizeof pairs);
    const uint64_t differing = (pairs[0] ^ pairs[1]) | (pairs[0] ^ pairs[2]) |
                               (pairs[0] ^ pairs[3]) |
                               (pairs[0] ^ (pairs[0] << 32 | pairs[0] >> 32));
    if (differing == 0) {
      counts[indices[i]] += kTurn;
      continue;
    }
#pragma GCC unroll 4
    for (const uint64_t pair : pairs) {
      ++counts[static_cast<uint32_t>(pair)];
      ++counts[pair >> 32];
    }
  }
  for (int64_t i = whole; i < size; ++i) {
    ++counts[indices[i]];
  }
}

/// Adds the elements of one thread.
template <class T, class Bits>
class SketchAdder {
 public:
  SketchAdder(const SketchBins& bins, const SketchState& to)
      : index_(bins), num_counts_(bins.num_counts()), to_(to) {
  }

  /// Takes rows of one channel. They are counted later: `add_taken` ends a channel.
  void take(const T* data, const Extent& rows, int64_t channel) {
    for (int64_t row = 0; row < rows.size;) {
      const int64_t size = std::min(kSketchElements - taken_, rows.size - row);
      copy(data + row * rows.stride, {size, rows.stride}, values_ + taken_);
      row += size;
      taken_ += size;
      if (taken_ == kSketchElements) {
        add_taken(channel);
      }
    }
  }
  void add_taken(int64_t channel) {
    add_values(values_, taken_, channel);
    taken_ = 0;
  }

  /// Adds channels that lie side by side, the first of which is `first`.
  void add_strip(const InputPanel<T>& panel, int64_t first) {
    for (int64_t row = 0; row < panel.rows.size; row += kSketchRows) {
      const int64_t size = std::min(kSketchRows, panel.rows.size - row);
      transpose(panel.from(row).first(size));
      for (int64_t c = 0; c < panel.channels.size; ++c) {
        add_values(values_ + c * kPitch, size, first + c);
      }
    }
  }

 private:
  using Elements = SketchElements<T, Bits>;
  using Order = typename Elements::Order;

  static constexpr int64_t kTurn = 32; // values that are looked at together
  /// From one channel's rows to the next: not a power of two apart.
  static constexpr int64_t kPitch = kSketchRows + kTurn;

  // Another thread may write elements while they are counted: each one is read once, here.
  static void copy(const T* data, const Extent& rows, T* to) {
    if (rows.stride == 1) {
      std::memcpy(to, data, static_cast<size_t>(rows.size) * sizeof(T));
    } else {
      for (int64_t row = 0; row < rows.size; ++row) {
        to[row] = data[row * rows.stride];
      }
    }
    __asm__ volatile("" ::: "memory");
  }
  void transpose(const InputPanel<T>& panel) {
    const auto& [data, channels, rows] = panel;
    Ahead ahead = rows_after(panel, kSketchRowsAhead, data);
    for (int64_t row = 0; row < rows.size; ++row) {
      const T* from = data + row * rows.stride;
      ahead.fetch();
      for (int64_t c = 0; c < channels.size; ++c) {
        values_[c * kPitch + row] = from[c * channels.stride];
      }
    }
    __asm__ volatile("" ::: "memory");
  }

  void add_values(T* values, int64_t size, int64_t channel) {
    if (size == 0) {
      return;
    }
    const int64_t whole = ceil_div(size, kTurn) * kTurn;
    std::fill(values + size, values + whole, values[size - 1]); // which changes no extreme
    Order low = Elements::kMost, high = Elements::kLeast;
    find(values, whole, low, high);
    add_ones(indices_, size, to_.counts + channel * num_counts_);
    if (low <= high) {
      int64_t &least = to_.min_key[channel], &most = to_.max_key[channel];
      least = std::min(least, Elements::low_key(low));
      most = std::max(most, Elements::high_key(high));
    }
  }
  /// The indices of values, and the finite extremes.
  void find(const T* values, int64_t size, Order& low, Order& high) {
    run_widest([&, indices = indices_, index = index_]() __attribute__((always_inline)) {
      Order least = low, most = high;
      for (int64_t i = 0; i < size; ++i) {
        const Bits bits = Elements::bits(values[i]);
        const Order order = Elements::order(values[i], bits);
        indices[i] = index(bits);
        const bool is_finite = Elements::is_finite(bits);
        least = std::min(least, chosen(is_finite, order, Elements::kMost));
        most = std::max(most, chosen(is_finite, order, Elements::kLeast));
      }
      low = least;
      high = most;
    });
  }

  SketchIndex<Bits> index_;
  int64_t num_counts_;
  SketchState to_;
  int64_t taken_ = 0;
  alignas(kLineBytes) int32_t indices_[std::max(kSketchElements, kSketchRows)];
  alignas(kLineBytes) T values_[kSketchChannels * kPitch];
};

/// A part of the input.
struct SketchPart {
  int64_t first_channel, end_channel;
  int64_t first_row, end_row;
};

template <class T, class Bits>
void add_part(
    const Problem& input, const SketchBins& bins, const SketchPart& part, const SketchState& to) {
  const ExactFloats exact;
  SketchAdder<T, Bits> adder(bins, to);
  const bool side_by_side = input.channels[1].stride < input.rows[2].stride;
  const int64_t strip = side_by_side ? kSketchChannels : 1;
  int64_t first = part.first_channel; // of the run
  for_each_run(
      input.channels, part.first_channel, part.end_channel, [&](int64_t offset, const Extent& run) {
        for (int64_t c = 0; c < run.size; c += strip) {
          const Extent channels{std::min(strip, run.size - c), run.stride};
          const T* data = static_cast<const T*>(input.data) + offset + c * run.stride;
          for_each_run(
              input.rows, part.first_row, part.end_row, [&](int64_t row, const Extent& rows) {
                channels.size == 1 ? adder.take(data + row, rows, first + c)
                                   : adder.add_strip({data + row, channels, rows}, first + c);
              });
          adder.add_taken(first + c);
        }
        first += run.size;
      });
}

void add_state(const SketchState& from, const SketchState& to, int64_t channels, int64_t counts) {
  for (int64_t i = 0; i < channels * counts; ++i) {
    to.counts[i] += from.counts[i];
  }
  for (int64_t c = 0; c < channels; ++c) {
    to.min_key[c] = std::min(to.min_key[c], from.min_key[c]);
    to.max_key[c] = std::max(to.max_key[c], from.max_key[c]);
  }
}

/// Threads have channels of their own, or rows and counts of their own.
template <class T, class Bits>
void add(const Problem& input, const SketchBins& bins, const SketchState& to, Allocator& allocate) {
  const int64_t channels = input.num_channels(), rows = input.num_rows();
  const int64_t counts = bins.num_counts(), size = channels * (counts + 2);
  const int64_t by_channels = std::min(workers_of(input), channels);
  // Clearing and adding counts shall take less time than counting.
  const int64_t by_rows = std::min(workers_of(input), rows / (2 * counts));
  if (by_rows <= by_channels) {
    return run_workers(by_channels, [&](int64_t worker) {
      const int64_t first = cut(channels, worker, by_channels);
      const int64_t end = cut(channels, worker + 1, by_channels);
      add_part<T, Bits>(input, bins, {first, end, 0, rows}, to);
    });
  }
  auto* memory =
      static_cast<int64_t*>(allocate(by_rows * size * static_cast<int64_t>(sizeof(int64_t))));
  std::mutex mutex;
  run_workers(by_rows, [&](int64_t worker) {
    int64_t* own = memory + worker * size;
    const SketchState state{own, own + channels * counts, own + channels * (counts + 1)};
    std::fill_n(state.counts, channels * counts, 0);
    std::fill_n(state.min_key, channels, FloatKey::kInfinity);
    std::fill_n(state.max_key, channels, FloatKey::kMinusInfinity);
    const int64_t first = cut(rows, worker, by_rows), end = cut(rows, worker + 1, by_rows);
    add_part<T, Bits>(input, bins, {0, channels, first, end}, state);
    const std::lock_guard<std::mutex> lock(mutex);
    add_state(state, to, channels, counts);
  });
}

} // namespace

void add_to_sketch(
    const Problem& input, const SketchBins& bins, const SketchState& to, Allocator& allocate) {
  if (input.num_channels() * input.num_rows() == 0) {
    return;
  }
  visit_sketch_type(input.type, bins, [&](auto tag, auto bits) {
    add<typename decltype(tag)::type, typename decltype(bits)::type>(input, bins, to, allocate);
  });
}

} // namespace histo::cpu
