// Two ways to add panels of weights to the sums of channels: in the result itself, and in a table.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/weights.h"
#include "cpu/count/panel.h"
#include "cpu/threads.h"
#include "cpu/weights/cells.h"
#include "cpu/weights/slots.h"

namespace histo::cpu {

/// Elements in the order in which their slots lie.
struct PanelOrder {
  int64_t outer;
  int64_t inner;
  bool side_by_side; // the inner loop is over channels

  template <class Slot>
  explicit PanelOrder(const InputPanel<Slot>& slots)
      : side_by_side(slots.channels.stride < slots.rows.stride) {
    outer = side_by_side ? slots.rows.size : slots.channels.size;
    inner = side_by_side ? slots.channels.size : slots.rows.size;
  }
};

/// The sums of some channels in the result. Those that threads share are cleared before all threads
/// begin, and made canonical behind them.
class Sums {
 public:
  Sums(const Problem& problem, bool are_shared) : problem_(problem), are_shared_(are_shared) {
  }
  void begin(int64_t first, int64_t channels) {
    bins_ = channels * problem_.num_bins;
    sums_ = problem_.counts + first * problem_.num_bins * problem_.sum_size;
    if (!are_shared_) {
      std::fill_n(sums_, bins_ * problem_.sum_size, 0);
    }
  }
  int64_t* of(int64_t channel, int64_t bin) const {
    return sums_ + (channel * problem_.num_bins + bin) * problem_.sum_size;
  }
  void add(int64_t* to, int64_t number) const {
    are_shared_ ? add_to<true>(to, number) : add_to<false>(to, number);
  }
  template <class W>
  void add_weight_to(int64_t* sum, W weight) const {
    add_weight(weight, [&](int i, int64_t number) { add(sum + i, number); });
  }
  void end(const SumLayout& layout) const {
    if (!are_shared_) {
      for (int64_t bin = 0; bin < bins_; ++bin) {
        normalize_sum(sums_ + bin * problem_.sum_size, layout);
      }
    }
  }

 private:
  const Problem& problem_;
  bool are_shared_;
  int64_t* sums_ = nullptr;
  int64_t bins_ = 0; // of all channels
};

/// Adds to the result itself.
template <class Slot, class W>
class DirectAdder {
 public:
  DirectAdder(const Problem& problem, bool is_shared)
      : problem_(problem), sums_(problem, is_shared) {
  }
  /// The channels whose weights are added next.
  void begin(int64_t first, int64_t channels) {
    sums_.begin(first, channels);
  }
  void add(const InputPanel<Slot>& slots, const Beside<const W>& weights, const InputBehind&) {
    const auto bins = static_cast<uint64_t>(problem_.num_bins);
    const PanelOrder order(slots);
    const Slot* slot = slots.data;
    for (int64_t i = 0; i < order.outer; ++i) {
      for (int64_t j = 0; j < order.inner; ++j, ++slot) {
        if (*slot < bins) {
          const int64_t own = order.side_by_side ? j : i, row = order.side_by_side ? i : j;
          sums_.add_weight_to(sums_.of(own, static_cast<int64_t>(*slot)), weights.at(own, row));
        }
      }
    }
  }
  void end() const {
    sums_.end(kSumLayout<W>);
  }

 private:
  const Problem& problem_;
  Sums sums_;
};

/// Neighbours of one channel go to two copies of its cells in turns: an addition to a bin need not wait
/// for the one before it. Channels that lie side by side take turns anyway.
constexpr int64_t copies_of_cells(int64_t channels) {
  return channels == 1 ? 2 : 1;
}

/// Bytes of a table of some channels. A bin behind theirs is for elements without one.
template <class W>
int64_t table_bytes(int64_t channels, int64_t bins) {
  return copies_of_cells(channels) * channels * (bins + 1) * CellsOf<W>::kCells *
         static_cast<int64_t>(sizeof(Cell<W>));
}

/// Adds to a table first. The channels lie side by side, or there is one: a panel has all of them.
template <class Slot, class W>
class TableAdder {
 public:
  TableAdder(const Problem& problem, bool is_shared, Cell<W>* table)
      : problem_(problem), sums_(problem, is_shared), table_(table) {
  }
  void begin(int64_t first, int64_t channels) {
    sums_.begin(first, channels);
    channels_ = channels;
    period_ = kReady / channels * channels;
    copies_ = copies_of_cells(channels);
    const int64_t turns = copies_ * channels;
    for (int64_t i = 0; i < period_; ++i) { // a division of each i would take long
      const int64_t turn = i < turns ? i * (problem_.num_bins + 1) : rows_[i - turns];
      rows_[i] = static_cast<uint32_t>(turn);
    }
    std::memset(table_, 0, static_cast<size_t>(plane() * CellsOf<W>::kCells) * sizeof(Cell<W>));
    added_ = 0;
    has_exponents_ = has_carried_ = false;
    is_canonical_ = true;
  }
  void add(
      const InputPanel<Slot>& slots, const Beside<const W>& weights, const InputBehind& input) {
    added_ += slots.rows.size;
    if (added_ > CellsOf<W>::kMostWeights) {
      carry_all();
      added_ = slots.rows.size;
    }
    const PanelOrder order(slots);
    const int64_t size = order.outer * order.inner;
    for (int64_t i = 0; i < size; i += period_) {
      const int64_t part = std::min(period_, size - i);
      const InputBehind behind{input.data + i * input.step, input.step};
      add_block(slots.data + i, staged(weights, order, i, part), part, behind);
    }
  }
  void end() {
    carry_all();
    if (!is_canonical_) {
      sums_.end(kLayout);
    }
  }

