// Digitizing without stored edges: those of one width are computed where values are near them.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/uniform_line.h"
#include "cpu/digitize/digitize.h"
#include "cpu/digitize/elements.h"
#include "cpu/digitize/search.h"
#include "cpu/digitize/slot_digitizer.h"
#include "cpu/plan.h"
#include "cpu/tuning.h"

namespace histo::cpu {
namespace {

using tuning::kSearched;

/// The type of edges: float32 for floats of up to 32 bits.
template <class T>
using EdgeOf = std::conditional_t<
    Number<T>::kIsFloat && std::is_same_v<typename Number<T>::Wide, float>,
    float,
    double>;

/// Sets the search of a range, if its edges can be computed. Values of type T are converted to
/// Compared.
template <class T, class Compared>
bool find_search(Compared low, Compared high, int64_t bins, UniformSearch<Compared>& search) {
  using Edge = EdgeOf<T>;
  UniformLine<Compared> line;
  if (!find_line<Compared, Edge>(low, high, bins, line)) {
    return false;
  }
  if (!Number<T>::kIsFloat && sizeof(T) == 8 && std::max(std::abs(low), std::abs(high)) >= 0x1p53) {
    return false; // other integers are doubles, or beyond all edges
  }
  search.low = line.low;
  search.step = line.step;
  search.scale = line.scale;
  search.last = static_cast<Compared>(static_cast<Edge>(high));
  search.most = static_cast<Compared>(bins) - Compared{0.5};
  search.bins = static_cast<int32_t>(bins);
  search.edges_in_float32 = sizeof(Edge) < sizeof(Compared);
  return true;
}

/// The searches of channels that lie side by side, value after value. Few channels are repeated, so
/// that many values are searched at once.
template <class Compared>
class UniformColumns {
 public:
  void set(const UniformSearch<Compared>* searches, int64_t channels) {
    period_ = channels * std::max<int64_t>(1, kSearched / channels);
    most_ = searches[0].most; // all channels have the same bins
    bins_ = searches[0].bins;
    for (auto* values : {&lows_, &steps_, &scales_, &lasts_}) {
      values->assign(static_cast<size_t>(period_ + kLanes), 0);
    }
    for (int64_t i = 0; i < period_; ++i) {
      const UniformSearch<Compared>& of = searches[i % channels];
      const auto at = static_cast<size_t>(i);
      lows_[at] = of.low;
      steps_[at] = of.step;
      scales_[at] = of.scale;
      lasts_[at] = of.last;
    }
  }
  int64_t period() const {
    return period_;
  }
  UniformColumnSearch<Compared> from(int64_t i) const {
    return {
        lows_.data() + i, steps_.data() + i, scales_.data() + i, lasts_.data() + i, most_, bins_};
  }

 private:
  static constexpr int64_t kLanes = 16; // that are read behind the last

  int64_t period_ = 0;
  Compared most_ = 0;
  int32_t bins_ = 0;
  std::vector<Compared> lows_, steps_, scales_, lasts_;
};

template <class T, class Compared>
class UniformDigitizer final : public SlotDigitizer<UniformDigitizer<T, Compared>, T> {
  using Base = SlotDigitizer<UniformDigitizer<T, Compared>, T>;
  using Search = UniformSearch<Compared>;

 public:
  /// `shared` is the search of all channels, or null.
  UniformDigitizer(
      const UniformRanges& ranges,
      const SlotFormat& format,
      const Problem& input,
      const Search* shared,
      const Digitization* by_edges)
      : Base(format, input), ranges_(ranges), shared_(shared), by_edges_(by_edges) {
  }

  void choose(int64_t first_channel, int64_t channels) override {
    this->begin(channels);
    others_.clear();
    columns_are_of_ = {};
    if (shared_ != nullptr) {
      return;
    }
    const ExactFloats exact;
    const int64_t bins = this->format().bins;
    const auto* low = static_cast<const Compared*>(ranges_.low) + first_channel;
    const auto* high = static_cast<const Compared*>(ranges_.high) + first_channel;
    Search common{};
    common.most = static_cast<Compared>(bins) - Compared{0.5};
    common.bins = static_cast<int32_t>(std::min(bins, int64_t{1} << 30)); // more have stored edges
    searches_.resize(static_cast<size_t>(channels));
    for (int64_t c = 0; c < channels; ++c) {
      Search& search = searches_[static_cast<size_t>(c)];
      if (!find_search<T>(low[c], high[c], bins, search)) {
        search = common; // its slots are replaced
        Other& other = others_.emplace_back(Other{c, by_edges_->digitizer()});
        other.digitizer->choose(first_channel + c, 1);
      }
    }
  }

  void digitize(
      int64_t offset,
      int64_t first,
      int64_t row,
      const Extent& channels,
      const Extent& rows,
      void* slots) override {
    Base::digitize(offset, first, row, channels, rows, slots);
    for (const Other& other : others_) {
      if (other.channel >= first && other.channel < first + channels.size) {
        digitize_other(offset, first, channels, rows, static_cast<char*>(slots), other);
      }
    }
  }

 private:
  friend Base;
  using Elements = OrderedElements<T, Compared>;

  /// A channel whose edges cannot be computed.
  struct Other {
    int64_t channel;
    std::unique_ptr<Digitizer> digitizer;
  };

