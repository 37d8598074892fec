#include "cpu/digitize/digitize.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "cpu/digitize/channel_bins.h"
#include "cpu/digitize/elements.h"
#include "cpu/digitize/search.h"
#include "cpu/digitize/slot_digitizer.h"
#include "cpu/float_mode.h"
#include "cpu/tuning.h"

namespace histo::cpu {
namespace {

using tuning::kSearched;

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

template <class T>
class EdgeDigitizer final : public SlotDigitizer<EdgeDigitizer<T>, T> {
  using Base = SlotDigitizer<EdgeDigitizer<T>, T>;

 public:
  EdgeDigitizer(
      const Edges& edges,
      const SlotFormat& format,
      const Problem& input,
      const ChannelBins<T>* shared)
      : Base(format, input),
        edges_(edges),
        bins_(shared != nullptr ? *shared : own_),
        is_shared_(shared != nullptr) {
  }

  void choose(int64_t first_channel, int64_t channels) override {
    this->begin(channels);
    if (!is_shared_) {
      const ExactFloats exact;
      own_.find(edges_, first_channel, channels, this->input().num_rows());
      columns_are_of_ = {};
    }
  }

 private:
  friend Base;
  using Elements = OrderedElements<T, ComparedAs<T>>;

  template <class Out>
  void digitize_as(
      const T* data, int64_t first, const Extent& channels, const Extent& rows, Out* slots) {
    if (are_side_by_side(channels, rows)) {
      return is_shared_ ? digitize_elements({data, rows, channels}, bins_[0], slots)
                        : digitize_columns({data, rows, channels}, first, slots);
    }
    for (int64_t c = 0; c < channels.size; ++c) {
      const auto& bins = bins_[is_shared_ ? 0 : first + c];
      digitize_elements({data + c * channels.stride, {1, 0}, rows}, bins, slots + c * rows.size);
    }
  }

  /// Elements that have the same bins.
  template <class Out>
  void digitize_elements(
      const Elements& elements, const typename ChannelBins<T>::Channel& bins, Out* slots) const {
    const SlotRule rule = this->format().rule();
    const int32_t none = this->format().none();
    elements.visit(0, elements.size(), slots, [&](const auto& values, Out* to) {
      if (bins.valid) {
        return search(bins.search, rule, values, to);
      }
      using Value = std::decay_t<decltype(*values.data)>;
      for (int64_t i = 0; i < values.size; ++i) {
        to[i] = static_cast<Out>(
            is_nan(Number<Value>::wide(values.data[i * values.stride])) ? rule.nan : none);
      }
    });
  }

  /// Rows of channels that have bins of their own.
  template <class Out>
  void digitize_columns(const Elements& rows, int64_t first, Out* slots) {
    const int64_t channels = rows.inner.size;
    if (columns_are_of_.first != first || columns_are_of_.channels != channels) {
      columns_.find(bins_, first, channels);
      columns_are_of_ = {first, channels};
    }
    const int64_t period = columns_.period(), size = rows.size();
    for (int64_t i = 0; i < size; i += period) {
      int64_t c = 0;
      rows.visit(i, std::min(period, size - i), slots + i, [&](const auto& values, Out* to) {
        search(columns_.from(c), this->format().rule(), values, to);
        c += values.size;
      });
    }
    for (const int64_t c : columns_.others()) {
      digitize_column(rows, c, bins_[first + c], slots);
    }
  }
  template <class Out>
  void digitize_column(
      const Elements& rows,
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
  ChannelBins<T> own_;
  const ChannelBins<T>& bins_;
  const bool is_shared_;
  ColumnSearches<T> columns_;
  struct {
    int64_t first = 0, channels = 0;
  } columns_are_of_;
};

template <class T>
class EdgeDigitization final : public Digitization {
 public:
  EdgeDigitization(const Edges& edges, const SlotFormat& format, const Problem& input)
      : edges_(edges), format_(format), input_(input) {
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

std::unique_ptr<Digitization> digitize_between(
    const Edges& edges,
    const UniformRanges* ranges,
    const Flow& flow,
    const Problem& input,
    ElementType slots) {
  const int64_t values = input.num_channels() * input.num_rows();
  const bool shares = ranges != nullptr && ranges->shared;
  if (shares && values < tuning::kMinValuesPerSharedEdge * edges.bins) {
    if (auto computed = digitize_uniform(*ranges, edges.bins, flow, input, slots, nullptr)) {
      return computed; // less time than checking all edges takes
    }
  }
  auto by_edges = visit_number_type(input.type, [&](auto tag) -> std::unique_ptr<Digitization> {
    using T = typename decltype(tag)::type;
    return std::make_unique<EdgeDigitization<T>>(
        edges, SlotFormat{edges.bins, flow.shown, slots}, input);
  });
  return ranges == nullptr || shares
             ? std::move(by_edges)
             : digitize_uniform(*ranges, edges.bins, flow, input, slots, std::move(by_edges));
}

} // namespace histo::cpu
