#include "cuda/plan/facts.h"
#include "cuda/plan/planners.h"

namespace histo::cuda {
namespace {

int64_t elements_of_vec16(const TableEntries& entries) {
  return kVec16Bytes / entries.bytes;
}

/// The words of an entry in a table of columns: an odd number.
int64_t entry_words_of(const TableEntries& entries, int64_t period) {
  return (period + elements_of_vec16(entries) - 1) | 1;
}

/// The entries of bytes, or whole groups of entries that fill all banks. The entry that counts
/// values without a bin is not among them.
int64_t table_entries_of(const TableEntries& entries) {
  return entries_of_table(entries, kBanks);
}

/// The pattern that repeats in a run.
struct Period {
  bool planar;      // one channel after another
  int64_t channels; // of a segment
  int64_t elements;
  bool has_rows; // a run has all rows of the inner loop, with what lies between them
};

/// Returns none if there are too few elements for vec16s, or for their columns.
std::optional<Period> period_of(const Request& request) {
  const auto& [problem, entries, limits] = request;
  const Extent& inner_rows = problem.rows[2];
  const bool planar = one_after_another(problem);
  const int64_t channels = planar ? 1 : problem.channels[1].size;
  const int64_t step = inner_rows.size == 1 ? channels : inner_rows.stride;
  if (step < channels || (planar ? step > 1 : problem.channels[1].stride != 1)) {
    return std::nullopt;
  }
  const int64_t words = limits.shared_per_block / kCounterBytes;
  const int64_t most_columns = words / (table_entries_of(entries) + 1);
  const bool has_rows = is_little(step - channels, channels, entries.bytes) &&
                        entry_words_of(entries, step) <= most_columns;
  // A vec16 for each row is then more work than a load for each element.
  const bool small_rows = channels * entries.bytes <= kVec16Bytes && problem.rows[0].size == 1;
  if (!has_rows && (planar || small_rows)) {
    return std::nullopt;
  }
  const Period period{planar, channels, has_rows ? step : channels, has_rows};
  return entry_words_of(entries, period.elements) <= most_columns ? std::optional(period)
                                                                  : std::nullopt;
}

/// All of the inner rows. If these are short rows of one channel with small gaps, the next loop's
/// rows too.
bool joins_rows(const Request& request, const Period& period) {
  const auto& [problem, entries, limits] = request;
  const int64_t size = entries.bytes;
  const int64_t row = problem.rows[2].size;
  const Extent& next = problem.rows[1];
  const auto most_vec16s = [&](int64_t elements) {
    return ceil_div(kVec16Bytes - size + elements * size, kVec16Bytes);
  };
  return period.planar && next.size > 1 && next.stride > row &&
         next.stride * size <= kMaxJoinedRowBytes &&
         most_vec16s((next.size - 1) * next.stride + row) < next.size * most_vec16s(row);
}

/// Runs and segments, in bytes.
struct Stretches {
  Extent batch[2];
  Extent loops[3]; // of runs
  bool joined;     // rows of one channel
  int64_t segments;
  int64_t run_bytes;
  int64_t vec16s_of_run;
  int64_t vec16s; // of a segment
};

int64_t step_of(const Extent& loop) {
  return loop.size > 1 ? loop.stride : 0;
}

int64_t elements_of_run(const Problem& problem, const Period& period, bool joined) {
  const auto& [sets, next, row] = problem.rows;
  return joined            ? (next.size - 1) * next.stride + row.size
         : period.has_rows ? (row.size - 1) * period.elements + period.channels
                           : period.channels;
}

/// The most vec16s that a run has. They are fewest if all runs begin at the same distance from an
/// aligned address.
int64_t most_vec16s_of(
    const Request& request, const Extent (&batch)[2], const Extent (&loops)[3], int64_t run_bytes) {
  int64_t strides = 0;
  for (const Extent& loop : {batch[0], batch[1], loops[0], loops[1], loops[2]}) {
    strides |= step_of(loop);
  }
  const int64_t most_skew = strides % kVec16Bytes == 0 ? address_of(request.problem) % kVec16Bytes
                                                       : kVec16Bytes - request.entries.bytes;
  return ceil_div(most_skew + run_bytes, kVec16Bytes);
}

Stretches stretches_of(const Request& request, const Period& period) {
  const auto& [problem, entries, limits] = request;
  const Extent outer = in_bytes(problem.channels[0], entries.bytes);
  const Extent inner = in_bytes(problem.channels[1], entries.bytes);
  Stretches found{};
  found.joined = joins_rows(request, period);
  found.batch[0] = period.planar ? outer : Extent{1, 0};
  found.batch[1] = period.planar ? inner : outer;
  found.segments = found.batch[0].size * found.batch[1].size;
  const int within = found.joined ? 2 : period.has_rows ? 1 : 0; // loops that a run has all of
  for (int i = 0; i < 3; ++i) {
    found.loops[i] = i < within ? Extent{1, 0} : in_bytes(problem.rows[i - within], entries.bytes);
  }
  found.run_bytes = elements_of_run(problem, period, found.joined) * entries.bytes;
  found.vec16s_of_run = most_vec16s_of(request, found.batch, found.loops, found.run_bytes);
  found.vec16s =
      found.loops[0].size * found.loops[1].size * found.loops[2].size * found.vec16s_of_run;
  return found;
}

/// Whether the numbers fit the kernel's types, and the tensor has two vec16s.
bool are_countable(const Request& request, const Stretches& in) {
  const auto* begin = static_cast<const uint8_t*>(request.problem.data);
  const int64_t bytes = end_of(request.problem, request.entries.bytes) - begin;
  return in.run_bytes < kMaxRows / 2 && in.vec16s < kMaxRows && in.segments < kMaxRows / 2 &&
         bytes >= 2 * kVec16Bytes &&
         std::max(step_of(in.loops[1]), step_of(in.loops[2])) <= kMaxDistance;
}

struct RunTables {
  int64_t count;         // of a segment, of one channel each; 0: its channels are columns of one
  unsigned log_segments; // of a block
  unsigned log_copies;   // of a counter
  int64_t segment_words;
  int64_t words; // of a block
};

/// Returns none if the tables do not fit.
std::optional<RunTables> tables_of(
    const Request& request, const Period& period, const Stretches& in) {
  const auto& [problem, entries, limits] = request;
  // Two channels take turns as four do.
  const bool few = period.elements == 1 || (entries.bytes == 1 && period.elements <= 4);
  const int64_t count = !few ? 0 : period.elements == 2 ? 4 : period.elements;
  const int64_t columns = few ? count : entry_words_of(entries, period.elements);
  const int64_t counters = (table_entries_of(entries) + 1) * columns;
  // An SM has three blocks, if their tables fit. Small segments share a block.
  const int64_t preferred =
      std::min(limits.shared_per_block, limits.shared_per_sm / kRunBlocksOfSm - kReservedBytes);
  const auto fit = [&](int64_t words) { return words * kCounterBytes <= preferred; };
  // Neighbouring segments begin in other banks.
  unsigned log_segments = 0;
  while (log_segments < kLogRunThreads &&
         in.vec16s << (log_segments + 1) <= kRunUnroll * kRunThreads &&
         int64_t{1} << log_segments < in.segments && fit((counters | 1) << (log_segments + 1))) {
    ++log_segments;
  }
  // A small table is soon cleared and summed. For wider types few copies pay, or none.
  const int64_t read_words = in.vec16s * kVec16Bytes / kCounterBytes;
  const int64_t worth = entries.bytes == 1   ? read_words
                        : entries.bytes == 2 ? read_words / kReadPerTable
                                             : 0;
  unsigned log_copies = 0;
  while (few && log_segments == 0 && log_copies < log2_of(kBanks) &&
         counters << (log_copies + 1) <= worth && fit(counters << (log_copies + 1))) {
    ++log_copies;
  }
  const int64_t segment_words = log_copies > 0 ? counters << log_copies : counters | 1;
  const int64_t words = ceil_div(segment_words << log_segments, 4) * 4;
  const RunTables tables{count, log_segments, log_copies, segment_words, words};
  return words <= limits.shared_per_block / kCounterBytes ? std::optional(tables) : std::nullopt;
}

/// As many blocks as are resident at the same time, or a multiple of it, of equal length.
int64_t chunks_of_segment(
    const Request& request, const Stretches& in, const RunTables& tables, int64_t blocks_of_sm) {
  if (tables.log_segments > 0) {
    return 1;
  }
  const int64_t sm_count = request.limits.sm_count;
  const int64_t at_once = blocks_of_sm * sm_count;
  const int64_t fewest = ceil_div(in.vec16s, kMaxVec16sOfBlock);
  const int64_t table_bytes = tables.segment_words * kCounterBytes;
  const auto chunks_of = [&](int64_t least) {
    return in.vec16s * kVec16Bytes / std::max(least, table_bytes);
  };
  const int64_t most = std::max(
      {chunks_of(kEnoughRunBytesOfBlock),
       std::min(chunks_of(kMinRunBytesOfBlock), sm_count / in.segments), fewest});
  const int64_t wanted =
      in.segments <= at_once ? at_once / in.segments : ceil_div(kRunWaves * at_once, in.segments);
  return std::clamp(wanted, fewest, most);
}

/// A bit for each of 64 bytes, from a row's first one on: set if the byte lies between rows.
uint64_t bytes_between_rows(int64_t row_bytes, int64_t stride) {
  uint64_t of_rows = 0;
  for (int64_t begin = 0; begin < 64; begin += stride) {
    of_rows |= ((uint64_t{1} << row_bytes) - 1) << begin;
  }
  return ~of_rows;
}

void set_loops(Runs& in, const Request& request, const Stretches& stretches) {
  const Problem& problem = request.problem;
  const int64_t address = address_of(problem);
  in.data = static_cast<const uint8_t*>(problem.data);
  const int64_t end = address + (end_of(problem, request.entries.bytes) - in.data);
  const int64_t first_vec16 = ceil_div(address, kVec16Bytes) * kVec16Bytes;
  in.first_vec16 = static_cast<uint64_t>(first_vec16);
  in.last_vec16 =
      static_cast<uint64_t>(end / kVec16Bytes * kVec16Bytes - kVec16Bytes - first_vec16);
  std::copy_n(stretches.batch, 2, in.batch);
  in.set_step = static_cast<uint64_t>(step_of(stretches.loops[0]));
  in.outer_step = static_cast<uint32_t>(step_of(stretches.loops[1]));
  in.step = static_cast<uint32_t>(step_of(stretches.loops[2]));
  in.segments = static_cast<unsigned>(stretches.segments);
  in.run_bytes = static_cast<unsigned>(stretches.run_bytes);
  in.vec16s = static_cast<unsigned>(stretches.vec16s);
  in.by_vec16s_of_run = Divider(static_cast<uint32_t>(stretches.vec16s_of_run));
  in.by_loop[0] = Divider(static_cast<uint32_t>(stretches.loops[1].size));
  in.by_loop[1] = Divider(static_cast<uint32_t>(stretches.loops[2].size));
}

void set_elements(Runs& in, const Request& request, const Period& period, bool joined) {
  const int64_t size = request.entries.bytes;
  const int64_t row = request.problem.rows[2].size;
  const Extent& next = request.problem.rows[1];
  const int64_t turn = joined ? next.stride : period.elements;
  in.channels = period.channels;
  in.num_bins = request.problem.num_bins;
  in.type = request.problem.type;
  in.period = static_cast<unsigned>(period.elements);
  in.before_run = static_cast<unsigned>(ceil_div(elements_of_vec16(request.entries), turn) * turn);
  in.by_period = Divider(static_cast<uint32_t>(turn));
  in.by_channels = Divider(static_cast<uint32_t>(period.channels));
  if (joined) {
    in.run_bytes_between = static_cast<unsigned>(in.run_bytes - row * next.size * size);
    in.between = bytes_between_rows(row * size, next.stride * size);
  }
}

void set_tables(Runs& in, const Request& request, const Period& period, const RunTables& tables) {
  const bool few = tables.count > 0;
  in.log_segments = tables.log_segments;
  in.tables = static_cast<unsigned>(tables.count);
  in.columns = static_cast<unsigned>(
      few ? tables.count : period.elements + elements_of_vec16(request.entries) - 1);
  in.log_copies = tables.log_copies;
  in.table_entries = static_cast<unsigned>(table_entries_of(request.entries));
  in.entry_words = few ? 1u << tables.log_copies
                       : static_cast<unsigned>(entry_words_of(request.entries, period.elements));
  in.column_words = few ? (in.table_entries + 1) << tables.log_copies : 1;
  in.segment_words = static_cast<unsigned>(tables.segment_words);
  in.by_entries = Divider(in.table_entries);
}

} // namespace

std::optional<CountPlan> plan_runs(const Request& request) {
  const auto& [problem, entries, limits] = request;
  const std::optional<Period> period = period_of(request);
  if (!period) {
    return std::nullopt;
  }
  const Stretches stretches = stretches_of(request, *period);
  if (!are_countable(request, stretches)) {
    return std::nullopt;
  }
  const std::optional<RunTables> tables = tables_of(request, *period, stretches);
  if (!tables) {
    return std::nullopt;
  }
  const int64_t shared_bytes = tables->words * kCounterBytes;
  const int64_t blocks_of_sm = std::clamp<int64_t>(
      limits.shared_per_sm / (shared_bytes + kReservedBytes), 1, kRunBlocksOfSm);
  const int64_t chunks = chunks_of_segment(request, stretches, *tables, blocks_of_sm);
  const int64_t share = ceil_div(stretches.vec16s, chunks);
  Runs in{};
  set_loops(in, request, stretches);
  set_elements(in, request, *period, stretches.joined);
  set_tables(in, request, *period, *tables);
  in.share = static_cast<unsigned>(share);
  in.chunks = static_cast<unsigned>(ceil_div(stretches.vec16s, share));
  in.adds = in.chunks > 1 || !entries.are_bins;
  in.cleared = in.adds || problem.num_bins > in.table_entries;

  CountPlan plan{};
  plan.layout = in;
  plan.blocks = ceil_div(stretches.segments, int64_t{1} << in.log_segments) * in.chunks;
  plan.threads = blocks_of_sm == 1 && entries.bytes > 1 ? 2 * kRunThreads : kRunThreads;
  plan.shared_bytes = shared_bytes;
  plan.clears = in.cleared;
  return plan.blocks < kMaxRows ? std::optional(plan) : std::nullopt;
}

LayoutFacts facts_of(const Runs& in, const Problem& problem) {
  const Facts layout{
      {"method", "runs"},
      {"access", name_of(Access::kVec16)},
      {"load_bytes", kVec16Bytes},
      {"batches", in.segments},
      {"channels", in.channels},
      {"gap_channels", in.gap_channels()},
      {"runs", in.runs()},
      {"run_bytes", in.run_bytes},
      {"run_bytes_between", in.run_bytes_between},
      {"chunks", in.chunks},
      {"segments_per_block", in.segments_of_block()},
      {"loads_per_block", int64_t{in.share} << in.log_segments}};
  const Facts table{
      {"copies", 1 << in.log_copies},
      {"table_keys", in.table_entries},
      {"table_counters_per_key", int64_t{in.columns} << in.log_copies},
      {"counter_bits", 32}};
  const int64_t between_channels = problem.num_rows() * in.gap_channels() * bytes_of_type(in.type);
  return {
      "count_runs", layout, table,
      in.segments * (between_channels + in.runs() * in.run_bytes_between)};
}

} // namespace histo::cuda
