#include "cuda/plan/interleaved.h"

namespace histo::cuda {
namespace {

unsigned entries_of_interleaved_table(const Request& request, const Geometry& geometry) {
  const int64_t entries = entries_of_table(request.entries, int64_t{1} << geometry.log_entry_words);
  const int64_t tables = geometry.tables;
  return static_cast<unsigned>(tables == 1 ? entries : ceil_div(entries, tables * kBanks) * kBanks);
}

/// Whether neighbouring blocks read the same lines.
bool shares_lines(const Request& request, const Geometry& geometry, const Partition& partition) {
  const ByteLoops& loops = geometry.loops;
  const RowRuns& runs = geometry.runs;
  const int64_t offsets = address_of(request.problem) | loops.batch[0].stride |
                          loops.batch[1].stride | runs.outer.stride | geometry.rows.stride |
                          runs.run_jump | runs.set_jump |
                          geometry.table_columns * request.entries.bytes;
  const bool whole_lines = geometry.channels.size > 1 && offsets % kLineBytes == 0;
  return partition.segments.groups > 1 && !whole_lines && !geometry.halved;
}

/// Words of a table that a block of the reduction sums.
int words_of_reduce(const Request& request, const Partition& partition, int64_t table_words) {
  const auto has_blocks_for_all_sms = [&](int words) {
    return partition.segments.count() * ceil_div(table_words, words) >= request.limits.sm_count;
  };
  if (!has_blocks_for_all_sms(kReduceWords)) {
    return kFewReduceWords;
  }
  const bool many_tables = partition.blocks_of_part > kTablesOfManyReduceWords;
  return many_tables || !has_blocks_for_all_sms(kManyReduceWords) ? kReduceWords : kManyReduceWords;
}

/// Whether the reduction sums the columns of each channel: if one table has them all, and 32 bits
/// hold the sums.
bool sums_columns(const Geometry& geometry, const Partition& partition) {
  const int64_t columns = geometry.rows.columns;
  const int64_t channels = geometry.channels.size;
  return !geometry.channels.few && columns != channels && partition.segments.groups == 1 &&
         partition.parts == partition.segments.count() && partition.blocks_of_part > 1 &&
         partition.segments.rows * (columns / channels) <= kMaxOf32Bits;
}

/// The number of rows that are counted apart from the whole ones.
int64_t ragged_rows(const Geometry& geometry) {
  return geometry.runs.in_one    ? kRowsApart
         : geometry.rows.run > 0 ? kRaggedRows * geometry.runs.outer.size
                                 : 0;
}

/// Whether a word of a table is two counters, if planar.cu does not count the few channels.
bool counts_in_16_bits(const Request& request, const Geometry& geometry) {
  const int64_t size = request.entries.bytes;
  return size == 1 || (size == 2 && geometry.rows.access != Access::kVec16);
}

int64_t shared_bytes_of(const Request& request, const Geometry& geometry, const ColumnLayout& in) {
  const int64_t size = request.entries.bytes;
  if (size == 1) {
    return kByteTableBytes;
  }
  // Values without a bin are counted behind the last entry. If an entry stands for two bins, they
  // take two more.
  const int64_t entry_words = int64_t{1} << in.log_entry_words;
  const bool two_bins = counts_in_16_bits(request, geometry) && entry_words < kBanks;
  return (in.table_words() + (two_bins ? 2 : 1) * entry_words) * kCounterBytes;
}

std::optional<CountPlan> plan_of_geometry(const Request& request, const Geometry& geometry) {
  const std::optional<Partition> partition = partition_of(request, geometry);
  if (!partition) {
    return std::nullopt;
  }
  if (request.entries.bytes == 1 && geometry.channels.few) {
    return plan_planar(request, geometry, *partition);
  }
  std::optional<CountPlan> rows = plan_whole_rows(request, geometry, *partition);
  return rows || geometry.halved ? rows : plan_interleaved(request, geometry, *partition);
}

} // namespace

void set_columns(
    ColumnLayout& in,
    const Request& request,
    const Geometry& geometry,
    const Partition& partition,
    bool adds) {
  const auto& [problem, entries, limits] = request;
  const Channels& channels = geometry.channels;
  in.data = static_cast<const uint8_t*>(problem.data);
  in.data_end = end_of(problem, entries.bytes) - (channels.size - channels.counted) * entries.bytes;
  std::copy_n(geometry.loops.batch, 2, in.batch);
  in.row_stride = geometry.rows.stride;
  in.columns = geometry.rows.columns;
  in.channels = channels.size;
  in.counted = channels.counted;
  in.num_bins = problem.num_bins;
  in.rows = static_cast<unsigned>(geometry.runs.rows);
  in.groups = static_cast<unsigned>(partition.segments.groups);
  in.group_columns = channels.size == 1 ? 0 : static_cast<unsigned>(geometry.table_columns);
  in.batches = static_cast<unsigned>(partition.segments.batches);
  in.log_lanes = geometry.log_lanes;
  in.log_entry_words = geometry.log_entry_words;
  in.table_entries = entries_of_interleaved_table(request, geometry);
  in.type = problem.type;
  in.adds = adds;
  in.cleared = adds || problem.num_bins > in.table_entries;
}

CountPlan plan_without_layout(
    const Request& request,
    const Geometry& geometry,
    const Partition& partition,
    const ColumnLayout& in,
    int64_t shared_bytes) {
  CountPlan plan{};
  plan.blocks = partition.blocks();
  plan.threads = partition.threads;
  plan.shared_bytes = shared_bytes;
  plan.clears = in.cleared;
  plan.shares_lines = shares_lines(request, geometry, partition);
  if (!geometry.channels.few && partition.reduces()) {
    plan.workspace_bytes = plan.blocks * in.table_words() * kCounterBytes;
    plan.reduce_words = words_of_reduce(request, partition, in.table_words());
    plan.reduce_blocks = partition.segments.count() * ceil_div(in.table_words(), plan.reduce_words);
  }
  return plan;
}

LayoutFacts facts_of_columns(
    const ColumnLayout& in, const ColumnFacts& own, const Problem& problem) {
  const int64_t bytes = bytes_of_type(in.type), gap = in.channels - in.counted;
  const bool in_turn = in.columns % in.channels != 0;
  const Facts layout{
      {"method", "interleaved"},
      {"counted_by", own.counted_by},
      {"access", name_of(own.access)},
      {"load_bytes", bytes_of_load(own.access, bytes)},
      {"stream", own.is_stream},
      {"columns", in.columns},
      {"columns_per_channel", in_turn ? 0 : in.columns / in.channels},
      {"runs", own.runs},
      {"channels", in.counted},
      {"gap_channels", gap},
      {"groups", in.groups},
      {"batches", in.batches},
      {"rows_per_block", own.rows_of_block}};
  const Facts table{
      {"table_keys", bytes == 1 ? 256 : in.table_entries},
      {"table_counters_per_key", int64_t{own.in_16_bits ? 2 : 1} << in.log_entry_words},
      {"counter_bits", own.in_16_bits ? 16 : 32}};
  return {"count_" + own.counted_by, layout, table, in.batches * problem.num_rows() * gap * bytes};
}

LayoutFacts facts_of(const Interleaved& in, const Problem& problem) {
  const ColumnFacts own{"interleaved", in.access, in.is_stream(), in.runs(), in.share, in.packed16};
  return facts_of_columns(in, own, problem);
}

bool has_one_writer(const Request& request, const Geometry& geometry, const Partition& partition) {
  return !geometry.channels.few && request.entries.are_bins &&
         (geometry.rows.columns == geometry.channels.size || sums_columns(geometry, partition));
}

CountPlan plan_interleaved(
    const Request& request, const Geometry& geometry, const Partition& partition) {
  const RowLayout& rows = geometry.rows;
  const RowRuns& runs = geometry.runs;
  const int64_t rows_of_table = std::min(partition.share, partition.segments.rows);
  const bool packed16 = counts_in_16_bits(request, geometry);
  const bool overflows = packed16 && rows_of_table + ragged_rows(geometry) > kMaxPacked16;
  const bool adds = overflows || !has_one_writer(request, geometry, partition);
  Interleaved in{};
  set_columns(in, request, geometry, partition, adds);
  in.outer = runs.outer;
  in.run = rows.run;
  if (rows.access == Access::kVec16) {
    in.load_step = (partition.threads >> in.log_lanes) * in.row_stride;
    in.round_step = kBytesInFlight / kVec16Bytes * in.load_step;
  }
  in.segment_rows = static_cast<unsigned>(partition.segments.rows);
  in.parts = static_cast<unsigned>(partition.parts);
  in.part_rows = static_cast<unsigned>(partition.part_rows);
  in.blocks_of_part = static_cast<unsigned>(partition.blocks_of_part);
  in.share = static_cast<unsigned>(partition.share);
  in.access = rows.access;
  in.sums_columns = sums_columns(geometry, partition);
  in.packed16 = packed16;
  in.few_channels = geometry.channels.few;
  in.in_runs = runs.in_one;
  if (in.in_runs) {
    in.by_rows_of_run = Divider(static_cast<uint32_t>(runs.rows_of_run));
    in.by_runs_of_set = Divider(static_cast<uint32_t>(runs.runs_of_set));
    in.run_jump = static_cast<uint32_t>(runs.run_jump);
    in.set_jump = static_cast<uint32_t>(runs.set_jump);
  }
  CountPlan plan =
      plan_without_layout(request, geometry, partition, in, shared_bytes_of(request, geometry, in));
  plan.layout = in;
  return plan;
}

std::optional<CountPlan> plan_interleaved(const Request& request, const Gaps& gaps) {
  // Half tables are for rows.cu alone.
  const std::optional<Geometry> narrow = geometry_of(request, gaps, true);
  if (!narrow || !narrow->halved) {
    return narrow ? plan_of_geometry(request, *narrow) : std::nullopt;
  }
  if (std::optional<CountPlan> plan = plan_of_geometry(request, *narrow)) {
    return plan;
  }
  const std::optional<Geometry> whole = geometry_of(request, gaps, false);
  return whole ? plan_of_geometry(request, *whole) : std::nullopt;
}

} // namespace histo::cuda
