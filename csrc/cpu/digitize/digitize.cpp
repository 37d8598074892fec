#include "cpu/digitize/digitize.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "cpu/digitize/channel_bins.h"
#include "cpu/digitize/search.h"
#include "cpu/float_mode.h"
#include "cpu/run_widest.h"
#include "cpu/tuning.h"

namespace histo::cpu {
namespace {

using tuning::kSearched;

/// The slots of a call. Without flow bin 0 has the slot 0. Values outside all bins have a slot that
/// no bin has; that of underflow is the largest number of its type.
struct SlotFormat {
  int64_t bins;
  bool flow;

  /// 256 bins leave no byte for values outside them. These get the slot 0, and are counted
  /// separately.
  bool outside_is_counted() const {
    return !flow && bins == 256;
  }
  /// A slot that counts nowhere.
  int32_t none() const {
    return flow ? static_cast<int32_t>(bins + 3) : -1;
  }
  SlotRule rule() const {
    return flow ? SlotRule{0, static_cast<int32_t>(bins + 2)} : SlotRule{-1, -1};
  }
  ElementType type() const {
    // One slot counts nowhere.
    const int64_t needed = bins + (flow ? 4 : outside_is_counted() ? 0 : 1);
    return needed <= 256     ? ElementType::kUInt8
           : needed <= 65536 ? ElementType::kUInt16
                             : ElementType::kUInt32;
  }
};

/// Elements in the order in which their slots are stored.
template <class T>
struct OrderedElements {
  using Compared = ComparedAs<T>;

  const T* data;
  Extent outer;
  Extent inner;

  int64_t size() const {
    return outer.size * inner.size;
  }
  /// Calls f(values, size, slots) for the elements [first, first + size): once, if they lie in
  /// memory as searches take them; otherwise for converted parts, one after another.
  template <class Out, class F>
  void visit(int64_t first, int64_t size, Out* slots, const F& f) const {
    if constexpr (
        std::is_same_v<T, Compared> || std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
      if (inner.stride == 1 && (outer.size == 1 || outer.stride == inner.size)) {
        return f(data + first, size, slots);
      }
    }
    Compared values[kSearched];
    for (int64_t done = 0; done < size; done += kSearched) {
      const int64_t part = std::min(kSearched, size - done);
      load(first + done, part, values);
      f(values, part, slots + done);
    }
  }

 private:
  void load(int64_t first, int64_t size, Compared* values) const {
    int64_t i = first % inner.size;
    const T* line = data + first / inner.size * outer.stride;
    for (Compared* end = values + size; values < end; line += outer.stride, i = 0) {
      for (; i < inner.size && values < end; ++i) {
        *values++ = static_cast<Compared>(Number<T>::wide(line[i * inner.stride]));
      }
    }
  }
};

/// The searches of channels that lie side by side. Few channels are repeated, so that many values
/// are searched at once.
template <class T>
class ColumnSearches {
 public:
  using Compared = ComparedAs<T>;

  void find(const ChannelBins<T>& bins, int64_t first, int64_t channels) {
    period_ = channels * std::max<int64_t>(1, kSearched / channels);
    const auto size = static_cast<size_t>(period_ + kLanes);
    others_.clear();
    origins_.assign(size, 0);
    scales_.assign(size, 0);
    lifts_.assign(size, 0);
    bases_.assign(size, 0);
    limits_.assign(size, 0);
    thresholds_ = bins.thresholds() + first * bins.stride();
    most_ = bins.most_edge();
    for (int64_t c = 0; c < channels; ++c) {
      if (!bins[first + c].nearest_is_right) {
        others_.push_back(c);
        continue;
      }
      const auto& of = bins[first + c];
      for (auto i = static_cast<size_t>(c); i < static_cast<size_t>(period_);
           i += static_cast<size_t>(channels)) {
        origins_[i] = of.nearest.origin;
        scales_[i] = of.nearest.scale;
        lifts_[i] = of.nearest.lift;
        bases_[i] = static_cast<int32_t>(c * bins.stride());
        limits_[i] = of.search.limit;
      }
    }
  }
  int64_t period() const {
    return period_;
  }
  /// The search of elements that begin with channel `c`, or a repetition of it.
  ColumnSearch<Compared> from(int64_t c) const {
    return {origins_.data() + c, scales_.data() + c, lifts_.data() + c, bases_.data() + c, most_,
            thresholds_,         limits_.data() + c};
  }
  /// Channels that take another search.
  const std::vector<int64_t>& others() const {
    return others_;
  }

