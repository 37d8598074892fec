// The CPU engine. Channels are cut into strips that share tables of small counters, and
// strips into tasks by their rows; a thread takes a task, counts in its tables and folds
// them into the result. Many bytes are counted by products of matrices (matrix_products.h), or those
// side by side as bits (bit_planes.h), where the processor can. What needs no table, or has none that
// fits, is counted in the result itself.
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>

#include <torch/csrc/stable/ops.h>

#include "bit_planes.h"
#include "kernels.h"
#include "loops.h"
#include "matrix_products.h"
#include "plan.h"
#include "vectorized.h"

namespace histo::cpu {
namespace {

using namespace tuning;

/// Calls f(begin, end) for parts of [0, size), in threads.
template <class F>
void parallel_for(int64_t size, int64_t grain, const F& f) {
  if (size <= grain || num_threads() == 1) {
    f(int64_t{0}, size);
  } else {
    torch::stable::parallel_for(0, size, grain, f);
  }
}

/// `channels x rows` elements: a rectangle of the input.
template <class T>
struct Panel {
  const T* data;
  Extent channels;
  Extent rows;
};

/// Calls f(first, run) for every stretch of [begin, end) that stays within one
/// step of the outer loops: `first` is its offset in elements.
template <size_t kLoops, class F>
void for_each_run(const Extent (&loops)[kLoops], int64_t begin, int64_t end, const F& f) {
  const Extent& inner = loops[kLoops - 1];
  for (int64_t i = begin; i < end;) {
    const int64_t within = i % inner.size;
    const int64_t size = std::min(inner.size - within, end - i);
    int64_t run = i / inner.size;
    int64_t offset = within * inner.stride;
    for (size_t loop = kLoops - 2; loop > 0; --loop) {
      offset += run % loops[loop].size * loops[loop].stride;
      run /= loops[loop].size;
    }
    f(offset + run * loops[0].stride, Extent{size, inner.stride});
    i += size;
  }
}

bool are_in_huge_pages(int64_t counts) {
  return counts * static_cast<int64_t>(sizeof(int64_t)) >= kMinHugeBytes;
}

/// Half the time of a result of many pages would go by for handing them out one by one.
void advise_huge_pages([[maybe_unused]] int64_t* counts, [[maybe_unused]] int64_t size) {
#ifdef MADV_HUGEPAGE
  if (are_in_huge_pages(size)) {
    const auto begin = reinterpret_cast<uintptr_t>(counts);
    const auto first = (begin + 4095) / 4096 * 4096;
    // Where the system has no such pages, nothing is lost.
    const auto end = reinterpret_cast<uintptr_t>(counts + size);
    (void)madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
  }
#endif
}

void fill_zero(int64_t* counts, int64_t size) {
  parallel_for(size, kMinCountersPerTask, [&](int64_t begin, int64_t end) {
    std::fill(counts + begin, counts + end, 0);
  });
}

// --- Counting in tables -------------------------------------------------------------------

/// Counts strips in the tables of one thread.
template <class T, Counting kCounting, class Binning>
class Tables {
 public:
  Tables(const Problem& problem, const Plan& plan, const Binning& binning, char* scratch)
      : problem_(problem),
        plan_(plan),
        binning_(binning),
        few_{plan.few, scratch},
        many_{plan.many, scratch + plan.few.bytes()},
        planes_{plan.few, scratch},
        sums_{plan.few, scratch},
        tile_(scratch + plan.table_bytes),
        own_bins_(kBytes ? bytes_that_are_bins(problem.type, binning) : problem.num_bins),
        max_bytes_held_(kMaxHeldPerByte * (kBytes ? plan.byte_values : problem.num_bins)) {
    // Slots without a channel are counted too.
    std::memset(tile_, 0, static_cast<size_t>(plan.tile_bytes - plan.byte_room()));
  }

  /// Adds the rows [begin_row, end_row) of `size` channels from channel `first` on, which
  /// lie in one run. Others may add to the same counts, of which they hold the lock; without
  /// a lock nobody does, and the counts are not initialized. What is counted is in the counts
  /// when other channels have been counted, or after finish().
  void count(int64_t first, int64_t size, int64_t begin_row, int64_t end_row, std::mutex* lock) {
    int64_t* histograms = problem_.counts + first * problem_.num_bins;
    if (histograms != histograms_) {
      finish();
      num_channels_ = size;
      histograms_ = histograms;
      lock_ = lock;
      fresh_ = lock == nullptr;
    }
    for_each_run(problem_.channels, first, first + size, [&](int64_t offset, const Extent& run) {
      const T* data = static_cast<const T*>(problem_.data) + offset;
      for_each_run(problem_.rows, begin_row, end_row, [&](int64_t row, const Extent& rows) {
        const Panel<T> panel{data + row, run, rows};
        // What is likely to be counted next: more rows, or the next strip.
        const T* next = end_row < problem_.num_rows() ? panel.data + rows.size * rows.stride
                                                      : data + run.size * run.stride;
        if (plan_.way == Way::kStreams) {
          count_streams(panel);
        } else if (plan_.way == Way::kColumns) {
          count_columns(panel, next);
        } else if (plan_.way == Way::kBitPlanes) {
          count_in_bit_planes(panel, next);
        } else {
          count_by_products(panel, next);
        }
      });
    });
  }

  void finish() {
    if constexpr (kInBytes) {
      move_bytes();
    }
    fold(few_);
    fold(many_);
    fold(planes_);
    fold(sums_);
  }

