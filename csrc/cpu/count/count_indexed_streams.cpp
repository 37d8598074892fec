// Streams of elements with more bins than the L1 cache holds counters for.
#include <algorithm>
#include <limits>

#include "cpu/count/index_counters.h"
#include "cpu/count/streams.h"
#include "cpu/count/strips.h"
#include "cpu/count/wrapping_counters.h"

namespace histo::cpu {
namespace {

using namespace tuning;

/// Distinct values are counted as they are, in 8-bit counters or in one table of 16-bit ones. Other
/// values become indices first.
template <class T>
class IndexedStreams {
 public:
  using Pattern = T;

  IndexedStreams(const CpuPlan& plan, Result& result, char* scratch)
      : result_(result),
        index_{result.axis().own_bins},
        has_table_if_distinct_(plan.tables_if_distinct.indices > 0),
        if_distinct_(plan.tables_if_distinct, scratch, plan.strip, plan.channel_bytes()),
        if_repeated_(
            plan.tables_if_repeated,
            scratch + plan.tables_if_distinct.bytes(),
            plan.strip,
            plan.channel_bytes()),
        indices_(reinterpret_cast<uint32_t*>(scratch + plan.table_bytes)),
        wrapping_(plan, scratch + plan.scratch_bytes() - plan.byte_room()) {
  }

  void count(const InputPanel<T>& panel, const T*) {
    const StreamChunks chunks(panel, kWideChunkElements, kChunkBytes, kIndexedElements);
    int64_t size = 0;
    for (InputPanel<T> rest = panel; rest.rows.size > 0; rest = rest.from(size)) {
      size = wrapping_.count(
          rest.data, rest.rows.size, [this](const uint8_t* counters) { add_wrapped(counters); });
      if (size > 0) {
        continue;
      }
      size = chunks.size(rest);
      if_repeated_.reserve(size, [&] { reduce(if_repeated_); }); // a run may add all to one counter
      Ahead ahead = chunks.ahead(rest, size);
      for_each_stream(rest.first(size), [&](const Stream<T>& stream, int64_t channel) {
        count_chunk(stream, channel, ahead);
      });
    }
  }

  void reduce() {
    wrapping_.reduce([this](const uint8_t* counters) { add_wrapped(counters); });
    if_distinct_.reduce([&] { reduce(if_distinct_); });
    if_repeated_.reduce([&] { reduce(if_repeated_); });
  }

 private:
  using SingleShape = CounterShape<1, 1, 1, kUnrolledElements>;
  static constexpr int64_t kFirst = IndexOf<T>::kFirst;

  void count_chunk(const Stream<T>& stream, int64_t channel, Ahead& ahead) {
    Agreement neighbours = agreement_at(1, stream);
    const Agreement others =
        neighbours == Agreement::kNone ? agreement_at(kSampledDistance, stream) : neighbours;
    if (has_table_if_distinct_ && others == Agreement::kNone) {
      if_distinct_.reserve_counted(stream.size, [&] { reduce(if_distinct_); });
      count_stream<SingleShape>(stream, index_, if_distinct_, channel, ahead);
      return;
    }
    if (neighbours == Agreement::kNone && others == Agreement::kComplete) {
      neighbours = Agreement::kUsual; // two values that take turns
    }
    wrapping_.pause();
    count_indexed(stream, neighbours, channel, ahead);
  }

  /// How often elements agree that lie this distance apart.
  Agreement agreement_at(int64_t distance, const Stream<T>& stream) const {
    constexpr uint64_t kMax = std::numeric_limits<T>::max();
    const auto last = static_cast<T>(std::min(static_cast<uint64_t>(index_.own_bins), kMax));
    // Compilers vectorize this one, and not index_.
    const auto clamped = [=](T pattern) { return std::min(pattern, last); };
    const auto& [data, step, size] = stream;
    return agreement_of(data, size - distance, step, distance * step, clamped);
  }

  void count_indexed(const Stream<T>& stream, Agreement neighbours, int64_t channel, Ahead& ahead) {
    // A line of 32-bit indices stands for two lines of 64-bit elements. From the middle of a line,
    // Ahead fetches that line and the next one.
    const bool two_lines = sizeof(T) > sizeof(uint32_t) && ahead.step != 0;
    Ahead lines = two_lines ? Ahead{ahead.line + kLineBytes / 2, 2 * ahead.step} : ahead;
    for (int64_t i = 0; i < stream.size; i += kIndexedElements) {
      const int64_t size = std::min(kIndexedElements, stream.size - i);
      make_stream_indices({stream.data + i * stream.step, stream.step, size});
      count_indices(indices_, size, neighbours, if_repeated_, channel, lines);
    }
    ahead.line = lines.line;
  }

  void make_stream_indices(const Stream<T>& stream) const {
    const auto& [data, step, size] = stream;
    if (step == 1) {
      make_indices(data, size, index_.own_bins, indices_);
      return;
    }
    for (int64_t i = 0; i < size; ++i) {
      indices_[i] = static_cast<uint32_t>(index_(data[i * step]));
    }
  }

  void add_wrapped(const uint8_t* counters) {
    if_distinct_.reserve_counted(UINT8_MAX, [&] { reduce(if_distinct_); });
    uint16_t* table = if_distinct_.at() + kFirst;
    for (int64_t bin = 0; bin < index_.own_bins; ++bin) {
      table[bin] = static_cast<uint16_t>(table[bin] + counters[bin]);
    }
  }

  template <class AnyTables>
  void reduce(const AnyTables& tables) {
    put_streams<kFirst>(tables, result_);
  }

  Result& result_;
  IndexOf<T> index_;
  bool has_table_if_distinct_;
  CounterTables<uint16_t, SingleShape> if_distinct_; // of each channel, before if_repeated_
  IndexTables if_repeated_;
  uint32_t* indices_;
  WrappingCounters<T> wrapping_;
};

} // namespace

void count_indexed_streams(const Job& job, int64_t worker) {
  visit_pattern_type(size_of(job.problem.type), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (sizeof(T) > 1) {
      count_strips<IndexedStreams<T>>(job, worker);
    } else {
      throw InternalError("count_indexed_streams: bytes have few bins");
    }
  });
}

} // namespace histo::cpu