 private:
  using G = GuessOf<Compared>;
  static constexpr int64_t kLanes = 16; // that are read behind the last

  int64_t period_ = 0;
  G most_ = 0;
  const Compared* thresholds_ = nullptr;
  std::vector<G> origins_, scales_, lifts_;
  std::vector<int32_t> bases_, limits_;
  std::vector<int64_t> others_;
};

/// Makes slots of one byte from rows of wider ones that lie side by side: slots of 256 and more
/// become 0, and are counted.
void narrow_rows(
    const uint16_t* wide, int64_t channels, int64_t rows, uint8_t* slots, int64_t* outside) {
  // Several rows together, so that the inner loop is long.
  const int64_t together = std::max<int64_t>(1, kSearched / channels);
  std::vector<uint16_t> found(static_cast<size_t>(together * channels));
  const int64_t size = rows * channels, step = together * channels;
  for (int64_t begin = 0; begin < size; begin += step) {
    const int64_t part = std::min(step, size - begin);
    run_widest([=, sums = found.data()]() __attribute__((always_inline)) {
      // Local copies: the compiler must think that stores to slots change captured variables.
      const uint16_t* from = wide + begin;
      uint8_t* to = slots + begin;
      uint16_t* more = sums;
      const int64_t end = part;
      for (int64_t i = 0; i < end; ++i) {
        to[i] = static_cast<uint8_t>(from[i] > UINT8_MAX ? 0 : from[i]);
      }
      for (int64_t i = 0; i < end; ++i) {
        more[i] = static_cast<uint16_t>(more[i] + (from[i] > UINT8_MAX));
      }
    });
  }
  for (int64_t i = 0; i < step; ++i) {
    outside[i % channels] += found[static_cast<size_t>(i)];
  }
}

template <class T>
class EdgeDigitizer final : public Digitizer {
 public:
  EdgeDigitizer(
      const Edges& edges,
      const SlotFormat& format,
      const Problem& input,
      const ChannelBins<T>* shared)
      : edges_(edges),
        format_(format),
        input_(input),
        bins_(shared != nullptr ? *shared : own_),
        is_shared_(shared != nullptr) {
  }

  void choose(int64_t first_channel, int64_t channels) override {
    outside_.assign(static_cast<size_t>(format_.outside_is_counted() ? channels : 0), 0);
    if (!is_shared_) {
      const ExactFloats exact;
      own_.find(edges_, first_channel, channels, input_.num_rows());
      columns_are_of_ = {};
    }
  }

  void digitize(
      int64_t offset,
      int64_t first,
      const Extent& channels,
      const Extent& rows,
      void* slots) override {
    const ExactFloats exact;
    const T* data = static_cast<const T*>(input_.data) + offset;
    if (format_.outside_is_counted()) {
      wide_.resize(static_cast<size_t>(channels.size * rows.size));
      digitize_as(data, first, channels, rows, wide_.data());
      return narrow(first, channels, rows, static_cast<uint8_t*>(slots));
    }
    switch (format_.type()) {
      case ElementType::kUInt8:
        return digitize_as(data, first, channels, rows, static_cast<uint8_t*>(slots));
      case ElementType::kUInt16:
        return digitize_as(data, first, channels, rows, static_cast<uint16_t*>(slots));
      case ElementType::kUInt32:
        return digitize_as(data, first, channels, rows, static_cast<uint32_t*>(slots));
      default:
        throw InternalError("digitize: not a type of slots");
    }
  }

  const std::vector<int64_t>& outside() const override {
    return outside_;
  }

 private:
  /// Makes slots of one byte from those of two.
  void narrow(int64_t first, const Extent& channels, const Extent& rows, uint8_t* slots) {
    int64_t* outside = outside_.data() + first;
    const uint16_t* wide = wide_.data();
    if (channels.size > 1 && channels.stride < rows.stride) {
      return narrow_rows(wide, channels.size, rows.size, slots, outside);
    }
    for (int64_t c = 0; c < channels.size; ++c) {
      narrow_rows(wide + c * rows.size, 1, rows.size, slots + c * rows.size, outside + c);
    }
  }