 private:
  static constexpr bool kBytes = sizeof(T) == 1;
  static constexpr bool kStaged = kCounting == Counting::kStaged;
  static constexpr bool kIn32Bits = kCounting == Counting::kIn32Bits;
  /// Where values differ, they may be counted in counters of 8 bits.
  static constexpr bool kInBytes = kStaged || (kBytes && kIn32Bits);
  /// So many channels side by side, so many of their rows in turns.
  template <int kPairs, int kRows = 1>
  using Pairs = Shape<kPairs, kSlotsPerPair, kRows * kSlotsPerPair, kUnrolledElements>;
  using Single = Shape<1, 1, 1, kUnrolledElements>;
  using Few = std::conditional_t<
      kStaged,
      Single,
      std::conditional_t<
          kIn32Bits,
          Shape<kBytes ? kTablesOfPairs : kFewTablesOf32Bits, 1, 1, kUnrolledOf32Bits>,
          Shape<kTablesWhereValuesDiffer, 1, kRunWhereValuesDiffer, kUnrolledWhereValuesDiffer>>>;
  static constexpr int kManySlots = kIn32Bits ? 1 : kBytes ? kSlotsOfBytes : kSlotsOfIndices;
  static constexpr int kManyCounters = kIn32Bits ? kTablesOf32Bits : kCountersWhereValuesAgree;
  static constexpr int64_t kManyUnrolled = kIn32Bits ? kUnrolledOf32Bits : kUnrolledElements;
  template <int64_t kFetched>
  using Slots = Shape<kManyCounters / kManySlots, kManySlots, kManySlots, kManyUnrolled, kFetched>;
  static constexpr int64_t kManyFetched = kBytes || kIn32Bits ? 0 : kElementsFetched;
  using Many = std::conditional_t<kStaged, Pairs<1>, Slots<kManyFetched>>;
  static constexpr int64_t kLine = kLineBytes / static_cast<int64_t>(sizeof(T));

  /// A group of tables as it is used.
  template <class TheCounter, class TheShape>
  struct Counters {
    using Counter = TheCounter;
    using Shape = TheShape;

    const Group& group;
    char* scratch;    // of the first channel
    int64_t held = 0; // no counter has more
    bool in_use = false;

    int64_t table_size() const {
      return group.table_bytes / static_cast<int64_t>(sizeof(Counter));
    }
  };
  // [table][index][slot]
  using FewCounters = Counters<std::conditional_t<kIn32Bits, uint32_t, uint16_t>, Few>;
  using ManyCounters = Counters<std::conditional_t<kStaged || kIn32Bits, uint32_t, uint16_t>, Many>;
  using PlaneCounters = Counters<int64_t, void>; // they hold every count
  using ProductSums = Counters<uint32_t, Single>;
  /// Of a counter, so that those of an index together have less than 2^32.
  template <class Counters>
  static constexpr int64_t kMaxCount =
      std::is_same_v<Counters, ProductSums>     ? kMaxProductBytes
      : sizeof(typename Counters::Counter) == 2 ? UINT16_MAX
                                                : UINT32_MAX / Counters::Shape::kCounters;

  template <class Counters>
  typename Counters::Counter* tables_of(const Counters& counters, int64_t channel) const {
    return reinterpret_cast<typename Counters::Counter*>(
        counters.scratch + channel * (plan_.few.bytes() + plan_.many.bytes()));
  }

  /// Index 0 is what counts nowhere, but of bytes: those are binned when they are folded.
  auto index_of() const {
    if constexpr (kBytes) {
      return [](T value) { return static_cast<size_t>(value); };
    } else {
      return [binning = binning_](T value) {
        // Once for all uses, and as wide as they need it.
        using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
        int64_t bin = binning(read_once(Wide{value}));
        // Or else the compiler makes a branch of it, which data could make mispredicted.
        __asm__ volatile("" : "+r"(bin));
        return static_cast<size_t>(bin + 1);
      };
    }
  }

  /// Makes room for so many more in every counter.
  template <class Counters>
  void hold(Counters& counters, int64_t count) {
    if constexpr (!kIn32Bits && std::is_same_v<Counters, FewCounters>) {
      const bool single = kStaged || plan_.joint;
      if (single && counters.in_use && counters.held + count > kMaxCount<Counters>) {
        // No counter of so many has counted much, as a rule.
        counters.held = 0;
        for (int64_t channel = 0; channel < num_channels_; ++channel) {
          counters.held |= bound_of(tables_of(counters, channel), counters.group.indices);
        }
      }
    }
    if (counters.held + count > kMaxCount<Counters>) {
      fold(counters);
    }
    counters.held += count;
  }

  /// Clears them when they are needed first: most inputs need one of the groups.
  template <class Counters>
  void use(Counters& counters) {
    if (counters.in_use) {
      return;
    }
    const Group& group = counters.group;
    const int64_t channels = plan_.way == Way::kStreams ? num_channels_ : 1;
    for (int64_t channel = 0; channel < channels; ++channel) {
      auto* table = tables_of(counters, channel);
      for (int64_t i = 0; i < group.tables; ++i, table += counters.table_size()) {
        std::fill_n(table, group.slots * group.indices, 0);
      }
    }
    counters.in_use = true;
  }

  // --- Streams

