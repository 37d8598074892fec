#include "staging.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "float_mode.h"
#include "read_once.h"
#include "run_widest.h"

namespace histo::cpu {
namespace {

/// The keys that stand for places. Without flow bin 0 has the key 0, and what is outside all bins
/// a key that is no bin's: the largest for underflow.
struct Keys {
  int64_t bins;
  bool flow;

  /// A key that counts nowhere.
  uint32_t none() const {
    return flow ? static_cast<uint32_t>(bins + 3) : ~uint32_t{0};
  }
  /// The keys that there must be, so that there is one that counts nowhere.
  int64_t needed() const {
    return bins + (flow ? 4 : 1);
  }
};

/// The bins of some channels between their edges.
template <class T>
class ChannelBins {
 public:
  using Order = Number<T>;
  using Key = typename Order::Key;
  using G = GuessOf<Key>;

  void find(const Edges& edges, int64_t first_channel, int64_t channels) {
    bins_ = edges.bins;
    thresholds_.resize(static_cast<size_t>(channels * (bins_ + 1)));
    channels_.resize(static_cast<size_t>(channels));
    for (int64_t channel = 0; channel < channels; ++channel) {
      find_channel(edges, first_channel + channel, channel);
    }
  }
  int64_t bins() const {
    return bins_;
  }
  const Key* thresholds(int64_t channel) const {
    return thresholds_.data() + channel * (bins_ + 1);
  }

  struct Channel {
    bool valid; // its edges do not decrease, and none is NaN
    bool formula_is_right;
    bool comparison_is_right;
    bool over_bits;
    int64_t limit; // the thresholds that a value can reach
    Line<G> formula;
    Line<G> comparison;
    Line<G> cell;
    BitCells<G> bit_cells;
    std::vector<uint32_t> cells; // [kCells + 1]: the thresholds below each cell

    Guess guess() const {
      return formula_is_right      ? Guess::kFormula
             : comparison_is_right ? Guess::kComparison
                                   : Guess::kCells;
    }
    int64_t cell_of(G value) const {
      if (over_bits) {
        return bit_cells.at(value);
      }
      const G within = cell.clamped(value, kCells - 1);
      return static_cast<int64_t>(within);
    }
  };
  const Channel& operator[](int64_t channel) const {
    return channels_[static_cast<size_t>(channel)];
  }

