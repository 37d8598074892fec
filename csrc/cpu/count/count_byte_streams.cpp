// Streams of bytes. Two neighbours make one index, so that one store counts two bytes.
#include <cstring>

#include "cpu/count/streams.h"
#include "cpu/count/strips.h"
#include "cpu/count/wrapping_counters.h"

namespace histo::cpu {
namespace {

using namespace tuning;

using ByteStream = Stream<uint8_t>;

/// Dense bytes as pairs of neighbours, without the last byte if their number is odd.
Stream<TwoBytes> neighbours_of(const ByteStream& bytes) {
  return {reinterpret_cast<const TwoBytes*>(bytes.data), 1, bytes.size / 2};
}

bool neighbours_differ(const ByteStream& bytes) {
  const auto& [data, step, size] = neighbours_of(bytes);
  const auto index = [](TwoBytes both) { return both.index(); };
  return agreement_of(data, size - 1, step, 1, index) <= Agreement::kRare;
}

ByteStream from(const ByteStream& bytes, int64_t counted) {
  return {bytes.data + counted * bytes.step, bytes.step, bytes.size - counted};
}

/// Adds the counts of neighbours to the result: reduce(table, counts) makes counts of bytes of them.
template <class AnyTables, class Reduce>
void put_joint(const AnyTables& tables, Result& result, const Reduce& reduce) {
  result.locked([&] {
    for (int64_t channel = 0; channel < result.num_channels(); ++channel) {
      uint32_t counts[256];
      reduce(tables.counts(channel), counts);
      put_bytes(counts, channel, result);
    }
  });
}

/// Counts in 16 bits: in a joint table of two neighbours, or in 16 counters of each byte.
class JointStreams {
 public:
  using Pattern = uint8_t;

  JointStreams(const CpuPlan& plan, Result& result, char* scratch)
      : result_(result),
        joint_(plan.tables_if_distinct, scratch, plan.strip, plan.channel_bytes()),
        bytes_(
            plan.tables_if_repeated,
            scratch + plan.tables_if_distinct.bytes(),
            plan.strip,
            plan.channel_bytes()) {
  }

  void count(const InputPanel<uint8_t>& panel, const uint8_t*) {
    const StreamChunks chunks(panel, kChunkElements, kAheadBytes);
    int64_t size = 0;
    for (InputPanel<uint8_t> rest = panel; rest.rows.size > 0; rest = rest.from(size)) {
      size = chunks.size(rest);
      joint_.reserve_counted(size / 2, [&] { reduce_joint_table(); });
      bytes_.reserve(share_of_counter<ByteTables>(size), [&] { put_streams<0>(bytes_, result_); });
      Ahead ahead = chunks.ahead(rest, size);
      for_each_stream(rest.first(size), [&](const ByteStream& bytes, int64_t channel) {
        count_chunk(bytes, channel, ahead);
      });
    }
  }

  void reduce() {
    joint_.reduce([&] { reduce_joint_table(); });
    bytes_.reduce([&] { put_streams<0>(bytes_, result_); });
  }

 private:
  using JointShape = CounterShape<1, 1, 1, kUnrolledElements>;
  using BytesShape = CounterShape<
      kCountersIfRepeated / kLanesOfBytes,
      kLanesOfBytes,
      kLanesOfBytes,
      kUnrolledElements>;
  using ByteTables = CounterTables<uint16_t, BytesShape>;

  void count_chunk(const ByteStream& bytes, int64_t channel, Ahead& ahead) {
    int64_t counted = 0;
    if (neighbours_differ(bytes) || takes_turns(bytes)) {
      const auto index = [](TwoBytes both) { return both.index(); };
      count_stream<JointShape>(neighbours_of(bytes), index, joint_, channel, ahead);
      counted = bytes.size / 2 * 2;
    }
    if (counted < bytes.size) {
      count_stream<BytesShape>(from(bytes, counted), IndexOf<uint8_t>{}, bytes_, channel, ahead);
    }
  }