  void count_streams(const Panel<T>& panel) {
    const auto& [data, channels, rows] = panel;
    // Channels that lie together read a chunk in turns, from the first-level cache.
    const int64_t row_bytes = std::max<int64_t>(rows.stride, 1) * static_cast<int64_t>(sizeof(T));
    const int64_t ahead_bytes = kStaged || channels.size > 1 ? kChunkBytes : kAheadBytes;
    const int64_t ahead_rows = ahead_bytes / row_bytes;
    const int64_t alone = kStaged          ? kWideChunkElements
                          : plan_.products ? kProducts * kMaxProductBytes // as many as sums hold
                                           : kChunkElements;
    const int64_t together = kStaged ? kStagedElements : std::max(kMinStream, ahead_rows);
    const int64_t chunk = channels.size > 1 ? together : alone;
    for (int64_t row = 0, size = 0; row < rows.size; row += size) {
      const T* first = data + row * rows.stride;
      if constexpr (kInBytes) {
        size = count_in_bytes(first, rows.size - row);
        if (size > 0) {
          continue;
        }
      }
      size = std::min(chunk, rows.size - row);
      if (plan_.products) {
        hold(sums_, ceil_div(size, kProducts * kLineBytes) * kLineBytes);
      } else if constexpr (kStaged) {
        hold(many_, size); // of a run, to one counter
      } else {
        // What is left of the last row goes to one counter.
        hold(few_, plan_.joint ? size / 2 : size / Few::kCounters + Few::kPerRow);
        hold(many_, size / Many::kCounters + Many::kPerRow);
      }
      const bool more = row + size + ahead_rows <= rows.size;
      Ahead ahead{
          reinterpret_cast<const char*>(more ? first + ahead_rows * rows.stride : first),
          more ? kLineBytes : 0};
      for (int64_t channel = 0; channel < channels.size; ++channel, first += channels.stride) {
        count_stream(first, rows.stride, size, channel, ahead);
      }
    }
  }

  void count_stream(const T* data, int64_t step, int64_t size, int64_t channel, Ahead& ahead) {
    if constexpr (kBytes && kIn32Bits) {
      if (plan_.products) {
        use(sums_);
        add_products(data, size, tables_of(sums_, channel));
        return;
      }
    }
    if constexpr (kBytes) {
      if (plan_.joint) {
        count_joint(data, size, channel, ahead);
        return;
      }
    }
    if constexpr (kStaged) {
      count_wide(data, step, size, channel, ahead);
    } else if constexpr (kBytes && kIn32Bits) {
      count_stream_in<Many>(many_, data, step, size, index_of(), channel, ahead);
    } else {
      const auto index = index_of();
      const int64_t distance = kSampledDistance;
      const Agreement agreement = agreement_of(data, size - distance, step, distance * step, index);
      if (agreement <= Agreement::kRare) {
        count_stream_in<Few>(few_, data, step, size, index, channel, ahead);
      } else if (
          !kBytes && !kIn32Bits && agreement == Agreement::kComplete && step == 1 &&
          size >= kUnfetchedSample + distance &&
          std::memcmp(data, data + distance, kUnfetchedSample * sizeof(T)) == 0) {
        count_stream_in<Slots<0>>(many_, data, step, size, index, channel, ahead);
      } else {
        count_stream_in<Many>(many_, data, step, size, index, channel, ahead);
      }
    }
  }

  /// More bins than the first-level cache holds counters.
  void count_wide(const T* data, int64_t step, int64_t size, int64_t channel, Ahead& ahead) {
    using Unsigned = std::make_unsigned_t<T>;
    constexpr uint64_t kMax = std::numeric_limits<Unsigned>::max();
    const auto last =
        static_cast<Unsigned>(std::min(static_cast<uint64_t>(problem_.num_bins), kMax));
    // Compilers vectorize this one, and not index_of().
    const auto clamped = [=](T value) { return std::min(static_cast<Unsigned>(value), last); };
    const auto agreement_at = [&](int64_t distance) {
      return agreement_of(data, size - distance, step, distance * step, clamped);
    };
    Agreement neighbours = agreement_at(1);
    const Agreement others =
        neighbours == Agreement::kNone ? agreement_at(kSampledDistance) : neighbours;
    if (plan_.few.indices > 0 && others == Agreement::kNone) {
      hold(few_, size);
      count_stream_in<Few>(few_, data, step, size, index_of(), channel, ahead);
      return;
    }
    if (neighbours == Agreement::kNone && others == Agreement::kComplete) {
      neighbours = Agreement::kUsual; // two values that take turns
    }
    byte_pause_ = std::max<int64_t>(byte_pause_, 1);
    // A line of indices may stand for two of elements: what lies across both is fetched.
    const bool two_lines = sizeof(T) > sizeof(uint32_t) && ahead.step != 0;
    Ahead lines = two_lines ? Ahead{ahead.line + kLineBytes / 2, 2 * ahead.step} : ahead;
    for (int64_t i = 0; i < size; i += kStagedElements) {
      const int64_t staged = std::min(kStagedElements, size - i);
      count_indices(stage(data + i * step, step, staged), staged, neighbours, channel, lines);
    }
    ahead.line = lines.line;
  }

