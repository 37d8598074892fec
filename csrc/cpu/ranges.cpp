// Finite extremes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <type_traits>
#include <vector>

#include "core/edges.h"
#include "cpu/count/panel.h"
#include "cpu/float_mode.h"
#include "cpu/kernels.h"
#include "cpu/plan.h"
#include "cpu/run_widest.h"
#include "cpu/threads.h"

namespace histo::cpu {
namespace {

/// The number of a value in the order of its type: its bits, and the order of negative floats is
/// turned around. -0 is before +0.
template <class T>
struct Order {
  static constexpr bool kIsFloat = Number<T>::kIsFloat;
  static constexpr bool kIsSigned = kIsFloat || std::is_signed_v<T>;
  using Unsigned = typename UnsignedOf<sizeof(T)>::type;
  using Integer = std::conditional_t<kIsSigned, std::make_signed_t<Unsigned>, Unsigned>;

  /// The numbers of finite values are between these two.
  static constexpr Integer least() {
    return kIsFloat ? static_cast<Integer>(-most() - 1) : std::numeric_limits<Integer>::min();
  }
  static constexpr Integer most() {
    if constexpr (std::is_floating_point_v<T>) {
      return static_cast<Integer>(Number<T>::kLast - 1);
    } else if constexpr (kIsFloat) {
      return static_cast<Integer>(SmallFloat<T>::kInfinity - 1);
    } else {
      return std::numeric_limits<Integer>::max();
    }
  }
  [[gnu::always_inline]] static Integer number(T value) {
    if constexpr (std::is_same_v<T, Boolean>) {
      return value.byte != 0;
    } else {
      return turned(bits_as<Integer>(value));
    }
  }
  static typename Number<T>::Wide wide(Integer number) {
    if constexpr (std::is_same_v<T, Boolean>) {
      return number;
    } else {
      return Number<T>::wide(bits_as<T>(turned(number)));
    }
  }

 private:
  [[gnu::always_inline]] static Integer turned(Integer bits) {
    if constexpr (kIsFloat) {
      constexpr Integer kMagnitude = std::numeric_limits<Integer>::max();
      return static_cast<Integer>(bits ^ ((bits >> (8 * sizeof(T) - 1)) & kMagnitude));
    } else {
      return bits;
    }
  }
};

/// The extremes of one channel, as distances of their numbers from those of the finite values of
/// the type. Values that are not finite are farther than all others, since distances wrap. So two
/// minima are all that there is to compute, in vectors of the type's own width.
template <class T>
struct Extremes {
  using Distance = typename Order<T>::Unsigned;
  static constexpr Distance kNone = std::numeric_limits<Distance>::max();

  Distance low = kNone;  // from the least
  Distance high = kNone; // from the most