 private:
  static constexpr SumLayout kLayout = kSumLayout<W>;
  static constexpr int64_t kLinesAhead = 16; // that are fetched before they are copied

  static constexpr int kNumbers = kNumbersPerCell<W>;

  /// The cells of one scale.
  int64_t plane() const {
    return copies_ * channels_ * (problem_.num_bins + 1);
  }
  uint64_t* numbers_of(int64_t i) const {
    return reinterpret_cast<uint64_t*>(table_ + i * plane());
  }

  /// Adds all cells to the sums, and clears them. Few planes have any.
  void carry_all() {
    int used[CellsOf<W>::kCells];
    int size = 0;
    for (int i = 0; i < CellsOf<W>::kCells; ++i) {
      if (joins_copies(numbers_of(i))) {
        used[size++] = i;
      }
    }
    for (int64_t channel = 0; channel < channels_; ++channel) {
      const int64_t first = channel * (problem_.num_bins + 1);
      for (int64_t bin = 0; bin < problem_.num_bins; ++bin) {
        put_cells(used, size, first + bin, sums_.of(channel, bin));
      }
    }
    for (int i = 0; i < size; ++i) {
      std::fill_n(numbers_of(used[i]), plane() * kNumbers, 0);
    }
    is_canonical_ = is_canonical_ && !has_carried_;
    has_carried_ = true;
  }
  /// Adds the second copy of a plane to the first. Returns whether any number was not 0.
  bool joins_copies(uint64_t* numbers) const {
    const int64_t size = plane() / copies_ * kNumbers;
    uint64_t any = 0;
    for (int64_t i = 0; i < size; ++i) {
      any |= numbers[i] | numbers[i + (copies_ - 1) * size];
    }
    for (int64_t i = 0; copies_ > 1 && any != 0 && i < size; ++i) {
      numbers[i] += numbers[i + size];
    }
    return any != 0;
  }
  void put_cells(const int* used, int size, int64_t row, int64_t* to) const {
    if constexpr (!Number<W>::kIsFloat) {
      if (size > 0) {
        sums_.add(to, static_cast<int64_t>(table_[row]));
      }
    } else {
      DigitWindow<W> window(exponents_);
      uint64_t any = 0;
      for (int i = 0; i < size; ++i) {
        for (int upper = 0; upper < kNumbers; ++upper) {
          const uint64_t number = numbers_of(used[i])[row * kNumbers + upper];
          any |= number;
          window.add(number, used[i], upper != 0);
        }
      }
      if (any != 0) {
        window.put([&](int digit, int64_t number) { sums_.add(to + digit, number); });
      }
    }
  }

  /// The weights of `size` elements from the one of number `first` on, without gaps.
  const W* staged(
      const Beside<const W>& weights, const PanelOrder& order, int64_t first, int64_t size) {
    const int64_t inner = order.side_by_side ? weights.channel_stride : weights.row_stride;
    const int64_t outer = order.side_by_side ? weights.row_stride : weights.channel_stride;
    if (inner == 1 && (order.outer == 1 || outer == order.inner)) {
      return weights.data + first;
    }
    int64_t i = first % order.inner;
    const W* line = weights.data + first / order.inner * outer;
    const W* end = staged_ + size;
    for (W* to = staged_; to < end; line += outer, i = 0) {
      const int64_t run = std::min(order.inner - i, static_cast<int64_t>(end - to));
      copy_line(line + i * inner, inner, run, kLinesAhead * outer, to);
      to += run;
    }
    return staged_;
  }

  static void copy_line(const W* from, int64_t stride, int64_t size, int64_t ahead, W* to) {
    if (stride == 1) {
      constexpr auto kLine = static_cast<int64_t>(tuning::kLineBytes / sizeof(W));
      for (int64_t i = 0; i < size; i += kLine) {
        __builtin_prefetch(from + i + ahead);
      }
      std::copy_n(from, size, to);
      return;
    }
    for (int64_t i = 0; i < size; ++i) {
      to[i] = from[i * stride];
    }
  }

  void add_block(const Slot* slots, const W* weights, int64_t size, const InputBehind& input) {
    if (!has_exponents_) {
      exponents_ = exponents_of(weights, size);
      has_exponents_ = true;
    }
    const auto none = static_cast<uint32_t>(problem_.num_bins);
    const auto plane = static_cast<uint32_t>(this->plane());
    const bool are_all =
        make_ready<W, Slot>({slots, weights, rows_, none, plane, exponents_, size}, additions_);
    additions_.add_to(table_, size, weights + size, input);
    if (!are_all) {
      add_others(slots, weights, size);
    }
  }
  /// Adds weights that no cell is for to the result itself.
  void add_others(const Slot* slots, const W* weights, int64_t size) {
    is_canonical_ = false;
    if constexpr (Number<W>::kIsFloat) {
      for (int64_t i = 0; i < size; ++i) {
        if (!has_cell(weights[i], exponents_) && slots[i] < problem_.num_bins) {
          sums_.add_weight_to(sums_.of(i % channels_, int64_t{slots[i]}), weights[i]);
        }
      }
    }
  }

  const Problem& problem_;
  Sums sums_;
  Cell<W>* table_;
  int64_t channels_ = 0;
  int64_t copies_ = 0;
  int64_t period_ = 0;         // elements that are made ready together: whole rows
  int64_t added_ = 0;          // weights of a channel since cells were carried
  bool has_exponents_ = false; // the first weights of channels choose them
  Exponents exponents_{};
  bool has_carried_ = false;
  bool is_canonical_ = true; // nothing but one row of cells was added to a bin
  uint32_t rows_[kReady];
  W staged_[kReady];
  Additions<W> additions_;
};

} // namespace histo::cpu