  /// Counts values that differ in counters of 8 bits, of bytes two as one: those up to one that has
  /// no counter. Returns how many, or 0 where another way is likely to be faster.
  int64_t count_in_bytes(const T* data, int64_t size) {
    using Unsigned = std::make_unsigned_t<T>;
    using Value = std::conditional_t<kBytes, TwoBytes, Unsigned>;
    constexpr int64_t kElements = sizeof(Value) / sizeof(T);
    size = std::min(size / kElements, kByteChunkElements);
    if (plan_.byte_values == 0 || size < kMinByteElements) {
      return 0;
    }
    if (byte_pause_ > 0) {
      --byte_pause_;
      return 0;
    }
    byte_pause_ = kPauseOfAgreeing; // unless all are counted
    const auto* values = reinterpret_cast<const Value*>(data);
    const auto index = [](Value value) {
      if constexpr (kBytes) {
        return value.index();
      } else {
        return value;
      }
    };
    const Agreement most = kBytes ? Agreement::kRare : Agreement::kNone;
    int64_t distance = 1;
    for (int64_t i = 0; i + kWideChunkElements <= size; i += kBytesSampledEach) {
      const int64_t sampled = kWideChunkElements - distance;
      if (agreement_of(values + i, sampled, 1, distance, index) > most) {
        return 0;
      }
      distance = distance == 1 ? kSampledDistance : 1;
    }
    byte_pause_ = kPauseOfUncounted;
    if (bytes_held_ == 0) {
      std::fill_n(byte_counters(), plan_.byte_values, 0);
    }
    const auto count = [&](auto added, int64_t all) {
      if constexpr (kBytes) {
        return count_neighbours<added>(data, all, byte_counters());
      } else {
        constexpr auto kMax = static_cast<uint64_t>(std::numeric_limits<T>::max());
        const auto highest = std::min(static_cast<uint64_t>(plan_.byte_values - 1), kMax);
        const auto outside = static_cast<Unsigned>(~highest);
        return count_values<added>(values, all, outside, byte_counters());
      }
    };
    const int64_t counted = count(std::integral_constant<int, 1>{}, size);
    if (counted == 0) {
      return 0;
    }
    // A counter that wraps loses 256, and so does the sum of all. This chunk is then taken back,
    // and from now on counters are moved before.
    if (sum_of(byte_counters(), plan_.byte_values) != bytes_held_ + counted) {
      count(std::integral_constant<int, -1>{}, counted);
      max_bytes_held_ = bytes_held_ / 8 * 7;
      if (max_bytes_held_ < kMinHeldPerByte * plan_.byte_values) {
        byte_pause_ = std::numeric_limits<int64_t>::max();
      }
      move_bytes();
      return 0;
    }
    if (counted == size) {
      byte_pause_ = 0;
    }
    bytes_held_ += counted;
    if (bytes_held_ > max_bytes_held_) {
      move_bytes();
    }
    return kElements * counted;
  }

  uint8_t* byte_counters() const {
    return reinterpret_cast<uint8_t*>(tile_ + plan_.tile_bytes - plan_.byte_room());
  }

  /// To those of 16 bits, or of two bytes to the counts.
  void move_bytes() {
    if (bytes_held_ == 0) {
      return;
    }
    bytes_held_ = 0;
    if constexpr (kBytes) {
      put_locked([&] { put_joint(byte_counters(), histograms_); });
    } else {
      hold(few_, UINT8_MAX);
      use(few_);
      const uint8_t* counters = byte_counters();
      uint16_t* table = tables_of(few_, 0) + 1;
      for (int64_t bin = 0; bin < problem_.num_bins; ++bin) {
        table[bin] = static_cast<uint16_t>(table[bin] + counters[bin]);
      }
    }
  }

  const uint32_t* stage(const T* data, int64_t step, int64_t size) const {
    auto* indices = reinterpret_cast<uint32_t*>(tile_);
    if (step == 1) {
      make_indices(data, size, problem_.num_bins, indices);
      return indices;
    }
    const auto index = index_of();
    for (int64_t i = 0; i < size; ++i) {
      indices[i] = static_cast<uint32_t>(index(data[i * step]));
    }
    return indices;
  }

  void count_indices(
      const uint32_t* indices, int64_t size, Agreement neighbours, int64_t channel, Ahead& ahead) {
    use(many_);
    auto* table = tables_of(many_, channel);
    if (neighbours == Agreement::kComplete) {
      count_runs<Many::kSlots>(indices, size, table, ahead);
    } else if (
        neighbours != Agreement::kUsual || !count_two_values<Many::kSlots>(indices, size, table)) {
      const auto same = [](uint32_t index) { return static_cast<size_t>(index); };
      count_stream_in<Many>(many_, indices, 1, size, same, channel, ahead);
    }
  }

  void count_joint(const T* data, int64_t size, int64_t channel, Ahead& ahead) {
    const auto* neighbours = reinterpret_cast<const TwoBytes*>(data);
    const auto index = [](TwoBytes both) { return both.index(); };
    const int64_t half = size / 2;
    const auto differ = [&] {
      return agreement_of(neighbours, half - 1, 1, 1, index) <= Agreement::kRare;
    };
    int64_t counted = 0;
    if constexpr (kIn32Bits) {
      // A larger part of the channel has shown that few pairs are met often, or this one does.
      if (byte_pause_ > 1 || !differ()) {
        use(few_);
        counted = count_pairs(data, size, tables_of(few_, channel));
      }
    } else {
      // Or the first bytes are all the same, or two in turns.
      const auto part = static_cast<size_t>(size / kPartOfAlternating);
      if (differ() || std::memcmp(data, data + 2, part) == 0) {
        count_stream_in<Single>(few_, neighbours, 1, half, index, channel, ahead);
        counted = 2 * half;
      }
    }
    if (counted < size) {
      count_stream_in<Many>(many_, data + counted, 1, size - counted, index_of(), channel, ahead);
    }
  }

  template <class Shape, class Counters, class U, class IndexOf>
  void count_stream_in(
      Counters& counters,
      const U* data,
      int64_t step,
      int64_t size,
      const IndexOf& index,
      int64_t channel,
      Ahead& ahead) {
    use(counters);
    auto* tables = tables_of(counters, channel);
    const int64_t rows = size / Shape::kPerRow;
    const auto count = [&](const auto& steps) {
      count_rows<Shape>(data, steps, rows, index, tables, counters.table_size(), ahead);
    };
    // Pixels of three channels, too; with counters of 16 bits it was not measured.
    constexpr int64_t kPixel = kIn32Bits ? 3 : 1;
    if (step == 1) {
      count(FixedSteps<1, 1, Shape::kRun, Shape::kPerRow>{});
    } else if (step == kPixel) {
      count(FixedSteps<kPixel, kPixel, kPixel * Shape::kRun, kPixel * Shape::kPerRow>{});
    } else {
      count(Steps{step, step, Shape::kRun * step, Shape::kPerRow * step});
    }
    for (int64_t i = rows * Shape::kPerRow; i < size; ++i) {
      ++tables[Shape::kSlots * index(data[i * step])];
    }
  }