  /// How many thresholds of a channel a value reaches, found without a guess that could be wrong.
  int64_t search(int64_t channel, Key value) const {
    const Channel& of = (*this)[channel];
    const Key* keys = thresholds(channel);
    const auto cell = static_cast<size_t>(of.cell_of(static_cast<G>(value)));
    int64_t low = of.cells[cell], high = std::min<int64_t>(of.cells[cell + 1], of.limit);
    low = std::min(low, high);
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (value >= keys[middle]) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

 private:
  void find_channel(const Edges& edges, int64_t channel, int64_t i) {
    const Real low = edges.at(channel, 0), high = edges.at(channel, bins_);
    Channel& found = channels_[static_cast<size_t>(i)];
    const auto lines = Lines<G>::between(low, high, bins_);
    found.formula = lines.formula;
    found.comparison = lines.comparison;
    found.valid = !is_nan(high.high);
    found.limit = 0;
    bool formula = found.formula.rises(), comparison = found.comparison.rises();
    Key* keys = thresholds_.data() + i * (bins_ + 1);
    for (int64_t k = 0; k <= bins_; ++k) {
      const Real edge = edges.at(channel, k);
      found.valid = found.valid && (k == bins_ || is_at_most(edge, edges.at(channel, k + 1)));
      bool exists;
      const int64_t place = Thresholds<T>::place(edge, edges.closed && k == bins_, exists);
      keys[k] = Thresholds<T>::key(place, exists);
      found.limit += exists;
      const auto check = [&](int64_t value_place, bool reaches) {
        const auto value = static_cast<G>(Order::key_at(value_place));
        const auto by_formula = static_cast<int64_t>(found.formula.clamped(value, most_place()));
        const auto nearest = static_cast<int64_t>(found.comparison.clamped(value, most_edge()));
        formula = formula && (reaches ? by_formula > k : by_formula <= k);
        comparison = comparison && (reaches ? nearest >= k : nearest <= k);
      };
      if (exists) {
        check(place, true);
      }
      if (!exists || place > Order::kFirst) {
        check(exists ? place - 1 : place, false);
      }
    }
    found.formula_is_right = formula;
    found.comparison_is_right = comparison;
    found.cells.clear();
    if (found.valid && found.guess() == Guess::kCells) {
      choose_cells(low, high, keys, found);
    }
  }

  /// Takes the cells of values, or those of their bits where these share the edges out better.
  void choose_cells(Real low, Real high, const Key* keys, Channel& found) const {
    found.cell = cell_line<G>(low, high);
    found.bit_cells = BitCells<G>::between(low, high);
    found.over_bits = true;
    const uint32_t most_by_bits = count_cells(keys, found);
    if (most_by_bits > 1 && found.cell.rises()) {
      found.over_bits = false;
      if (count_cells(keys, found) > most_by_bits) {
        found.over_bits = true;
        count_cells(keys, found);
      }
    }
  }
  /// Counts the thresholds below each cell. Returns the most in one cell.
  static uint32_t count_cells(const Key* keys, Channel& found) {
    found.cells.assign(kCells + 1, 0);
    for (int64_t k = 0; k < found.limit; ++k) {
      ++found.cells[static_cast<size_t>(found.cell_of(static_cast<G>(keys[k]))) + 1];
    }
    uint32_t most = 0;
    for (size_t cell = 1; cell <= kCells; ++cell) {
      most = std::max(most, found.cells[cell]);
      found.cells[cell] += found.cells[cell - 1];
    }
    return most;
  }

 public:
  // The most that lines are clamped to.
  G most_place() const {
    return static_cast<G>(bins_ + 1);
  }
  G most_edge() const {
    return static_cast<G>(bins_);
  }

 private:
  int64_t bins_ = 0;
  std::vector<Key> thresholds_;
  std::vector<Channel> channels_;
};

/// The key of a place, without a branch.
template <class Value>
[[gnu::always_inline]] inline uint32_t key_of(int32_t place, Value value, const Keys& keys) {
  if (keys.flow) {
    return static_cast<uint32_t>(is_nan(value) ? keys.bins + 2 : place);
  }
  return static_cast<uint32_t>(place - 1); // NaN has the place 0
}

template <class T>
class EdgeStager final : public Stager {
 public:
  EdgeStager(
      const Edges& edges, const Keys& keys, const Problem& input, const ChannelBins<T>* shared)
      : edges_(edges), keys_(keys), input_(input), bins_(shared != nullptr ? *shared : own_),
        is_shared_(shared != nullptr) {
  }

  void choose(int64_t first_channel, int64_t channels) override {
    if (!is_shared_) {
      const ExactFloats exact;
      own_.find(edges_, first_channel, channels);
    }
  }

  void stage(
      int64_t offset,
      int64_t first,
      const Extent& channels,
      const Extent& rows,
      void* keys) override {
    const ExactFloats exact;
    const T* data = static_cast<const T*>(input_.data) + offset;
    if (sizeof_keys() == 1) {
      stage_as(data, first, channels, rows, static_cast<uint8_t*>(keys));
    } else if (sizeof_keys() == 2) {
      stage_as(data, first, channels, rows, static_cast<uint16_t*>(keys));
    } else {
      stage_as(data, first, channels, rows, static_cast<uint32_t*>(keys));
    }
  }

 private:
  using Key = typename ChannelBins<T>::Key;
  using G = typename ChannelBins<T>::G;

  int sizeof_keys() const;

  template <class Out>
  void stage_as(
      const T* data, int64_t first, const Extent& channels, const Extent& rows, Out* keys) const {
    if (channels.size == 1 || rows.stride <= channels.stride) {
      for (int64_t c = 0; c < channels.size; ++c) {
        stage_line(data + c * channels.stride, first + c, rows, keys + c * rows.size);
      }
      return;
    }
    for (int64_t c = 0; c < channels.size; ++c) {
      stage_column(data + c * channels.stride, first + c, rows, channels.size, keys + c);
    }
  }

  template <class Out>
  void stage_column(
      const T* data, int64_t channel, const Extent& rows, int64_t step, Out* keys) const {
    const int64_t of = is_shared_ ? 0 : channel;
    for (int64_t row = 0; row < rows.size; ++row) {
      keys[row * step] = static_cast<Out>(search_key(of, Number<T>::key(data[row * rows.stride])));
    }
  }

