// Channels that lie side by side: rows are copied to a tile of lines, and each column is counted
// from the L1 cache.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "cpu/count/indices.h"
#include "cpu/count/inner_loops.h"
#include "cpu/count/strips.h"
#include "cpu/count/tables.h"

namespace histo::cpu {
namespace {

using namespace tuning;

template <class T, class TheCounter>
class ValueColumns {
 public:
  using Pattern = T;
  using Counter = TheCounter;

  ValueColumns(const CpuPlan& plan, Result& result, char* scratch)
      : result_(result),
        index_{result.axis().own_bins},
        tables_(plan.tables_if_distinct, scratch),
        tile_(reinterpret_cast<T*>(scratch + plan.table_bytes)) {
    // Lanes without a channel are counted, too, so all of the tile is initialized.
    std::memset(tile_, 0, static_cast<size_t>(plan.tile_bytes));
  }

  void count(const InputPanel<T>& panel, const T* next) {
    const int64_t rows = panel.rows.size;
    const int64_t tiles = ceil_div(rows, kTileRows);
    for (int64_t i = 0; i < tiles; ++i) {
      const int64_t row = cut(rows, i, tiles);
      const int64_t size = cut(rows, i + 1, tiles) - row;
      copy_rows(panel.from(row), size);
      Ahead ahead = rows_after(panel, row + size, next);
      tables_.reserve(size, [&] { reduce_tables(); });
      count_tile(panel.channels.size, size, ahead);
    }
  }

  void reduce() {
    tables_.reduce([&] { reduce_tables(); });
  }

 private:
  static constexpr bool kIn32Bits = std::is_same_v<Counter, uint32_t>;
  static constexpr int64_t kLine = kLineBytes / static_cast<int64_t>(sizeof(T));
  static constexpr int64_t kLanes = kIn32Bits ? 1 : kLanesPerPair;
  /// Pairs of channels that are counted at once, and rows of each that take turns.
  template <int kPairs, int kRows = 1>
  using ColumnPairs = CounterShape<kPairs, kLanesPerPair, kRows * kLanesPerPair, kUnrolledElements>;
  using SingleColumns = CounterShape<kTablesOf32Bits, 1, 1, kUnrolledOf32Bits>;
  /// Each column has one counter of an index.
  using OneColumnShape = CounterShape<1, 1, 1, 1>;

  void count_tile(int64_t channels, int64_t rows, Ahead& ahead) {
    if constexpr (kIn32Bits) {
      count_in<SingleColumns>(tile_, channels, rows, ahead);
    } else {
      const auto are_whole = [=](int64_t pairs) { return channels % (kLanesPerPair * pairs) == 0; };
      const Agreement agreement = agreement_in_tile(rows);
      if (agreement <= Agreement::kRare) {
        count_in<ColumnPairs<kPairsIfDistinct, kRowsIfDistinct>>(tile_, channels, rows, ahead);
      } else if (agreement == Agreement::kUsual && are_whole(kMostPairsIfRepeated)) {
        count_in<ColumnPairs<kMostPairsIfRepeated>>(tile_, channels, rows, ahead);
      } else if (agreement != Agreement::kComplete && are_whole(kMorePairsIfRepeated)) {
        count_in<ColumnPairs<kMorePairsIfRepeated>>(tile_, channels, rows, ahead);
      } else {
        count_in<ColumnPairs<kPairsIfRepeated>>(tile_, channels, rows, ahead);
      }
    }
  }

  /// How often a value equals the one below it. Each row is sampled in another channel, because all
  /// channels may change in the same row.
  Agreement agreement_in_tile(int64_t rows) const {
    const int64_t diagonal = (rows - 1) * kLine / (kLine + 1);
    return agreement_of(tile_, diagonal, kLine + 1, kLine, index_);
  }

  template <class Shape>
  void count_in(const T* tile, int64_t channels, int64_t rows, Ahead& ahead) {
    constexpr int64_t kTurns = Shape::kTurns;
    const FixedSteps<1, kLine + 1 - kLanes, kLanes, kTurns * kLine> steps;
    const int64_t table_size = tables_.table_size();
    const int64_t turns = rows / kTurns;
    for (int64_t channel = 0; channel < channels; channel += Shape::kTables * kLanes) {
      Counter* tables = tables_.at() + channel / kLanes * table_size;
      count_batches<Shape>(tile + channel, steps, turns, index_, tables, table_size, ahead);
    }
    if constexpr (kTurns > 1) {
      if (const int64_t counted = turns * kTurns; counted < rows) {
        count_in<ColumnPairs<kPairsIfRepeated>>(
            tile + counted * kLine, channels, rows - counted, ahead);
      }
    }
  }

  /// Copies the first rows to lines of the tile. A line may have more bytes behind the channels.
  void copy_rows(const InputPanel<T>& panel, int64_t size) const {
    const auto& [data, channels, rows] = panel;
    if (channels.stride != 1) {
      for (int64_t row = 0; row < size; ++row) {
        for (int64_t channel = 0; channel < channels.size; ++channel) {
          tile_[row * kLine + channel] = data[row * rows.stride + channel * channels.stride];
        }
      }
      return;
    }
    // A whole line is copied faster than a part; it must end before the last row does.
    const int64_t last = (rows.size - 1) * rows.stride + channels.size - kLine;
    const int64_t lines = last < 0 ? 0 : std::min(size, last / rows.stride + 1);
    for (int64_t row = 0; row < lines; ++row) {
      std::memcpy(tile_ + row * kLine, data + row * rows.stride, kLineBytes);
    }
    for (int64_t row = lines; row < size; ++row) {
      std::copy_n(data + row * rows.stride, channels.size, tile_ + row * kLine);
    }
  }

  void reduce_tables() {
    constexpr int64_t kFirst = IndexOf<T>::kFirst;
    result_.locked([&] {
      for (int64_t channel = 0; channel < result_.num_channels(); ++channel) {
        const Counter* table = tables_.counts() + channel / kLanes * tables_.table_size();
        const Counter* lane = table + channel % kLanes;
        result_.put(
            channel, [=](int64_t pattern) { return int64_t{lane[kLanes * (pattern + kFirst)]}; });
      }
    });
  }

  Result& result_;
  IndexOf<T> index_;
  CounterTables<Counter, OneColumnShape> tables_;
  T* tile_;
};

} // namespace

void count_columns(const Job& job, int64_t worker) {
  visit_pattern_type(size_of(job.problem.type), [&](auto tag) {
    using T = typename decltype(tag)::type;
    visit_counter_type(job.plan.counting, [&](auto counter) {
      count_strips<ValueColumns<T, typename decltype(counter)::type>>(job, worker);
    });
  });
}

} // namespace histo::cpu