  // --- Columns

  void count_columns(const Panel<T>& panel, const T* next) {
    if constexpr (!kStaged) { // the plan has none
      const auto& [data, channels, rows] = panel;
      const auto index = index_of();
      auto* tile = reinterpret_cast<T*>(tile_);
      const int64_t tiles = ceil_div(rows.size, kTileRows);
      for (int64_t i = 0; i < tiles; ++i) {
        const int64_t row = cut(rows.size, i, tiles);
        const int64_t size = cut(rows.size, i + 1, tiles) - row;
        const T* first = data + row * rows.stride;
        copy_rows(Panel<T>{first, channels, {size, rows.stride}}, rows.size - row, tile);
        Ahead ahead = after(panel, row + size, next);
        if constexpr (kIn32Bits) {
          hold(many_, size);
          use(many_);
          count_tile<Many>(many_, tile, channels.size, size, ahead);
          continue;
        }
        hold(few_, size);
        use(few_);
        // Of each row another channel: where values seldom change, they may in one row.
        const int64_t diagonal = (size - 1) * kLine / (kLine + 1);
        const Agreement agreement = agreement_of(tile, diagonal, kLine + 1, kLine, index);
        const auto whole = [width = channels.size](int64_t pairs) {
          return width % (kSlotsPerPair * pairs) == 0;
        };
        if (agreement <= Agreement::kRare) {
          count_tile<Pairs<kPairsWhereValuesDiffer, kRowsWhereValuesDiffer>>(
              few_, tile, channels.size, size, ahead);
        } else if (agreement == Agreement::kUsual && whole(kMostPairsWhereValuesAgree)) {
          count_tile<Pairs<kMostPairsWhereValuesAgree>>(few_, tile, channels.size, size, ahead);
        } else if (agreement != Agreement::kComplete && whole(kMorePairsWhereValuesAgree)) {
          count_tile<Pairs<kMorePairsWhereValuesAgree>>(few_, tile, channels.size, size, ahead);
        } else {
          count_tile<Pairs<kPairsWhereValuesAgree>>(few_, tile, channels.size, size, ahead);
        }
      }
    }
  }

  /// Row `row` of a panel and those that follow, or what comes after all of them.
  static Ahead after(const Panel<T>& panel, int64_t row, const T* next) {
    const Extent& rows = panel.rows;
    const T* first = row < rows.size ? panel.data + row * rows.stride : next;
    return {reinterpret_cast<const char*>(first), rows.stride * static_cast<int64_t>(sizeof(T))};
  }

  template <class Shape, class Counters>
  void count_tile(
      const Counters& counters, const T* tile, int64_t channels, int64_t rows, Ahead& ahead) {
    constexpr int64_t kTurns = Shape::kTurns;
    constexpr int64_t kSlots = Shape::kSlots;
    const FixedSteps<1, kLine + 1 - kSlots, kSlots, kTurns * kLine> steps;
    const int64_t table_size = counters.table_size();
    const int64_t turns = rows / kTurns;
    for (int64_t channel = 0; channel < channels; channel += Shape::kTables * kSlots) {
      auto* tables = tables_of(counters, 0) + channel / kSlots * table_size;
      count_rows<Shape>(tile + channel, steps, turns, index_of(), tables, table_size, ahead);
    }
    if constexpr (kTurns > 1) {
      if (const int64_t counted = turns * kTurns; counted < rows) {
        count_tile<Pairs<kPairsWhereValuesAgree>>(
            counters, tile + counted * kLine, channels, rows - counted, ahead);
      }
    }
  }

  /// Rows to lines. What stands behind the channels of a row may be anything.
  void copy_rows(const Panel<T>& panel, int64_t readable_rows, T* tile) const {
    const auto& [data, channels, rows] = panel;
    if (channels.stride != 1) {
      for (int64_t row = 0; row < rows.size; ++row) {
        for (int64_t channel = 0; channel < channels.size; ++channel) {
          tile[row * kLine + channel] = data[row * rows.stride + channel * channels.stride];
        }
      }
      return;
    }
    // A whole line is copied faster than a part; it must end before the last row does.
    const int64_t last = (readable_rows - 1) * rows.stride + channels.size - kLine;
    const int64_t lines = last < 0 ? 0 : std::min(rows.size, last / rows.stride + 1);
    for (int64_t row = 0; row < lines; ++row) {
      std::memcpy(tile + row * kLine, data + row * rows.stride, kLineBytes);
    }
    for (int64_t row = lines; row < rows.size; ++row) {
      std::copy_n(data + row * rows.stride, channels.size, tile + row * kLine);
    }
  }

  void count_in_bit_planes(const Panel<T>& panel, const T* next) {
    if constexpr (kBytes) {
      const auto& [data, channels, rows] = panel;
      use(planes_);
      const int64_t blocks = ceil_div(rows.size, kPlaneBlockRows);
      const int64_t tiles = ceil_div(rows.size, kPlaneRows);
      for (int64_t i = 0; i < tiles; ++i) {
        const int64_t row = cut(blocks, i, tiles) * kPlaneBlockRows;
        const int64_t end = std::min(cut(blocks, i + 1, tiles) * kPlaneBlockRows, rows.size);
        const int64_t size = end - row;
        Ahead ahead = after(panel, row + size, next);
        count_bit_planes(
            {data + row * rows.stride, channels.size, size, rows.stride, rows.size - row}, ahead,
            tile_, tables_of(planes_, 0), planes_.table_size());
      }
    }
  }

