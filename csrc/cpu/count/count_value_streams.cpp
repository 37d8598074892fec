// Streams of elements with up to 4096 bins, in several counters of each bin.
#include <cstring>
#include <type_traits>

#include "cpu/count/streams.h"
#include "cpu/count/strips.h"

namespace histo::cpu {
namespace {

using namespace tuning;

/// Counts in one of two groups of tables. A sample of each chunk tells whether values agree.
template <class T, class Counter>
class ValueStreams {
 public:
  using Pattern = T;

  ValueStreams(const CpuPlan& plan, Result& result, char* scratch)
      : result_(result),
        index_{result.axis().own_bins},
        if_distinct_(plan.tables_if_distinct, scratch, plan.strip, plan.channel_bytes()),
        if_repeated_(
            plan.tables_if_repeated,
            scratch + plan.tables_if_distinct.bytes(),
            plan.strip,
            plan.channel_bytes()) {
  }

  void count(const InputPanel<T>& panel, const T*) {
    const StreamChunks chunks(panel, kChunkElements, kAheadBytes);
    int64_t size = 0;
    for (InputPanel<T> rest = panel; rest.rows.size > 0; rest = rest.from(size)) {
      size = chunks.size(rest);
      if_distinct_.reserve(share_of_counter<DistinctTables>(size), [&] { reduce(if_distinct_); });
      if_repeated_.reserve(share_of_counter<RepeatedTables>(size), [&] { reduce(if_repeated_); });
      Ahead ahead = chunks.ahead(rest, size);
      for_each_stream(rest.first(size), [&](const Stream<T>& stream, int64_t channel) {
        count_chunk(stream, channel, ahead);
      });
    }
  }

  void reduce() {
    if_distinct_.reduce([&] { reduce(if_distinct_); });
    if_repeated_.reduce([&] { reduce(if_repeated_); });
  }

 private:
  static constexpr bool kBytes = sizeof(T) == 1;
  static constexpr bool kIn32Bits = std::is_same_v<Counter, uint32_t>;
  using DistinctShape = std::conditional_t<
      kIn32Bits,
      CounterShape<kTablesOf32BitsIfDistinct, 1, 1, kUnrolledOf32Bits>,
      CounterShape<kTablesIfDistinct, 1, kRunIfDistinct, kUnrolledIfDistinct>>;
  static constexpr int kRepeatedLanes = kIn32Bits ? 1 : kBytes ? kLanesOfBytes : kLanesOfIndices;
  static constexpr int kRepeatedCounters = kIn32Bits ? kTablesOf32Bits : kCountersIfRepeated;
  static constexpr int64_t kUnrolled = kIn32Bits ? kUnrolledOf32Bits : kUnrolledElements;
  template <int64_t kFetched>
  using RepeatedShapeFetching = CounterShape<
      kRepeatedCounters / kRepeatedLanes,
      kRepeatedLanes,
      kRepeatedLanes,
      kUnrolled,
      kFetched>;
  using RepeatedShape = RepeatedShapeFetching<kBytes || kIn32Bits ? 0 : kElementsFetched>;
  using DistinctTables = CounterTables<Counter, DistinctShape>;
  using RepeatedTables = CounterTables<Counter, RepeatedShape>;

  void count_chunk(const Stream<T>& stream, int64_t channel, Ahead& ahead) {
    const auto& [data, step, size] = stream;
    const int64_t distance = kSampledDistance;
    const Agreement agreement = agreement_of(data, size - distance, step, distance * step, index_);
    if (agreement <= Agreement::kRare) {
      count_stream<DistinctShape>(stream, index_, if_distinct_, channel, ahead);
    } else if (agreement == Agreement::kComplete && has_no_new_value(stream)) {
      count_stream<RepeatedShapeFetching<0>>(stream, index_, if_repeated_, channel, ahead);
    } else {
      count_stream<RepeatedShape>(stream, index_, if_repeated_, channel, ahead);
    }
  }

  /// Whether counters need not be fetched: all values of a sample equal those before them.
  static bool has_no_new_value(const Stream<T>& stream) {
    return RepeatedShape::kFetchedBatches > 0 && stream.step == 1 &&
           stream.size >= kUnfetchedSample + kSampledDistance &&
           std::memcmp(stream.data, stream.data + kSampledDistance, kUnfetchedSample * sizeof(T)) ==
               0;
  }

  template <class AnyTables>
  void reduce(const AnyTables& tables) {
    put_streams<IndexOf<T>::kFirst>(tables, result_);
  }

  Result& result_;
  IndexOf<T> index_;
  DistinctTables if_distinct_; // for each channel, followed by if_repeated_
  RepeatedTables if_repeated_;
};

} // namespace

void count_value_streams(const Job& job, int64_t worker) {
  visit_pattern_type(size_of(job.problem.type), [&](auto tag) {
    using T = typename decltype(tag)::type;
    visit_counter_type(job.plan.counting, [&](auto counter) {
      count_strips<ValueStreams<T, typename decltype(counter)::type>>(job, worker);
    });
  });
}

} // namespace histo::cpu
