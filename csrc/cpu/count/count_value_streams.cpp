// Streams of keys with up to 4096 bins, in several counters of each bin.
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
  using Key = T;

  ValueStreams(const Plan& plan, Result& result, char* scratch)
      : result_(result),
        index_{result.axis().own_bins},
        few_(plan.few, scratch, plan.strip, plan.channel_bytes()),
        many_(plan.many, scratch + plan.few.bytes(), plan.strip, plan.channel_bytes()) {
  }

  void count(const Panel<T>& panel, const T*) {
    const Chunks chunks(panel, kChunkElements, kAheadBytes);
    int64_t size = 0;
    for (Panel<T> rest = panel; rest.rows.size > 0; rest = rest.from(size)) {
      size = chunks.size(rest);
      few_.hold(share_of_counter<FewTables>(size), [&] { reduce(few_); });
      many_.hold(share_of_counter<ManyTables>(size), [&] { reduce(many_); });
      Ahead ahead = chunks.ahead(rest, size);
      for_each_stream(rest.first(size), [&](const Stream<T>& stream, int64_t channel) {
        count_chunk(stream, channel, ahead);
      });
    }
  }

  void reduce() {
    few_.reduce([&] { reduce(few_); });
    many_.reduce([&] { reduce(many_); });
  }

 private:
  static constexpr bool kBytes = sizeof(T) == 1;
  static constexpr bool kIn32Bits = std::is_same_v<Counter, uint32_t>;
  using Few = std::conditional_t<
      kIn32Bits,
      Shape<kFewTablesOf32Bits, 1, 1, kUnrolledOf32Bits>,
      Shape<kTablesWhereValuesDiffer, 1, kRunWhereValuesDiffer, kUnrolledWhereValuesDiffer>>;
  static constexpr int kManySlots = kIn32Bits ? 1 : kBytes ? kSlotsOfBytes : kSlotsOfIndices;
  static constexpr int kManyCounters = kIn32Bits ? kTablesOf32Bits : kCountersWhereValuesAgree;
  static constexpr int64_t kUnrolled = kIn32Bits ? kUnrolledOf32Bits : kUnrolledElements;
  template <int64_t kFetched>
  using Slots = Shape<kManyCounters / kManySlots, kManySlots, kManySlots, kUnrolled, kFetched>;
  using Many = Slots<kBytes || kIn32Bits ? 0 : kElementsFetched>;
  using FewTables = Tables<Counter, Few>;
  using ManyTables = Tables<Counter, Many>;

  void count_chunk(const Stream<T>& stream, int64_t channel, Ahead& ahead) {
    const auto& [data, step, size] = stream;
    const int64_t distance = kSampledDistance;
    const Agreement agreement = agreement_of(data, size - distance, step, distance * step, index_);
    if (agreement <= Agreement::kRare) {
      count_stream<Few>(stream, index_, few_, channel, ahead);
    } else if (agreement == Agreement::kComplete && has_no_new_value(stream)) {
      count_stream<Slots<0>>(stream, index_, many_, channel, ahead);
    } else {
      count_stream<Many>(stream, index_, many_, channel, ahead);
    }
  }

  /// Whether counters need not be fetched: all values of a sample equal those before them.
  static bool has_no_new_value(const Stream<T>& stream) {
    return Many::kFetchedBatches > 0 && stream.step == 1 &&
           stream.size >= kUnfetchedSample + kSampledDistance &&
           std::memcmp(stream.data, stream.data + kSampledDistance, kUnfetchedSample * sizeof(T)) ==
               0;
  }

  template <class Tables>
  void reduce(const Tables& tables) {
    put_streams<IndexOf<T>::kFirst>(tables, result_);
  }

  Result& result_;
  IndexOf<T> index_;
  FewTables few_; // for each channel, followed by many_
  ManyTables many_;
};

} // namespace

void count_value_streams(const Job& job, int64_t worker) {
  visit_key_type(size_of(job.problem.type), [&](auto tag) {
    using T = typename decltype(tag)::type;
    switch (job.plan.counting) {
      case Counting::kIn16Bits:
        return count_strips<ValueStreams<T, uint16_t>>(job, worker);
      case Counting::kIn32Bits:
        return count_strips<ValueStreams<T, uint32_t>>(job, worker);
      case Counting::kStaged:
        break;
    }
    throw InternalError("count_value_streams: more bins than tables have");
  });
}

} // namespace histo::cpu