  void count_by_products(const Panel<T>& panel, const T* next) {
    if constexpr (kBytes) {
      const auto& [data, channels, rows] = panel;
      const int64_t turns = ceil_div(rows.size, kProductTurnRows);
      const int64_t tiles =
          ceil_div(rows.size, are_far(rows.stride) ? kFarProductRows : kProductRows);
      for (int64_t i = 0; i < tiles; ++i) {
        const int64_t row = cut(turns, i, tiles) * kProductTurnRows;
        const int64_t size = std::min(cut(turns, i + 1, tiles) * kProductTurnRows, rows.size) - row;
        hold(sums_, size);
        use(sums_);
        add_column_products(
            {data + row * rows.stride, channels.size, size, rows.stride, rows.size - row},
            after(panel, row + size, next), tile_, tables_of(sums_, 0));
      }
    }
  }

  // --- Fold

  template <class Counters>
  void fold(Counters& counters) {
    counters.held = 0;
    if (!counters.in_use) {
      return;
    }
    counters.in_use = false;
    put_locked([&] {
      if constexpr (std::is_same_v<Counters, PlaneCounters>) {
        put_planes(counters);
      } else if constexpr (std::is_same_v<Counters, ProductSums>) {
        plan_.way == Way::kStreams ? put_stream_products(counters) : put_products(counters);
      } else {
        for (int64_t channel = 0; channel < num_channels_; ++channel) {
          int64_t* histogram = histograms_ + channel * problem_.num_bins;
          if (plan_.way == Way::kStreams) {
            fold_stream(counters, tables_of(counters, channel), histogram);
          } else {
            put_column(counters, channel, histogram);
          }
        }
      }
    });
  }

  /// Calls f, which puts counts where others may.
  template <class F>
  void put_locked(const F& f) {
    std::unique_lock<std::mutex> locked;
    if (lock_ != nullptr) {
      locked = std::unique_lock<std::mutex>(*lock_);
    }
    f();
    fresh_ = false;
  }

  Histograms places_of(int64_t* histograms, int64_t columns) const {
    const int64_t counts = problem_.num_counts();
    const bool past_caches = counts >= kMinCountsPastCaches &&
                             (plan_.way != Way::kProducts || !are_in_huge_pages(counts));
    return {histograms, problem_.num_bins, columns, own_bins_, !fresh_, past_caches};
  }

  void put_planes(const PlaneCounters& counters) const {
    const int64_t* table = tables_of(counters, 0);
    for (int64_t first = 0; first < num_channels_; first += kPlaneColumns) {
      const int64_t columns = std::min(kPlaneColumns, num_channels_ - first);
      int64_t* histograms = histograms_ + first * problem_.num_bins;
      put_bit_planes(table, places_of(histograms, columns));
      for (int64_t i = 0; i < columns; ++i) {
        const auto count_of = [=](int64_t byte) { return table[byte * kPlaneColumns + i]; };
        put_rest(histograms + i * problem_.num_bins, count_of);
      }
      table += counters.table_size();
    }
  }

  void put_products(const ProductSums& counters) const {
    const uint32_t* sums = tables_of(counters, 0);
    put_column_products(sums, places_of(histograms_, num_channels_));
    if (own_bins_ == 256 && problem_.num_bins == 256) {
      return;
    }
    for (int64_t channel = 0; channel < num_channels_; ++channel, sums += kSums) {
      uint32_t counts[256];
      counts_of_products(sums, 1, counts);
      put_rest(histograms_ + channel * problem_.num_bins, [&](int64_t byte) {
        return int64_t{counts[byte]};
      });
    }
  }

  void put_stream_products(const ProductSums& counters) const {
    for (int64_t channel = 0; channel < num_channels_; ++channel) {
      uint32_t counts[256];
      counts_of_products(tables_of(counters, channel), kProducts, counts);
      put(histograms_ + channel * problem_.num_bins,
          [&](int64_t index) { return int64_t{counts[index]}; });
    }
  }

  template <class Counters>
  void put_column(const Counters& counters, int64_t channel, int64_t* histogram) const {
    constexpr int64_t kSlots = std::is_same_v<Counters, FewCounters> ? kSlotsPerPair : 1;
    const auto* table = tables_of(counters, 0) + channel / kSlots * counters.table_size();
    table += channel % kSlots;
    put(histogram, [=](int64_t index) { return int64_t{table[kSlots * index]}; });
  }

  template <class Counters>
  void fold_stream(
      const Counters& counters,
      const typename Counters::Counter* tables,
      int64_t* histogram) const {
    using Shape = typename Counters::Shape;
    if constexpr (kBytes && std::is_same_v<Counters, FewCounters>) {
      if (plan_.joint) {
        put_joint(tables, histogram);
        return;
      }
    }
    put(histogram, [tables, table_size = counters.table_size()](int64_t index) {
      uint32_t sum = 0;
      for (int table = 0; table < Shape::kTables; ++table) {
        const auto* slots = tables + table * table_size + Shape::kSlots * index;
        if constexpr (sizeof *slots > 2 || Shape::kSlots == 1) {
          for (int slot = 0; slot < Shape::kSlots; ++slot) {
            sum += slots[slot];
          }
        } else {
          // Two at a time, which compilers vectorize better.
          for (int slot = 0; slot < Shape::kSlots; slot += 2) {
            uint32_t both;
            std::memcpy(&both, slots + slot, sizeof both);
            sum += (both & 0xffff) + (both >> 16);
          }
        }
      }
      return int64_t{sum};
    });
  }