  [[gnu::always_inline]] static Distance from_least(T value) {
    return static_cast<Distance>(
        static_cast<Distance>(Order<T>::number(value)) - static_cast<Distance>(Order<T>::least()));
  }
  [[gnu::always_inline]] static Distance from_most(T value) {
    return static_cast<Distance>(
        static_cast<Distance>(Order<T>::most()) - static_cast<Distance>(Order<T>::number(value)));
  }
  void add(const Extremes& other) {
    low = std::min(low, other.low);
    high = std::min(high, other.high);
  }
  /// Rounded outwards; infinity and -infinity if no value was finite.
  template <class To>
  void put(To& to_low, To& to_high) const {
    using Integer = typename Order<T>::Integer;
    constexpr auto kLeast = static_cast<Distance>(Order<T>::least());
    constexpr auto kMost = static_cast<Distance>(Order<T>::most());
    constexpr auto kSpan = static_cast<Distance>(kMost - kLeast);
    const auto first = static_cast<Integer>(static_cast<Distance>(kLeast + low));
    const auto last = static_cast<Integer>(static_cast<Distance>(kMost - high));
    const bool any = low <= kSpan && first <= last;
    constexpr To kInfinity = std::numeric_limits<To>::infinity();
    to_low = any ? rounded_down<To>(Order<T>::wide(first)) : kInfinity;
    to_high = any ? rounded_up<To>(Order<T>::wide(last)) : -kInfinity;
  }
};

/// The extremes of every kStride'th value. 0: the stride is `any_stride`.
template <int64_t kStride, class T>
Extremes<T> extremes_of_every(const T* data, int64_t size, int64_t any_stride) {
  using E = Extremes<T>;
  const int64_t stride = kStride > 0 ? kStride : any_stride;
  E found;
  run_widest([=, &found]() __attribute__((always_inline)) {
    typename E::Distance low = E::kNone, high = E::kNone;
    for (int64_t i = 0; i < size; ++i) {
      low = std::min(low, E::from_least(data[i * stride]));
      high = std::min(high, E::from_most(data[i * stride]));
    }
    found = {low, high};
  });
  return found;
}

template <class T>
Extremes<T> extremes_of(const T* data, int64_t size, int64_t stride) {
  // Loops of a constant stride become vectors: coordinates that lie side by side.
  switch (stride) {
    case 1:
      return extremes_of_every<1>(data, size, stride);
    case 2:
      return extremes_of_every<2>(data, size, stride);
    case 3:
      return extremes_of_every<3>(data, size, stride);
    case 4:
      return extremes_of_every<4>(data, size, stride);
    default:
      return extremes_of_every<0>(data, size, stride);
  }
}

/// Adds rows of elements that lie side by side, an element of each to a distance of its own.
template <class T>
void add_rows(
    const T* data,
    int64_t size,
    const Extent& rows,
    typename Extremes<T>::Distance* low,
    typename Extremes<T>::Distance* high) {
  run_widest([=]() __attribute__((always_inline)) {
    using E = Extremes<T>;
    // Variables of this function stay in registers: stores to distances may change others.
    const Extent all = rows;
    const int64_t elements = size;
    const T* from = data;
    typename E::Distance* const __restrict lows = low;
    typename E::Distance* const __restrict highs = high;
    for (int64_t row = 0; row < all.size; ++row, from += all.stride) {
      const T* const __restrict own = from;
      for (int64_t c = 0; c < elements; ++c) {
        lows[c] = std::min(lows[c], E::from_least(own[c]));
        highs[c] = std::min(highs[c], E::from_most(own[c]));
      }
    }
  });
}

/// The extremes of some channels.
template <class T>
class ChannelExtremes {
 public:
  using E = Extremes<T>;

  explicit ChannelExtremes(int64_t channels)
      : low_(static_cast<size_t>(channels), E::kNone), high_(low_) {
  }
  /// Adds a panel whose first channel is `first`.
  void add(const InputPanel<T>& panel, int64_t first) {
    const auto& [data, channels, rows] = panel;
    const bool is_dense = channels.stride == 1 && rows.stride == channels.size;
    const bool are_rows = rows.size > 1 && std::abs(rows.stride) < std::abs(channels.stride);
    if (channels.size == 1 || are_rows) {
      for (int64_t c = 0; c < channels.size; ++c) {
        add(extremes_of(data + c * channels.stride, rows.size, rows.stride), first + c);
      }
    } else if (is_dense && channels.size < kTogether) {
      add_dense_rows(data, channels.size, rows.size, first);
    } else if (channels.stride != 1 || (channels.size < kMinRow && rows.size >= kTogether)) {
      add_copied(panel, first);
    } else {
      add_rows(data, channels.size, rows, low_.data() + first, high_.data() + first);
    }
  }
  void add(const ChannelExtremes& other) {
    for (int64_t c = 0; c < static_cast<int64_t>(low_.size()); ++c) {
      add(other.at(c), c);
    }
  }
  template <class To>
  void put(To* low, To* high) const {
    for (int64_t c = 0; c < static_cast<int64_t>(low_.size()); ++c) {
      at(c).put(low[c], high[c]);
    }
  }

 private:
  /// Elements that are compared together: loops over fewer take longer.
  static constexpr int64_t kTogether = 128;
  static constexpr int64_t kMinRow =
      32 / static_cast<int64_t>(sizeof(T)); // shorter ones are copied