  uint32_t search_key(int64_t channel, Key value) const {
    if (!bins_[channel].valid) {
      return is_nan(value) && keys_.flow ? static_cast<uint32_t>(keys_.bins + 2) : keys_.none();
    }
    return key_of(static_cast<int32_t>(place_of(channel, value)), value, keys_);
  }
  int64_t place_of(int64_t channel, Key value) const {
    const auto& of = bins_[channel];
    switch (of.guess()) {
      case Guess::kFormula:
        return static_cast<int64_t>(
            of.formula.clamped(static_cast<G>(value), bins_.most_place()));
      case Guess::kComparison: {
        const auto k = static_cast<int64_t>(
            of.comparison.clamped(static_cast<G>(value), bins_.most_edge()));
        return std::min(of.limit, k + (value >= bins_.thresholds(channel)[k]));
      }
      case Guess::kCells:
        return bins_.search(channel, value);
    }
    throw InternalError("place_of: not a guess");
  }

  template <class Out>
  void stage_line(const T* data, int64_t channel, const Extent& rows, Out* keys) const {
    const int64_t of = is_shared_ ? 0 : channel;
    const auto& bins = bins_[of];
    if (rows.stride != 1 || !bins.valid || bins.guess() == Guess::kCells) {
      stage_column(data, channel, rows, 1, keys);
    } else if (bins.guess() == Guess::kFormula) {
      stage_by_formula(data, rows.size, bins.formula, keys);
    } else {
      stage_by_comparison(data, rows.size, bins, bins_.thresholds(of), keys);
    }
  }
  template <class Out>
  void stage_by_formula(const T* data, int64_t size, const Line<G>& of, Out* keys) const {
    run_widest([=, line = of, most = bins_.most_place(),
                as = keys_]() __attribute__((always_inline)) {
      for (int64_t i = 0; i < size; ++i) {
        const Key value = Number<T>::key(data[i]);
        const auto place = static_cast<int32_t>(line.clamped(static_cast<G>(value), most));
        keys[i] = static_cast<Out>(key_of(place, value, as));
      }
    });
  }
  template <class Out>
  void stage_by_comparison(
      const T* data,
      int64_t size,
      const typename ChannelBins<T>::Channel& of,
      const Key* thresholds,
      Out* keys) const {
    const auto limit = static_cast<int32_t>(of.limit);
    run_widest([=, line = of.comparison, most = bins_.most_edge(),
                as = keys_]() __attribute__((always_inline)) {
      for (int64_t i = 0; i < size; ++i) {
        const Key value = Number<T>::key(data[i]);
        const auto k = static_cast<int32_t>(line.clamped(static_cast<G>(value), most));
        const int32_t place = k + (value >= thresholds[k] ? 1 : 0);
        keys[i] = static_cast<Out>(key_of(std::min(place, limit), value, as));
      }
    });
  }

  const Edges& edges_;
  const Keys keys_;
  const Problem& input_;
  ChannelBins<T> own_;
  const ChannelBins<T>& bins_;
  const bool is_shared_;
};

ElementType key_type_of(const Keys& keys) {
  return keys.needed() <= 256     ? ElementType::kUInt8
         : keys.needed() <= 65536 ? ElementType::kUInt16
                                  : ElementType::kUInt32;
}

template <class T>
int EdgeStager<T>::sizeof_keys() const {
  const ElementType type = key_type_of(keys_);
  return type == ElementType::kUInt8 ? 1 : type == ElementType::kUInt16 ? 2 : 4;
}

template <class T>
class EdgeStaging final : public Staging {
 public:
  EdgeStaging(const Edges& edges, const Keys& keys, const Problem& input)
      : edges_(edges), keys_(keys), input_(input) {
    key_type = key_type_of(keys);
    if (edges.shared) {
      const ExactFloats exact;
      shared_.find(edges, 0, 1);
    }
  }
  std::unique_ptr<Stager> stager() const override {
    return std::make_unique<EdgeStager<T>>(
        edges_, keys_, input_, edges_.shared ? &shared_ : nullptr);
  }

 private:
  const Edges edges_;
  const Keys keys_;
  const Problem& input_;
  ChannelBins<T> shared_;
};

} // namespace

std::unique_ptr<Staging> stage_between(const Edges& edges, const Flow& flow, const Problem& input) {
  return visit_number_type(input.type, [&](auto tag) -> std::unique_ptr<Staging> {
    using T = typename decltype(tag)::type;
    return std::make_unique<EdgeStaging<T>>(edges, Keys{edges.bins, flow.shown}, input);
  });
}

} // namespace histo::cpu