  template <class Counter>
  void put_joint(const Counter* tables, int64_t* histogram) const {
    uint32_t sums[256];
    if constexpr (sizeof(Counter) == sizeof(uint32_t)) {
      fold_pairs(tables, sums);
    } else {
      fold_joint(tables, sums);
    }
    put(histogram, [&](int64_t index) { return int64_t{sums[index]}; });
  }

  /// Adds the count of every index to its bin; a fresh histogram is written instead.
  template <class CountOf>
  void put(int64_t* histogram, const CountOf& count_of) const {
    constexpr int64_t kFirst = kBytes ? 0 : 1;
    const int64_t own = own_bins_;
    if (fresh_) {
      for (int64_t bin = 0; bin < own; ++bin) {
        histogram[bin] = count_of(bin + kFirst);
      }
    } else {
      for (int64_t bin = 0; bin < own; ++bin) {
        histogram[bin] += count_of(bin + kFirst);
      }
    }
    put_rest(histogram, count_of);
  }

  /// Of bytes that are not their own bins; other bins of a fresh histogram are empty.
  template <class CountOf>
  void put_rest(int64_t* histogram, const CountOf& count_of) const {
    if (fresh_) {
      std::fill(histogram + own_bins_, histogram + problem_.num_bins, 0);
    }
    if constexpr (kBytes) {
      for (int64_t byte = own_bins_; byte < 256; ++byte) {
        const int64_t bin = bin_of_byte(problem_.type, binning_, static_cast<uint8_t>(byte));
        if (bin != kNoBin) {
          histogram[bin] += count_of(byte);
        }
      }
    }
  }

  const Problem& problem_;
  const Plan& plan_;
  Binning binning_;
  FewCounters few_; // of each channel, and behind them many_
  ManyCounters many_;
  PlaneCounters planes_; // in the place of few_, as these
  ProductSums sums_;
  char* tile_;
  int64_t own_bins_;       // values below are their own bins
  int64_t bytes_held_ = 0; // by all counters of 8 bits
  int64_t max_bytes_held_;
  int64_t byte_pause_ = 1; // so many chunks are counted otherwise

