// Finite extremes, and evenly spaced edges.
#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <vector>

#include "core/uniform_edges.h"
#include "cpu/count/panel.h"
#include "cpu/float_mode.h"
#include "cpu/kernels.h"
#include "cpu/plan.h"
#include "cpu/threads.h"

namespace histo::cpu {
namespace {

/// The extremes of some channels, in the type that is compared. Without a finite value low is above
/// high.
template <class T>
class ChannelExtremes {
 public:
  using Wide = typename Number<T>::Wide;

  explicit ChannelExtremes(int64_t channels)
      : low_(static_cast<size_t>(channels), kMax), high_(static_cast<size_t>(channels), kMin) {
  }
  /// Adds a panel whose first channel is `first`.
  void add(const InputPanel<T>& panel, int64_t first) {
    Wide* low = low_.data() + first;
    Wide* high = high_.data() + first;
    const auto& [data, channels, rows] = panel;
    if (channels.size > 1 && channels.stride < rows.stride) {
      for (int64_t row = 0; row < rows.size; ++row) {
        for (int64_t c = 0; c < channels.size; ++c) {
          add(data[row * rows.stride + c * channels.stride], low[c], high[c]);
        }
      }
      return;
    }
    for (int64_t c = 0; c < channels.size; ++c) {
      Wide least = low[c], most = high[c];
      for (int64_t row = 0; row < rows.size; ++row) {
        add(data[row * rows.stride + c * channels.stride], least, most);
      }
      low[c] = least;
      high[c] = most;
    }
  }
  void add(const ChannelExtremes& other) {
    for (size_t c = 0; c < low_.size(); ++c) {
      low_[c] = std::min(low_[c], other.low_[c]);
      high_[c] = std::max(high_[c], other.high_[c]);
    }
  }
  template <class To>
  void put(To* low, To* high) const {
    for (size_t c = 0; c < low_.size(); ++c) {
      const bool any = low_[c] <= high_[c];
      low[c] = any ? rounded_down<To>(low_[c]) : std::numeric_limits<To>::infinity();
      high[c] = any ? rounded_up<To>(high_[c]) : -std::numeric_limits<To>::infinity();
    }
  }

 private:
  static constexpr Wide kMax = std::numeric_limits<Wide>::max();
  static constexpr Wide kMin = std::numeric_limits<Wide>::lowest();

  static void add(T element, Wide& low, Wide& high) {
    const Wide wide = Number<T>::wide(element);
    const bool finite = wide >= kMin && wide <= kMax; // all integers are
    low = finite && wide < low ? wide : low;
    high = finite && wide > high ? wide : high;
  }

  std::vector<Wide> low_, high_;
};

} // namespace

template <class T>
void finite_range(const Problem& input, T* low, T* high) {
  visit_number_type(input.type, [&](auto tag) {
    using Element = typename decltype(tag)::type;
    const int64_t channels = input.num_channels(), rows = input.num_rows();
    const int64_t workers = workers_of(input);
    // Threads have rows, or channels where these are the more.
    const bool by_rows = rows >= channels;
    std::mutex mutex;
    ChannelExtremes<Element> all(channels);
    run_workers(workers, [&](int64_t worker) {
      const ExactFloats exact;
      const int64_t first = by_rows ? 0 : cut(channels, worker, workers);
      const int64_t end = by_rows ? channels : cut(channels, worker + 1, workers);
      const int64_t begin_row = by_rows ? cut(rows, worker, workers) : 0;
      const int64_t end_row = by_rows ? cut(rows, worker + 1, workers) : rows;
      ChannelExtremes<Element> own(channels);
      const auto* data = static_cast<const Element*>(input.data);
      int64_t channel = first;
      for_each_run(input.channels, first, end, [&](int64_t offset, const Extent& run) {
        for_each_run(input.rows, begin_row, end_row, [&](int64_t row, const Extent& size) {
          own.add(InputPanel<Element>{data + offset + row, run, size}, channel);
        });
        channel += run.size;
      });
      const std::lock_guard<std::mutex> lock(mutex);
      all.add(own);
    });
    all.put(low, high);
  });
}
template void finite_range(const Problem&, float*, float*);
template void finite_range(const Problem&, double*, double*);

template <class T, class Edge>
void uniform_edges(const T* low, const T* high, int64_t rows, int64_t bins, Edge* edges) {
  const int64_t size = bins + 1;
  parallel_for(rows * size, 1 << 15, [&](int64_t begin, int64_t end) {
    const ExactFloats exact;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / size;
      edges[i] = static_cast<Edge>(uniform_edge(low[row], high[row], bins, i % size));
    }
  });
}
template void uniform_edges(const float*, const float*, int64_t, int64_t, float*);
template void uniform_edges(const float*, const float*, int64_t, int64_t, double*);
template void uniform_edges(const double*, const double*, int64_t, int64_t, float*);
template void uniform_edges(const double*, const double*, int64_t, int64_t, double*);

} // namespace histo::cpu