  /// Rows of few channels without gaps: several are one.
  void add_dense_rows(const T* data, int64_t channels, int64_t rows, int64_t first) {
    const int64_t repeated = kTogether / channels, size = repeated * channels;
    typename E::Distance low[kTogether], high[kTogether];
    std::fill_n(low, size, E::kNone);
    std::fill_n(high, size, E::kNone);
    const int64_t wholes = rows / repeated;
    add_rows(data, size, {wholes, size}, low, high);
    add_rows(data + wholes * size, rows % repeated * channels, {1, 0}, low, high);
    for (int64_t i = 0; i < size; ++i) {
      add(E{low[i], high[i]}, first + i % channels);
    }
  }
  /// Rows with gaps: several short ones, or parts of long ones, are copied side by side.
  void add_copied(const InputPanel<T>& panel, int64_t first) {
    const auto& [data, channels, rows] = panel;
    for (int64_t c = 0; c < channels.size; c += kTogether) {
      const int64_t part = std::min(kTogether, channels.size - c);
      const int64_t repeated = std::min(kTogether / part, rows.size), together = repeated * part;
      typename E::Distance low[kTogether], high[kTogether];
      std::fill_n(low, together, E::kNone);
      std::fill_n(high, together, E::kNone);
      for (int64_t row = 0; row < rows.size; row += repeated) {
        T copied[kTogether];
        const int64_t size = std::min(repeated, rows.size - row) * part;
        copy(
            panel.from(row).data + c * channels.stride, {part, channels.stride}, rows.stride,
            copied, copied + size);
        add_rows(copied, size, {1, 0}, low, high);
      }
      for (int64_t i = 0; i < together; ++i) {
        add(E{low[i], high[i]}, first + c + i % part);
      }
    }
  }
  static void copy(const T* from, const Extent& channels, int64_t row_stride, T* to, const T* end) {
    const auto [size, stride] = channels; // not in memory: elements may be bytes
    for (; to != end; to += size, from += row_stride) {
      if (stride == 1) {
        std::copy_n(from, size, to);
      } else {
        for (int64_t i = 0; i < size; ++i) {
          to[i] = from[i * stride];
        }
      }
    }
  }
  E at(int64_t channel) const {
    const auto c = static_cast<size_t>(channel);
    return {low_[c], high_[c]};
  }
  void add(const E& extremes, int64_t channel) {
    const auto c = static_cast<size_t>(channel);
    low_[c] = std::min(low_[c], extremes.low);
    high_[c] = std::min(high_[c], extremes.high);
  }

  std::vector<typename E::Distance> low_, high_;
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
    const auto add_part = [&](int64_t worker, ChannelExtremes<Element>& to) {
      const int64_t first = by_rows ? 0 : cut(channels, worker, workers);
      const int64_t end = by_rows ? channels : cut(channels, worker + 1, workers);
      const int64_t begin_row = by_rows ? cut(rows, worker, workers) : 0;
      const int64_t end_row = by_rows ? cut(rows, worker + 1, workers) : rows;
      const auto* data = static_cast<const Element*>(input.data);
      int64_t channel = first;
      for_each_run(input.channels, first, end, [&](int64_t offset, const Extent& run) {
        for_each_run(input.rows, begin_row, end_row, [&](int64_t row, const Extent& size) {
          to.add(InputPanel<Element>{data + offset + row, run, size}, channel);
        });
        channel += run.size;
      });
    };
    if (workers == 1) {
      add_part(0, all);
    } else {
      run_workers(workers, [&](int64_t worker) {
        ChannelExtremes<Element> own(channels);
        add_part(worker, own);
        const std::lock_guard<std::mutex> lock(mutex);
        all.add(own);
      });
    }
    const ExactFloats exact;
    all.put(low, high);
  });
}
template void finite_range(const Problem&, float*, float*);
template void finite_range(const Problem&, double*, double*);

} // namespace histo::cpu