  template <class Out>
  void digitize_as(
      const T* data, int64_t first, const Extent& channels, const Extent& rows, Out* slots) {
    const bool side_by_side = are_side_by_side(channels, rows);
    if (shared_ != nullptr) {
      const Elements elements =
          side_by_side ? Elements{data, rows, channels} : Elements{data, channels, rows};
      return digitize_elements(elements, *shared_, slots);
    }
    if (side_by_side) {
      return digitize_columns({data, rows, channels}, first, slots);
    }
    for (int64_t c = 0; c < channels.size; ++c) {
      const Search& search = searches_[static_cast<size_t>(first + c)];
      digitize_elements({data + c * channels.stride, {1, 0}, rows}, search, slots + c * rows.size);
    }
  }

  template <class Out>
  void digitize_elements(const Elements& elements, const Search& of, Out* slots) const {
    const SlotRule rule = this->format().rule();
    elements.visit(0, elements.size(), slots, [&](const auto& values, Out* to) {
      search(of, rule, values, to);
    });
  }

  template <class Out>
  void digitize_columns(const Elements& rows, int64_t first, Out* slots) {
    const int64_t channels = rows.inner.size;
    if (columns_are_of_.first != first || columns_are_of_.channels != channels) {
      columns_.set(searches_.data() + first, channels);
      columns_are_of_ = {first, channels};
    }
    const SlotRule rule = this->format().rule();
    const int64_t period = columns_.period(), size = rows.size();
    for (int64_t i = 0; i < size; i += period) {
      int64_t c = 0;
      rows.visit(i, std::min(period, size - i), slots + i, [&](const auto& values, Out* to) {
        search(columns_.from(c), rule, values, to);
        c += values.size;
      });
    }
  }

  void digitize_other(
      int64_t offset,
      int64_t first,
      const Extent& channels,
      const Extent& rows,
      char* slots,
      const Other& other) {
    const int64_t c = other.channel - first;
    const int64_t bytes = size_of(this->format().type);
    const Extent own{1, channels.stride};
    const int64_t begin = offset + c * channels.stride;
    if (channels.size == 1 || channels.stride >= rows.stride) {
      other.digitizer->digitize(begin, 0, 0, own, rows, slots + c * rows.size * bytes);
    } else {
      column_.resize(static_cast<size_t>(rows.size * bytes));
      other.digitizer->digitize(begin, 0, 0, own, rows, column_.data());
      for (int64_t row = 0; row < rows.size; ++row) {
        std::memcpy(
            slots + (row * channels.size + c) * bytes, column_.data() + row * bytes,
            static_cast<size_t>(bytes));
      }
    }
    if (!other.digitizer->outside().empty()) {
      this->outside_of(other.channel) = other.digitizer->outside()[0];
    }
  }

  const UniformRanges& ranges_;
  const Search* shared_;
  const Digitization* by_edges_;
  std::vector<Search> searches_;
  std::vector<Other> others_;
  UniformColumns<Compared> columns_;
  std::vector<char> column_;
  struct {
    int64_t first = 0, channels = 0;
  } columns_are_of_;
};

template <class T, class Compared>
class UniformDigitization final : public Digitization {
 public:
  UniformDigitization(
      const UniformRanges& ranges,
      const SlotFormat& format,
      const Problem& input,
      std::unique_ptr<Digitization> by_edges)
      : ranges_(ranges), format_(format), input_(input), by_edges_(std::move(by_edges)) {
  }
  /// Whether all channels share a range whose edges can be computed.
  bool find_shared() {
    const ExactFloats exact;
    return find_search<T>(
        *static_cast<const Compared*>(ranges_.low), *static_cast<const Compared*>(ranges_.high),
        format_.bins, shared_);
  }
  std::unique_ptr<Digitizer> digitizer() const override {
    return std::make_unique<UniformDigitizer<T, Compared>>(
        ranges_, format_, input_, ranges_.shared ? &shared_ : nullptr, by_edges_.get());
  }

 private:
  const UniformRanges ranges_;
  const SlotFormat format_;
  const Problem& input_;
  std::unique_ptr<Digitization> by_edges_;
  UniformSearch<Compared> shared_{};
};

template <class T, class Compared>
std::unique_ptr<Digitization> digitization_of(
    const UniformRanges& ranges,
    const SlotFormat& format,
    const Problem& input,
    std::unique_ptr<Digitization> by_edges) {
  auto digitization = std::make_unique<UniformDigitization<T, Compared>>(
      ranges, format, input, std::move(by_edges));
  return ranges.shared && !digitization->find_shared() ? nullptr : std::move(digitization);
}

} // namespace

std::unique_ptr<Digitization> digitize_uniform(
    const UniformRanges& ranges,
    int64_t bins,
    const Flow& flow,
    const Problem& input,
    ElementType slots,
    std::unique_ptr<Digitization> by_edges) {
  return visit_number_type(input.type, [&](auto tag) -> std::unique_ptr<Digitization> {
    using T = typename decltype(tag)::type;
    const SlotFormat format{bins, flow.shown, slots};
    if (ranges.type == ElementType::kFloat64) {
      return digitization_of<T, double>(ranges, format, input, std::move(by_edges));
    }
    if constexpr (std::is_same_v<EdgeOf<T>, float>) {
      return digitization_of<T, float>(ranges, format, input, std::move(by_edges));
    }
    throw InternalError("digitize_uniform: float32 ranges of wider values");
  });
}

} // namespace histo::cpu