  template <class Out>
  void digitize_as(
      const T* data, int64_t first, const Extent& channels, const Extent& rows, Out* slots) {
    if (are_searched_together(channels, rows, is_shared_)) {
      return digitize_columns({data, rows, channels}, first, slots);
    }
    if (channels.size > 1 && channels.stride < rows.stride) {
      return digitize_elements({data, rows, channels}, bins_[0], slots);
    }
    for (int64_t c = 0; c < channels.size; ++c) {
      const auto& bins = bins_[is_shared_ ? 0 : first + c];
      digitize_elements({data + c * channels.stride, {1, 0}, rows}, bins, slots + c * rows.size);
    }
  }

  /// Elements that have the same bins.
  template <class Out>
  void digitize_elements(
      const OrderedElements<T>& elements,
      const typename ChannelBins<T>::Channel& bins,
      Out* slots) const {
    const SlotRule rule = format_.rule();
    const int32_t none = format_.none();
    elements.visit(0, elements.size(), slots, [&](const auto* values, int64_t size, Out* to) {
      if (bins.valid) {
        return search(bins.search, rule, values, size, to);
      }
      using Value = std::remove_const_t<std::remove_pointer_t<decltype(values)>>;
      for (int64_t i = 0; i < size; ++i) {
        to[i] = static_cast<Out>(is_nan(Number<Value>::wide(values[i])) ? rule.nan : none);
      }
    });
  }

  /// Rows of channels that have bins of their own.
  template <class Out>
  void digitize_columns(const OrderedElements<T>& rows, int64_t first, Out* slots) {
    const int64_t channels = rows.inner.size;
    if (columns_are_of_.first != first || columns_are_of_.channels != channels) {
      columns_.find(bins_, first, channels);
      columns_are_of_ = {first, channels};
    }
    const int64_t period = columns_.period(), size = rows.size();
    for (int64_t i = 0; i < size; i += period) {
      int64_t c = 0;
      rows.visit(
          i, std::min(period, size - i), slots + i, [&](const auto* values, int64_t part, Out* to) {
            search(columns_.from(c), format_.rule(), values, part, to);
            c += part;
          });
    }
    for (const int64_t c : columns_.others()) {
      digitize_column(rows, c, bins_[first + c], slots);
    }
  }
  template <class Out>
  void digitize_column(
      const OrderedElements<T>& rows,
      int64_t c,
      const typename ChannelBins<T>::Channel& bins,
      Out* slots) const {
    const auto& [data, outer, inner] = rows;
    Out found[kSearched];
    for (int64_t row = 0; row < outer.size; row += kSearched) {
      const Extent part{std::min(kSearched, outer.size - row), outer.stride};
      digitize_elements({data + row * outer.stride + c * inner.stride, {1, 0}, part}, bins, found);
      for (int64_t i = 0; i < part.size; ++i) {
        slots[(row + i) * inner.size + c] = found[i];
      }
    }
  }

  const Edges& edges_;
  const SlotFormat format_;
  const Problem& input_;
  ChannelBins<T> own_;
  const ChannelBins<T>& bins_;
  const bool is_shared_;
  ColumnSearches<T> columns_;
  std::vector<uint16_t> wide_;
  std::vector<int64_t> outside_;
  struct {
    int64_t first = 0, channels = 0;
  } columns_are_of_;
};

template <class T>
class EdgeDigitization final : public Digitization {
 public:
  EdgeDigitization(const Edges& edges, const SlotFormat& format, const Problem& input)
      : edges_(edges), format_(format), input_(input) {
    slot_type = format.type();
    if (edges.shared) {
      const ExactFloats exact;
      shared_.find(edges, 0, 1, input.num_channels() * input.num_rows());
    }
  }
  std::unique_ptr<Digitizer> digitizer() const override {
    return std::make_unique<EdgeDigitizer<T>>(
        edges_, format_, input_, edges_.shared ? &shared_ : nullptr);
  }

 private:
  const Edges edges_;
  const SlotFormat format_;
  const Problem& input_;
  ChannelBins<T> shared_;
};

} // namespace

ElementType slot_type_of(int64_t bins, const Flow& flow) {
  return SlotFormat{bins, flow.shown}.type();
}

std::unique_ptr<Digitization> digitize_between(
    const Edges& edges, const Flow& flow, const Problem& input) {
  return visit_number_type(input.type, [&](auto tag) -> std::unique_ptr<Digitization> {
    using T = typename decltype(tag)::type;
    return std::make_unique<EdgeDigitization<T>>(edges, SlotFormat{edges.bins, flow.shown}, input);
  });
}

} // namespace histo::cpu
