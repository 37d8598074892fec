// Streams of keys with more bins than the first-level cache holds counters for.
#include <algorithm>
#include <limits>

#include "cpu/count/index_counters.h"
#include "cpu/count/streams.h"
#include "cpu/count/strips.h"
#include "cpu/count/wrapping_counters.h"

namespace histo::cpu {
namespace {

using namespace tuning;

/// Values that differ are counted as they are, in 8-bit counters or in one table of 16-bit ones.
/// Other values are staged first.
template <class T>
class StagedStreams {
 public:
  using Key = T;

  StagedStreams(const Plan& plan, Result& result, char* scratch)
      : result_(result),
        index_{result.axis().own_bins},
        has_few_(plan.few.indices > 0),
        few_(plan.few, scratch, plan.strip, plan.channel_bytes()),
        many_(plan.many, scratch + plan.few.bytes(), plan.strip, plan.channel_bytes()),
        indices_(reinterpret_cast<uint32_t*>(scratch + plan.table_bytes)),
        wrapping_(plan, scratch + plan.scratch_bytes() - plan.byte_room()) {
  }

  void count(const Panel<T>& panel, const T*) {
    const Chunks chunks(panel, kWideChunkElements, kChunkBytes, kStagedElements);
    int64_t size = 0;
    for (Panel<T> rest = panel; rest.rows.size > 0; rest = rest.from(size)) {
      size = wrapping_.count(
          rest.data, rest.rows.size, [this](const uint8_t* counters) { add_wrapped(counters); });
      if (size > 0) {
        continue;
      }
      size = chunks.size(rest);
      many_.hold(size, [&] { reduce(many_); }); // a run may add all to one counter
      Ahead ahead = chunks.ahead(rest, size);
      for_each_stream(rest.first(size), [&](const Stream<T>& stream, int64_t channel) {
        count_chunk(stream, channel, ahead);
      });
    }
  }

  void reduce() {
    wrapping_.reduce([this](const uint8_t* counters) { add_wrapped(counters); });
    few_.reduce([&] { reduce(few_); });
    many_.reduce([&] { reduce(many_); });
  }

 private:
  using Single = Shape<1, 1, 1, kUnrolledElements>;
  static constexpr int64_t kFirst = IndexOf<T>::kFirst;

  void count_chunk(const Stream<T>& stream, int64_t channel, Ahead& ahead) {
    Agreement neighbours = agreement_at(1, stream);
    const Agreement others =
        neighbours == Agreement::kNone ? agreement_at(kSampledDistance, stream) : neighbours;
    if (has_few_ && others == Agreement::kNone) {
      few_.hold_counted(stream.size, [&] { reduce(few_); });
      count_stream<Single>(stream, index_, few_, channel, ahead);
      return;
    }
    if (neighbours == Agreement::kNone && others == Agreement::kComplete) {
      neighbours = Agreement::kUsual; // two values that take turns
    }
    wrapping_.pause();
    count_staged(stream, neighbours, channel, ahead);
  }

  /// How often keys agree that lie this distance apart.
  Agreement agreement_at(int64_t distance, const Stream<T>& stream) const {
    constexpr uint64_t kMax = std::numeric_limits<T>::max();
    const auto last = static_cast<T>(std::min(static_cast<uint64_t>(index_.own_bins), kMax));
    // Compilers vectorize this one, and not index_.
    const auto clamped = [=](T key) { return std::min(key, last); };
    const auto& [data, step, size] = stream;
    return agreement_of(data, size - distance, step, distance * step, clamped);
  }

  void count_staged(const Stream<T>& stream, Agreement neighbours, int64_t channel, Ahead& ahead) {
    // A line of 32-bit indices stands for two lines of 64-bit keys. From the middle of a line,
    // Ahead fetches that line and the next one.
    const bool two_lines = sizeof(T) > sizeof(uint32_t) && ahead.step != 0;
    Ahead lines = two_lines ? Ahead{ahead.line + kLineBytes / 2, 2 * ahead.step} : ahead;
    for (int64_t i = 0; i < stream.size; i += kStagedElements) {
      const int64_t size = std::min(kStagedElements, stream.size - i);
      stage({stream.data + i * stream.step, stream.step, size});
      count_indices(indices_, size, neighbours, many_, channel, lines);
    }
    ahead.line = lines.line;
  }

  void stage(const Stream<T>& stream) const {
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
    few_.hold_counted(UINT8_MAX, [&] { reduce(few_); });
    uint16_t* table = few_.at() + kFirst;
    for (int64_t bin = 0; bin < index_.own_bins; ++bin) {
      table[bin] = static_cast<uint16_t>(table[bin] + counters[bin]);
    }
  }

  template <class Tables>
  void reduce(const Tables& tables) {
    put_streams<kFirst>(tables, result_);
  }

  Result& result_;
  IndexOf<T> index_;
  bool has_few_;
  Tables<uint16_t, Single> few_; // one for each channel, followed by many_
  IndexTables many_;
  uint32_t* indices_;
  WrappingCounters<T> wrapping_;
};

} // namespace

void count_staged_streams(const Job& job, int64_t worker) {
  visit_key_type(size_of(job.problem.type), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (sizeof(T) > 1) {
      count_strips<StagedStreams<T>>(job, worker);
    } else {
      throw InternalError("count_staged_streams: bytes have few bins");
    }
  });
}

} // namespace histo::cpu