  int64_t num_channels_ = 0;
  int64_t* histograms_ = nullptr;
  std::mutex* lock_ = nullptr;
  bool fresh_ = false;
};

/// Calls f(worker) in as many threads as there are workers.
template <class F>
void run_workers(int64_t workers, const F& f) {
  parallel_for(workers, 1, [&](int64_t begin, int64_t end) {
    for (int64_t worker = begin; worker < end; ++worker) {
      f(worker);
    }
  });
}

template <class Binning>
void count_in_tables(
    const Problem& problem, const Plan& plan, const Binning& binning, const Allocator& allocate) {
  const Schedule schedule(problem, plan);
  const Strips& strips = schedule.strips;
  const int64_t workers = schedule.workers, pieces = schedule.pieces, tasks = schedule.tasks;
  const int64_t rows = problem.num_rows();
  // Where a strip is one task, that writes all its counts.
  if (pieces > 1) {
    fill_zero(problem.counts, problem.num_counts());
  }
  const int64_t batch = std::max<int64_t>(1, tasks / (workers * kTasksPerThread * 8));
  const int64_t scratch_bytes = schedule.scratch_bytes(plan);
  // The tables of a small call are on the stack: nothing is allocated but the result.
  alignas(kLineBytes) char on_stack[kStackBytes];
  char* scratch =
      scratch_bytes <= kStackBytes ? on_stack : static_cast<char*>(allocate(scratch_bytes));
  // Tasks that follow each other; each range on a line of its own.
  struct alignas(kLineBytes) Range {
    std::atomic<int64_t> next;
    int64_t end;
  };
  std::array<Range, kMaxRanges> ranges;
  const int64_t num_ranges = std::min(workers, kMaxRanges);
  for (int64_t i = 0; i < num_ranges; ++i) {
    Range& range = ranges[static_cast<size_t>(i)];
    range.next = cut(tasks, i, num_ranges);
    range.end = cut(tasks, i + 1, num_ranges);
  }
  static std::array<std::mutex, 64> locks; // of strips; those of several calls may share one

  const auto work = [&](auto tag, auto counting, int64_t worker) {
    using T = typename decltype(tag)::type;
    Tables<T, counting, Binning> tables(
        problem, plan, binning, scratch + worker * (plan.scratch_bytes() + kScratchGap));
    const auto count_task = [&](int64_t task) {
      const int64_t strip = task / pieces;
      const int64_t piece = task % pieces;
      const int64_t first = strips.first(strip), size = strips.size_of(strip);
      tables.count(
          first, size, cut(rows, piece, pieces), cut(rows, piece + 1, pieces),
          pieces == 1 ? nullptr : &locks[static_cast<size_t>(strip) % locks.size()]);
    };
    // Those of a range of its own, then what others have left of theirs.
    for (int64_t i = 0; i < num_ranges; ++i) {
      Range& range = ranges[static_cast<size_t>((worker + i) % num_ranges)];
      for (int64_t begin; (begin = range.next.fetch_add(batch)) < range.end;) {
        for (int64_t task = begin; task < std::min(range.end, begin + batch); ++task) {
          count_task(task);
        }
      }
    }
    tables.finish();
  };
  run_workers(workers, [&](int64_t worker) {
    visit_binned_type(problem.type, binning, [&](auto tag) {
      constexpr bool kBytes = sizeof(typename decltype(tag)::type) == 1;
      const std::conditional_t<kBytes, TypeTag<uint8_t>, decltype(tag)> type;
      if (plan.counting == Counting::kIn16Bits) {
        work(type, std::integral_constant<Counting, Counting::kIn16Bits>{}, worker);
      } else if (plan.counting == Counting::kIn32Bits) {
        work(type, std::integral_constant<Counting, Counting::kIn32Bits>{}, worker);
      } else if constexpr (!kBytes) {
        work(type, std::integral_constant<Counting, Counting::kStaged>{}, worker);
      }
    });
  });
}

// --- Counting in the result ---------------------------------------------------------------

/// Adds one panel to histograms that lie num_bins apart. kShared: other threads add to the
/// same ones.
template <bool kShared, class T, class Binning>
void count_panel(
    const Panel<T>& panel, const Binning& binning, int64_t num_bins, int64_t* histograms) {
  const auto& [data, channels, rows] = panel;
  const auto add = [&](int64_t channel, const T& element) {
    const int64_t bin = binning(read_once(element));
    if (bin == kNoBin) {
      return;
    }
    if constexpr (kShared) {
      __atomic_fetch_add(histograms + channel * num_bins + bin, 1, __ATOMIC_RELAXED);
    } else {
      ++histograms[channel * num_bins + bin];
    }
  };
  // As the elements lie in memory.
  if (channels.stride < rows.stride) {
    for (int64_t row = 0; row < rows.size; ++row) {
      for (int64_t channel = 0; channel < channels.size; ++channel) {
        add(channel, data[row * rows.stride + channel * channels.stride]);
      }
    }
  } else {
    for (int64_t channel = 0; channel < channels.size; ++channel) {
      for (int64_t row = 0; row < rows.size; ++row) {
        add(channel, data[row * rows.stride + channel * channels.stride]);
      }
    }
  }
}

/// Adds rows of channels, wherever their runs end.
template <bool kShared, class Binning>
void count_range(
    const Problem& problem,
    const Binning& binning,
    int64_t first_channel,
    int64_t last_channel,
    int64_t first_row,
    int64_t last_row,
    int64_t* counts) {
  visit_binned_type(problem.type, binning, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto* data = static_cast<const T*>(problem.data);
    int64_t* histograms = counts + first_channel * problem.num_bins;
    for_each_run(
        problem.channels, first_channel, last_channel,
        [&](int64_t channel_offset, const Extent& channels) {
          for_each_run(
              problem.rows, first_row, last_row, [&](int64_t row_offset, const Extent& rows) {
                const Panel<T> panel{data + channel_offset + row_offset, channels, rows};
                count_panel<kShared>(panel, binning, problem.num_bins, histograms);
              });
          histograms += channels.size * problem.num_bins;
        });
  });
}

void add_into(const int64_t* copies, int64_t num_copies, int64_t size, int64_t* counts) {
  parallel_for(size, kMinCountersPerTask, [&](int64_t begin, int64_t end) {
    std::copy(copies + begin, copies + end, counts + begin);
    for (int64_t copy = 1; copy < num_copies; ++copy) {
      for (int64_t i = begin; i < end; ++i) {
        counts[i] += copies[copy * size + i];
      }
    }
  });
}

template <class Binning>
void count_directly(
    const Problem& problem, const Plan& plan, const Binning& binning, const Allocator& allocate) {
  const int64_t channels = problem.num_channels();
  const int64_t rows = problem.num_rows();
  const int64_t size = problem.num_counts();
  const int64_t workers = workers_of(problem);
  const Sharing sharing = sharing_of(problem, plan);
  if (sharing == Sharing::kChannels) {
    // Channels that share cache lines stay together.
    const int64_t strips = ceil_div(channels, plan.strip);
    run_workers(workers, [&](int64_t worker) {
      const int64_t first = std::min(channels, cut(strips, worker, workers) * plan.strip);
      const int64_t last = std::min(channels, cut(strips, worker + 1, workers) * plan.strip);
      std::fill(
          problem.counts + first * problem.num_bins, problem.counts + last * problem.num_bins, 0);
      count_range<false>(problem, binning, first, last, 0, rows, problem.counts);
    });
    return;
  }
  const auto by_rows = [&](const auto& f) {
    run_workers(workers, [&](int64_t worker) {
      f(worker, cut(rows, worker, workers), cut(rows, worker + 1, workers));
    });
  };
  if (sharing == Sharing::kCopies) {
    const int64_t copies_bytes = workers * size * static_cast<int64_t>(sizeof(int64_t));
    auto* copies = static_cast<int64_t*>(allocate(copies_bytes));
    by_rows([&](int64_t worker, int64_t begin, int64_t end) {
      int64_t* copy = copies + worker * size;
      std::fill_n(copy, size, 0);
      count_range<false>(problem, binning, 0, channels, begin, end, copy);
    });
    add_into(copies, workers, size, problem.counts);
  } else {
    fill_zero(problem.counts, size);
    by_rows([&](int64_t, int64_t begin, int64_t end) {
      count_range<true>(problem, binning, 0, channels, begin, end, problem.counts);
    });
  }
}

} // namespace

template <class Binning>
void count(const Problem& problem, const Binning& binning, const Allocator& allocate) {
  if (problem.num_counts() == 0) {
    return;
  }
  advise_huge_pages(problem.counts, problem.num_counts());
  const Plan plan = plan_of(problem);
  if (plan.way == Way::kDirect) {
    count_directly(problem, plan, binning, allocate);
  } else {
    count_in_tables(problem, plan, binning, allocate);
  }
}

template void count(const Problem&, const ValueBinning&, const Allocator&);
template void count(const Problem&, const LetterBinning&, const Allocator&);

} // namespace histo::cpu