  /// Whether the first bytes are all the same, or two in turns.
  static bool takes_turns(const ByteStream& bytes) {
    const auto part = static_cast<size_t>(bytes.size / kPartOfAlternating);
    return std::memcmp(bytes.data, bytes.data + 2, part) == 0;
  }

  void reduce_joint_table() {
    put_joint(joint_, result_, reduce_joint<uint16_t>);
  }

  Result& result_;
  CounterTables<uint16_t, JointShape> joint_; // one for each channel, followed by bytes_
  ByteTables bytes_;
};

/// Counts in 32 bits: in counters of pairs if values agree. If they differ, neighbours are counted
/// in 8 bits. Short channels and the bytes that are left are counted in tables of bytes.
class PairStreams {
 public:
  using Pattern = uint8_t;

  PairStreams(const CpuPlan& plan, Result& result, char* scratch)
      : result_(result),
        in_pairs_(plan.joint),
        pairs_(plan.tables_if_distinct, scratch, plan.strip, plan.channel_bytes()),
        bytes_(
            plan.tables_if_repeated,
            scratch + plan.tables_if_distinct.bytes(),
            plan.strip,
            plan.channel_bytes()),
        wrapping_(plan, scratch + plan.scratch_bytes() - plan.byte_room()) {
  }

  void count(const InputPanel<uint8_t>& panel, const uint8_t*) {
    const StreamChunks chunks(panel, kChunkElements, kAheadBytes);
    int64_t size = 0;
    for (InputPanel<uint8_t> rest = panel; rest.rows.size > 0; rest = rest.from(size)) {
      size = wrapping_.count(
          rest.data, rest.rows.size, [this](const uint8_t* counters) { add_wrapped(counters); });
      if (size == 0) {
        size = chunks.size(rest);
        count_rows_of(rest.first(size), chunks.ahead(rest, size));
      }
    }
  }

  void reduce() {
    wrapping_.reduce([this](const uint8_t* counters) { add_wrapped(counters); });
    pairs_.reduce([&] { reduce_pair_tables(); });
    bytes_.reduce([&] { put_streams<0>(bytes_, result_); });
  }

 private:
  using PairsShape = CounterShape<kTablesOfPairs, 1, 1, kUnrolledOf32Bits>;
  using BytesShape = CounterShape<kTablesOf32Bits, 1, 1, kUnrolledOf32Bits>;
  using ByteTables = CounterTables<uint32_t, BytesShape>;

  void count_rows_of(const InputPanel<uint8_t>& chunk, Ahead ahead) {
    const int64_t size = chunk.rows.size;
    pairs_.reserve(size / 2, [&] { reduce_pair_tables(); });
    bytes_.reserve(share_of_counter<ByteTables>(size), [&] { put_streams<0>(bytes_, result_); });
    for_each_stream(chunk, [&](const ByteStream& bytes, int64_t channel) {
      int64_t counted = 0;
      // Pairs are faster if neighbours agree, here or in the larger part that was sampled before.
      if (in_pairs_ && (wrapping_.is_paused() || !neighbours_differ(bytes))) {
        counted = count_pairs(bytes.data, bytes.size, pairs_.at(channel));
      }
      if (counted < bytes.size) {
        count_stream<BytesShape>(from(bytes, counted), IndexOf<uint8_t>{}, bytes_, channel, ahead);
      }
    });
  }

  void add_wrapped(const uint8_t* counters) {
    uint32_t counts[256];
    reduce_joint(counters, counts);
    result_.locked([&] { put_bytes(counts, 0, result_); });
  }

  void reduce_pair_tables() {
    put_joint(pairs_, result_, reduce_pairs);
  }

  Result& result_;
  bool in_pairs_;
  CounterTables<uint32_t, PairsShape> pairs_; // for each channel, followed by bytes_
  ByteTables bytes_;
  WrappingCounters<uint8_t> wrapping_;
};

} // namespace

void count_byte_streams(const Job& job, int64_t worker) {
  if (job.plan.counting == Counting::kIn32Bits) {
    count_strips<PairStreams>(job, worker);
  } else if (job.plan.joint) {
    count_strips<JointStreams>(job, worker);
  } else {
    count_value_streams(job, worker);
  }
}

} // namespace histo::cpu
