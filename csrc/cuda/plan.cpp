#include "plan.h"

#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <optional>

#include "tuning.h"

namespace histo::cuda {
namespace {

constexpr unsigned kByteValues = 256;
constexpr int64_t kCounterBytes = 4;
constexpr int64_t kMaxRows = int64_t{1} << 31;

int element_size(ElementType type) {
  return visit_element_type(
      type, [](auto tag) { return static_cast<int>(sizeof(typename decltype(tag)::type)); });
}

Extent in_bytes(const Extent& loop, int64_t element_bytes) {
  return {loop.size, loop.stride * element_bytes};
}

/// Whether channels lie one after another, and not side by side.
bool one_after_another(const Problem& problem) {
  const Extent& channels = problem.channels[1];
  const Extent& rows = problem.rows[2];
  return channels.size == 1 || (rows.size > 1 && rows.stride < channels.stride);
}

/// The byte behind the last element.
const uint8_t* end_of(const Problem& problem) {
  const auto& [outer_channels, inner_channels] = problem.channels;
  const auto& [sets, outer_rows, inner_rows] = problem.rows;
  int64_t last = 0; // the highest offset
  for (const Extent& loop : {outer_channels, inner_channels, sets, outer_rows, inner_rows}) {
    last += (loop.size - 1) * loop.stride;
  }
  return static_cast<const uint8_t*>(problem.data) + (last + 1) * element_size(problem.type);
}

int64_t power_of_two_below(int64_t n) {
  int64_t power = 1;
  while (power * 2 <= n) {
    power *= 2;
  }
  return power;
}

unsigned log2_of(int64_t power) {
  unsigned log = 0;
  while (int64_t{1} << log < power) {
    ++log;
  }
  return log;
}

constexpr int64_t kMaxOf32Bits = 0xffffffff;
/// What loops work out in 32 bits lies less than that apart, in bytes.
constexpr int64_t kMaxPlace = kMaxOf32Bits;

/// Bytes from here on have no bin.
template <class Binning>
unsigned end_of_values(ElementType type, const Binning& binning) {
  unsigned end = kByteValues;
  while (end > 0 && bin_of_byte(type, binning, static_cast<uint8_t>(end - 1)) == kNoBin) {
    --end;
  }
  return std::max(end, 1u);
}

/// Whether a table has one row for each bin: of bytes several values may have the same one.
template <class Binning>
bool has_row_for_each_bin(ElementType type) {
  return !is_one_byte(type) ||
         (std::is_same_v<Binning, ValueBinning> && type != ElementType::kBool);
}

/// How well rows of so many elements suit their tables: they leave few columns of them idle, and
/// need few. More than `enough` columns are of no use.
double score_of_width(int64_t width, int64_t table, double enough = 1) {
  const auto groups = static_cast<double>(ceil_div(width, table));
  const double fill = static_cast<double>(width) / (groups * static_cast<double>(table));
  return std::min(fill, enough) - kGroupCost * groups;
}

/// How many elements of a stream make a row: a multiple of the channels, and of whole
/// words, so that every row is aligned.
int64_t stream_width(int64_t channels, int64_t word, int64_t table) {
  const int64_t unit = std::lcm(channels, word);
  const double enough = channels <= kMaxChannelsAddedByBlock ? 1 : kEnoughFill;
  int64_t best = unit;
  for (int64_t width = unit;; width += unit) {
    if (width > unit && ceil_div(width, table) > kMaxStreamGroups) {
      return best;
    }
    if (score_of_width(width, table, enough) > score_of_width(best, table, enough)) {
      best = width;
    }
  }
}

/// How many rows of a run make one: so many that they suit their tables, and are whole words or quads
/// where runs begin with such.
int64_t joined_rows(
    int64_t row_bytes,
    int64_t rows_of_run,
    int64_t begin, // a multiple of what runs begin at multiples of
    int64_t table_bytes,
    int64_t most_groups) {
  const auto score = [&](int64_t rows) {
    const int64_t bytes = rows * row_bytes;
    const int64_t offsets = bytes | begin;
    return score_of_width(bytes, table_bytes) - (offsets % 4 != 0            ? kLooseCost
                                                 : offsets % kQuadBytes != 0 ? kWordCost
                                                                             : 0);
  };
  const int64_t most_rows = most_groups * table_bytes / row_bytes;
  int64_t best = 1;
  for (int64_t divisor = 1; divisor <= most_rows && divisor * divisor <= rows_of_run; ++divisor) {
    if (rows_of_run % divisor == 0) {
      for (const int64_t rows : {divisor, rows_of_run / divisor}) {
        best = rows <= most_rows && score(rows) > score(best) ? rows : best;
      }
    }
  }
  return best;
}

/// A row for each bin that a value of a wider type can have. Rows that share the 32
/// banks may change places among themselves, so they are whole groups of such rows.
int64_t rows_of_table(const Problem& problem, int64_t row_words) {
  const int64_t values = problem.type == ElementType::kInt16    ? int64_t{1} << 15
                         : problem.type == ElementType::kUInt16 ? int64_t{1} << 16
                                                                : problem.num_bins;
  const int64_t group = std::max<int64_t>(kBanks / row_words, 1);
  return ceil_div(std::min(problem.num_bins, values), group) * group;
}

/// Words of a row of the table for a type wider than a byte: copies of one channel, or
/// channels side by side. 0 where too few fit.
int64_t slots_of_row(
    const Problem& problem, int64_t channels, int64_t bytes_of_block, const DeviceLimits& limits) {
  // With a row for what has no bin, which is for two bins where a word counts two.
  const int64_t columns_of_slot = std::max(4 / element_size(problem.type), 1);
  const int64_t bytes_of_slot = (rows_of_table(problem, 1) + columns_of_slot) * kCounterBytes;
  const int64_t least = channels == 1 ? 1 : kFewestColumns / columns_of_slot;
  const int64_t worth = std::max(bytes_of_block / (kReadPerTable * bytes_of_slot), least);
  const int64_t slots = std::min({limits.shared_per_block / bytes_of_slot, kBanks, worth});
  return slots < least ? 0 : power_of_two_below(slots);
}

/// The elements as columns, without a cut into tables and shares: none where they lie
/// otherwise, or are too few for tables to pay.
struct Rows {
  Columns in;
  int64_t table_columns;
  int64_t of_run; // whole rows
  int64_t tables; // that the bins of one channel are dealt to
};
/// What a plan may do.
struct Allowed {
  bool halve = true;
  bool in_runs = false; // rows that lie in several runs count as rows of one
  int64_t gap = 0;      // so many channels, the last ones, lie between rows and have no counts
};

std::optional<Rows> find_rows(
    const Problem& problem, const DeviceLimits& limits, const Allowed& allowed) {
  const auto& [outer_channels, inner_channels] = problem.channels;
  const auto& [sets, outer_rows, inner_rows] = problem.rows;
  const bool planar = inner_rows.stride == 1; // one channel after another
  if ((sets.size != 1 && !allowed.in_runs) || (!planar && inner_channels.stride != 1)) {
    return std::nullopt;
  }
  const int64_t size = element_size(problem.type);
  const bool bytes = size == 1;
  const int64_t total_bytes = problem.num_channels() * problem.num_rows() * size;
  Rows found{};
  Columns& in = found.in;
  in.channels = planar ? 1 : inner_channels.size;
  in.counted = in.channels - allowed.gap;
  in.few_channels = in.channels <= kMaxChannelsAddedByBlock;
  const int64_t least_bytes = !in.few_channels ? kMinBytesForColumns
                              : bytes          ? kMinBytesForFewChannels
                                               : kMinBytesForFewWideChannels;
  if (total_bytes < least_bytes) {
    return std::nullopt;
  }
  int64_t slots = bytes ? (planar ? kBanks : kByteColumns / 2)
                        : slots_of_row(problem, in.channels, total_bytes / limits.sm_count, limits);
  found.tables = 1;
  if (slots == 0 && in.channels == 1 && size >= 4) {
    const int64_t fit = (limits.shared_per_block / kCounterBytes - 1) / kBanks * kBanks;
    found.tables = ceil_div(rows_of_table(problem, 1), fit);
    slots = found.tables <= kMaxTablesOfBins ? 1 : 0;
  }
  if (slots == 0 || (bytes && kByteTableBytes > limits.shared_per_block)) {
    return std::nullopt;
  }

  in.data = static_cast<const uint8_t*>(problem.data);
  in.type = problem.type;
  in.num_bins = problem.num_bins;
  in.data_end = end_of(problem) - allowed.gap * size;
  in.batch[0] = planar ? in_bytes(outer_channels, size) : Extent{1, 0};
  in.batch[1] = in_bytes(planar ? inner_channels : outer_channels, size);
  in.outer = in_bytes(outer_rows, size);
  in.log_row_words = log2_of(slots);
  // Of a stream, behind what lies before its first aligned load: known where all runs begin
  // alike. A row that is not counted whole costs a load for every element.
  const auto whole_rows = [&](int64_t load_bytes) {
    const auto beyond = static_cast<int64_t>(reinterpret_cast<uintptr_t>(in.data)) % load_bytes;
    int64_t head = beyond > 0 ? load_bytes - beyond : 0;
    for (const Extent& loop : {in.batch[0], in.batch[1], in.outer}) {
      head = loop.size > 1 && loop.stride % load_bytes != 0 ? load_bytes - size : head;
    }
    return (in.run - head / size) / in.columns;
  };

  // Of two channels or four a byte's place in its word is its channel, the same one in all runs.
  const bool few_in_turn =
      bytes && in.few_channels && inner_rows.stride == in.channels &&
      (in.channels == 3 || in.outer.size == 1 || in.outer.stride % in.channels == 0);
  if (allowed.in_runs && (planar || in.few_channels)) {
    return std::nullopt;
  }
  if (planar || few_in_turn) {
    // A warp reads 512 bytes at once; a run may begin anywhere, and ends with what is left.
    in.access = Access::kQuad;
    in.in_turn = bytes && in.channels == 3;
    in.log_lanes = log2_of(kBanks);
    in.columns = kQuadRow / size;
    in.run = inner_rows.size * in.channels - allowed.gap;
    in.row_stride = in.columns * size;
    found.table_columns = in.columns;
    found.of_run = whole_rows(kQuadBytes);
    return found;
  }

  const int64_t word = std::max<int64_t>(4 / size, 1);
  found.table_columns = bytes ? kByteColumns : slots * word;
  const bool dense = inner_rows.stride == in.channels;
  const int64_t begin = static_cast<int64_t>(reinterpret_cast<uintptr_t>(in.data)) |
                        in.batch[1].stride | in.outer.stride | sets.stride * size;
  int64_t joined = 1;
  if (allowed.in_runs && dense) {
    const int64_t most_groups = std::min(
        {total_bytes / kMinStreamBytesPerTable, limits.sm_count / outer_channels.size,
         kMaxGroupsInRuns});
    joined = joined_rows(
        in.channels * size, inner_rows.size, begin, found.table_columns * size, most_groups);
  }
  in.columns = joined * in.channels;
  in.row_stride = joined * inner_rows.stride * size;
  found.of_run = inner_rows.size / joined;
  const auto begin_at = [&](int64_t bound) { // multiples of it, all rows
    return (begin | in.row_stride) % bound == 0;
  };
  const auto aligned_to = [&](int64_t bound) {
    return begin_at(bound) && in.columns * size % bound == 0;
  };
  const int64_t word_bytes = word * size;
  in.access = bytes && aligned_to(kQuadBytes) ? Access::kQuad
              : aligned_to(word_bytes)        ? Access::kWord
                                              : Access::kLoose;
  const int64_t groups = ceil_div(in.columns, found.table_columns);
  const bool narrow =
      static_cast<double>(in.columns) < (allowed.in_runs ? enough_fill_in_runs(in.access) : 0.5) *
                                            static_cast<double>(groups * found.table_columns);
  // Two blocks read the halves of a line at about the same time, if they are neighbours.
  if (allowed.halve && !allowed.in_runs && in.access == Access::kQuad && in.outer.size == 1 &&
      !narrow && (in.channels == kHalfColumns || begin_at(kLineBytes))) {
    found.table_columns = kHalfColumns;
    in.log_row_words = log2_of(kHalfColumns / 2);
  }
  if (dense && !allowed.in_runs &&
      (in.access == Access::kLoose || in.channels % found.table_columns != 0 || allowed.gap > 0)) {
    // A stream; all its runs must begin at the same distance from an aligned address.
    const int64_t width = stream_width(in.channels, word, found.table_columns);
    const auto access = bytes && width % kQuadBytes == 0 ? Access::kQuad : Access::kWord;
    const int64_t load_bytes = access == Access::kQuad ? kQuadBytes : word_bytes;
    const int64_t run = inner_rows.size * in.channels - allowed.gap;
    const int64_t least = narrow ? kMinShareBytes : kMinStreamBytesPerTable;
    if ((in.outer.size == 1 || in.outer.stride % load_bytes == 0) &&
        run * in.outer.size * size >= ceil_div(width, found.table_columns) * least) {
      in.access = access;
      in.run = run;
      in.columns = width;
      in.row_stride = width * size;
      found.of_run = whole_rows(load_bytes);
    }
  }
  if (!in.is_stream() && narrow) { // narrow rows leave most of a warp idle
    return std::nullopt;
  }
  // Where words are put together rows are more than a word apart, or the first or the last ones of a
  // block lie at the ends of the tensor.
  const int64_t least_stride = in.access == Access::kLoose ? kMostBeyondLoose : 0;
  if (in.access == Access::kLoose && in.row_stride * kRowsAtEnd < least_stride) {
    return std::nullopt;
  }
  if (allowed.in_runs) {
    const int64_t run_jump = in.outer.stride - found.of_run * in.row_stride;
    const int64_t set_stride = sets.size > 1 ? sets.stride * size : in.outer.size * in.outer.stride;
    const int64_t set_jump = set_stride - in.outer.size * in.outer.stride;
    if (std::min(run_jump, set_jump) < 0 || std::min(in.outer.stride, set_stride) < least_stride ||
        std::max({in.row_stride, run_jump, set_jump}) > kMaxPlace) {
      return std::nullopt;
    }
    in.in_runs = true;
    in.by_rows_of_run = Divider(static_cast<uint32_t>(found.of_run));
    in.by_runs_of_set = Divider(static_cast<uint32_t>(outer_rows.size));
    in.run_jump = static_cast<uint32_t>(run_jump);
    in.set_jump = static_cast<uint32_t>(set_jump);
    in.outer = {1, 0};
    found.of_run *= outer_rows.size * sets.size;
    found.of_run -= allowed.gap > 0 ? kRowsApart : 0;
  }
  in.log_lanes =
      log2_of(found.table_columns * size / (in.access == Access::kQuad ? kQuadBytes : word_bytes));
  return found;
}

template <class Binning>
std::optional<Plan> plan_columns(
    const Problem& problem,
    const Binning& binning,
    const DeviceLimits& limits,
    const Allowed& allowed = {}) {
  std::optional<Rows> found = find_rows(problem, limits, allowed);
  if (!found || (allowed.gap > 0 && !allowed.in_runs && !found->in.is_stream())) {
    return std::nullopt;
  }
  Columns& in = found->in;
  const int64_t size = element_size(problem.type);
  const bool bytes = size == 1;
  const int64_t groups =
      in.channels == 1 && !bytes ? found->tables : ceil_div(in.columns, found->table_columns);
  const int64_t batches = in.batch[0].size * in.batch[1].size;
  const int64_t units = groups * batches;
  const int64_t unit_rows = in.outer.size * found->of_run;
  const int64_t row_bytes = std::min(in.columns, found->table_columns) * size;
  const bool few_bytes = in.few_channels && bytes;
  int threads = kColumnThreads;
  int64_t places = limits.sm_count; // of blocks that are there at the same time
  const int64_t tables_of_sm = limits.shared_per_sm / (kByteTableBytes + kReservedBytes);
  if (few_bytes && tables_of_sm > 1 && unit_rows * row_bytes < short_unit_bytes(in.in_turn)) {
    threads = threads_of_short_units(in.in_turn);
    places *= std::min<int64_t>(kColumnThreads / threads, tables_of_sm);
  }
  const int64_t rows = units * unit_rows;
  const bool fits = unit_rows * row_bytes >= kMinShareBytes && rows < kMaxRows;
  const bool in_turns = units > limits.sm_count; // blocks of one unit each
  const bool halved = bytes && found->table_columns == kHalfColumns;
  const auto in_whole_tables = [&] {
    Allowed less = allowed;
    less.halve = false;
    return plan_columns(problem, binning, limits, less);
  };
  // In turns twice as many blocks would start and end.
  if (halved && (!fits || (in_turns && in.channels > kHalfColumns))) {
    return in_whole_tables();
  }
  if (!fits) {
    return std::nullopt;
  }

  // Equal shares fill the GPU with one block an SM, unless whole units a block are
  // counted sooner than tables are folded.
  int64_t fewest = ceil_div(kMinShareBytes, row_bytes);
  fewest = std::min(unit_rows, in.few_channels ? fewest : std::max(kMinShareRows, fewest));
  int64_t share = std::max(ceil_div(rows, places), fewest);
  // Groups read neighbouring columns of the same rows, at the same time.
  int64_t parts = groups <= places ? groups : 1;
  const bool has_copies = 2 * in.channels <= found->table_columns;
  const bool fills_turns = static_cast<double>(units) >=
                           kEnoughBlocks * static_cast<double>(ceil_div(units, places) * places);
  const bool whole_units =
      !in.few_channels &&
      (in_turns ? unit_rows <= kRowsOfWholeUnits || (!has_copies && fills_turns)
                : unit_rows <= rows_of_one_block_per_unit(found->table_columns) * units);
  if (!in.few_channels) {
    const int64_t blocks_of_unit = std::min(ceil_div(unit_rows, share), limits.sm_count / units);
    // A block that works on two units takes longer than most: better none does, where
    // that leaves few SMs idle. Of 64 channels none does, or all would add to the counts.
    const bool few_idle = blocks_of_unit * units >= kEnoughBlocks * limits.sm_count;
    const bool apart = halved && in.channels == kHalfColumns;
    parts = whole_units || few_idle || share == fewest || apart ? units : 1;
  }
  const int64_t part_rows = rows / parts;
  const int64_t blocks_of_part =
      std::clamp<int64_t>(ceil_div(part_rows, fewest), 1, std::max<int64_t>(places / parts, 1));
  share = ceil_div(part_rows, whole_units ? 1 : blocks_of_part);
  in.rows = static_cast<unsigned>(found->of_run);
  in.unit_rows = static_cast<unsigned>(unit_rows);
  in.groups = static_cast<unsigned>(groups);
  in.group_columns = in.channels == 1 ? 0 : static_cast<unsigned>(found->table_columns);
  in.batches = static_cast<unsigned>(batches);
  in.parts = static_cast<unsigned>(parts);
  in.part_rows = static_cast<unsigned>(part_rows);
  in.blocks_of_part = static_cast<unsigned>(ceil_div(part_rows, share));
  in.share = static_cast<unsigned>(share);
  if (in.in_runs) { // its loops work out in 32 bits how far apart a block's rows lie
    const int64_t runs = share / in.by_rows_of_run.divisor + 2;
    const int64_t sets = runs / in.by_runs_of_set.divisor + 2;
    if ((share + 1) * in.row_stride + runs * in.run_jump + sets * in.set_jump > kMaxPlace) {
      return std::nullopt;
    }
  }
  const int64_t table_rows = rows_of_table(problem, int64_t{1} << in.log_row_words);
  in.table_rows =
      bytes ? end_of_values(problem.type, binning)
            : static_cast<unsigned>(ceil_div(table_rows, found->tables * kBanks) * kBanks);
  if (!bytes && found->tables == 1) {
    in.table_rows = static_cast<unsigned>(table_rows);
  }

  // A counter has one writer where columns are channels, or summed, in 32 bits, and rows are bins.
  in.sums_columns = !in.few_channels && in.columns != in.channels && groups == 1 &&
                    parts == units && in.blocks_of_part > 1 &&
                    unit_rows * (in.columns / in.channels) <= kMaxOf32Bits;
  const bool rows_are_bins = has_row_for_each_bin<Binning>(problem.type);
  const bool one_writer = (in.columns == in.channels || in.sums_columns) && rows_are_bins;
  const int64_t ragged = in.in_runs ? kRowsApart : in.is_stream() ? kRaggedRows * in.outer.size : 0;
  in.paired = bytes ? in.channels > 1 : size == 2 && in.access != Access::kQuad;
  if (in.access == Access::kQuad) {
    const int64_t rows_at_once = threads >> in.log_lanes;
    in.load_step = rows_at_once * in.row_stride;
    in.round_step = kBytesInFlight / kQuadBytes * in.load_step;
  }
  // Few channels of bytes are summed before (planes.cu).
  const bool spills =
      in.paired && !few_bytes && std::min(share, unit_rows) + ragged > kMaxPairCount;
  in.adds = in.few_channels || !one_writer || spills;
  const unsigned chunk = rows_of_chunk(static_cast<unsigned>(found->table_columns));
  in.chunks = in.rows / chunk / in.blocks_of_part;
  in.blocks_with_more = in.rows / chunk % in.blocks_of_part;
  const unsigned rows_of_block = // at most, in whole chunks
      in.chunks * chunk + (in.blocks_with_more > 0 ? chunk : in.rows % chunk);
  if (few_bytes) {
    in.by = CountedBy::kPlanes;
  } else if (
      // All of a block is of one unit and in one run, a column is a channel, and a row of a table is
      // its bin.
      bytes && in.access == Access::kQuad && !in.is_stream() && in.outer.size == 1 && !in.in_runs &&
      parts == units && !in.adds && rows_of_block <= kMaxPairCount) {
    in.by = CountedBy::kRows;
    in.load_step = (kBanks >> in.log_lanes) * in.row_stride; // a warp reads neighbouring rows
    in.share = rows_of_block;
  } else if (halved) {
    return in_whole_tables();
  }

  Plan plan{};
  plan.blocks = parts * in.blocks_of_part;
  plan.threads = threads;
  plan.cluster = 1;
  // Of wider types what has no bin is counted in a row behind the last, or where a row is for
  // two bins in one for two more.
  const int64_t row_words = int64_t{1} << in.log_row_words;
  const int64_t words = in.table_words() + (in.paired && row_words < kBanks ? 2 : 1) * row_words;
  plan.shared_bytes = halved ? kHalfTableBytes : bytes ? kByteTableBytes : words * kCounterBytes;
  plan.clears = in.adds || problem.num_bins > in.table_rows;
  in.cleared = plan.clears;
  const auto address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(in.data));
  const int64_t strides = in.batch[0].stride | in.batch[1].stride | in.outer.stride |
                          in.row_stride | in.run_jump | in.set_jump;
  const bool whole_lines =
      in.group_columns > 0 && (address | strides | in.group_columns * size) % kLineBytes == 0;
  plan.shares_lines = groups > 1 && !whole_lines && !halved;
  if (!in.few_channels && share % unit_rows != 0) {
    plan.workspace_bytes = plan.blocks * in.table_words() * kCounterBytes;
    const auto blocks = [&](int words) { return units * ceil_div(in.table_words(), words); };
    plan.fold_words =
        blocks(kFoldWords) < limits.sm_count ? kFewFoldWords
        : in.blocks_of_part > kTablesOfManyFoldWords || blocks(kManyFoldWords) < limits.sm_count
            ? kFoldWords
            : kManyFoldWords;
    plan.fold_blocks = blocks(plan.fold_words);
  }
  plan.layout = in;
  return plan;
}

/// A few MiB of bytes in channels side by side: clusters of blocks, and no fold.
template <class Binning>
std::optional<Plan> plan_clustered(
    const Problem& problem, const Binning& binning, const DeviceLimits& limits) {
  const auto& [batches, channels] = problem.channels;
  const auto& [sets, outer, rows] = problem.rows;
  if (!limits.has_clusters() || !std::is_same_v<Binning, ValueBinning> ||
      !is_one_byte(problem.type) || channels.stride != 1 || sets.size * outer.size != 1 ||
      rows.stride < channels.size || rows.stride > kMaxRowStride) {
    return std::nullopt;
  }
  const int64_t groups = ceil_div(channels.size, kHalfColumns);
  const int64_t units = groups * batches.size;
  if (static_cast<double>(channels.size) <
      kEnoughFill * static_cast<double>(groups * kHalfColumns)) {
    return std::nullopt;
  }
  const auto most = static_cast<int64_t>(kSmsInClusters * limits.sm_count);
  const int64_t cluster = power_of_two_below(std::clamp(most / units, int64_t{1}, kMaxCluster));
  const int64_t bytes = channels.size * batches.size * rows.size;
  if (cluster == 1 || bytes < kMinBytesForClusters) {
    return std::nullopt;
  }
  const int64_t wanted = ceil_div(bytes, units * cluster * kEnoughBytesOfClusteredBlock);
  const int64_t clusters = std::min(wanted, most / (units * cluster));
  const int64_t blocks = units * cluster * clusters;
  const int64_t share = ceil_div(rows.size, cluster * clusters * kClusteredRows) * kClusteredRows;
  const int64_t most_excess =
      clusters == 1 || groups == 1 ? kMaxExcessOfClusteredBlock : kMaxExcessWhereItAdds;
  if (bytes / blocks - bytes / limits.sm_count > most_excess || share + 2 > kMaxPairCount) {
    return std::nullopt;
  }

  Columns in{};
  in.data = static_cast<const uint8_t*>(problem.data);
  in.data_end = end_of(problem);
  in.batch[0] = {1, 0};
  in.batch[1] = batches;
  in.row_stride = rows.stride;
  in.columns = in.channels = in.counted = channels.size;
  in.num_bins = problem.num_bins;
  in.rows = in.unit_rows = static_cast<unsigned>(rows.size);
  in.share = static_cast<unsigned>(share);
  in.groups = static_cast<unsigned>(groups);
  in.batches = static_cast<unsigned>(batches.size);
  in.log_row_words = log2_of(kHalfColumns / 2);
  in.table_rows = end_of_values(problem.type, binning);
  in.type = problem.type;
  const auto address = reinterpret_cast<uintptr_t>(problem.data);
  in.access = (address | static_cast<uintptr_t>(batches.stride | rows.stride | channels.size)) % 4
                  ? Access::kLoose
                  : Access::kWord;
  in.adds = clusters > 1 || problem.type == ElementType::kBool;
  in.by = CountedBy::kClustered;
  in.paired = true;

  Plan plan{};
  plan.blocks = blocks;
  plan.threads = kClusteredThreads;
  plan.cluster = static_cast<int>(cluster);
  plan.shared_bytes = kHalfTableBytes;
  plan.clears = in.adds || problem.num_bins > in.table_rows;
  in.cleared = plan.clears;
  plan.layout = in;
  return plan;
}

/// A plan of columns that is sooner done than one of clusters.
bool outdoes_clusters(const Plan& plan, const Problem& problem) {
  const auto& in = std::get<Columns>(plan.layout);
  return in.by == CountedBy::kRows && in.group_columns == kHalfColumns &&
         (in.units() <= kMostUnitsOfRows ||
          problem.num_channels() * problem.num_rows() > kMaxBytesForClusters);
}

/// x with a * x = 1, modulo 2^32.
constexpr uint32_t inverse_of(uint32_t a) {
  uint32_t x = a; // right in 3 bits, and in twice as many with each step
  for (int bits = 3; bits < 32; bits *= 2) {
    x *= 2 - a * x;
  }
  return x;
}

std::optional<Plan> plan_exchange(const Problem& problem, const DeviceLimits& limits) {
  const int64_t size = element_size(problem.type);
  const int64_t elements = problem.rows[2].size;
  if (problem.num_channels() != 1 || problem.num_rows() != elements ||
      problem.rows[2].stride != 1 || size == 1 || elements * size < kMinBytesForExchange ||
      elements < kMinElementsPerBin * problem.num_bins) {
    return std::nullopt;
  }
  const int64_t owners = power_of_two_below(limits.sm_count);
  Exchange in{};
  in.element_bytes = static_cast<int>(size);
  in.num_bins = problem.num_bins;
  in.log_owners = log2_of(owners);
  in.log_owned = log2_of(ceil_div(problem.num_bins, owners));
  const int64_t table_bytes = (kCounterBytes << in.log_owned) + 2 * kOwnCounters * kCounterBytes;
  const int64_t staged_bytes =
      owners * (kSegmentBytes + kQuadBytes + kCounterBytes) + kBanks * kCounterBytes;
  if (owners < kFewestOwners || in.log_owned > kMaxLogOwned ||
      table_bytes + staged_bytes > limits.shared_per_block) {
    return std::nullopt;
  }
  const unsigned log_bins = in.log_owners + in.log_owned;
  in.mixer = kGoldenRatio << (32 - log_bins);
  in.unmixer = inverse_of(kGoldenRatio);
  // A negative value is above the limit as it stands.
  const int64_t most = problem.type == ElementType::kInt16 ? int64_t{1} << 15 : kMaxOf32Bits;
  in.limit = static_cast<uint32_t>(std::min(problem.num_bins, most));

  const auto address = reinterpret_cast<uintptr_t>(problem.data);
  const auto beyond = static_cast<int64_t>(address % kQuadBytes);
  const int64_t head = beyond > 0 ? (kQuadBytes - beyond) / size : 0;
  in.head = static_cast<unsigned>(head);
  in.data = static_cast<const uint8_t*>(problem.data) + head * size;
  in.quads = (elements - head) * size / kQuadBytes;
  in.ragged = static_cast<unsigned>(elements - in.quads * kQuadBytes / size);
  const int64_t quads_of_thread = size == 2 ? kExchangeQuads<2> : kExchangeQuads<4>;
  in.quads_of_tile = quads_of_thread * kExchangeThreads;
  in.rounds = static_cast<unsigned>(ceil_div(in.quads, in.quads_of_tile * limits.sm_count));
  // All that an owner finds may be of one bin: entries of two bytes, each for a whole quad.
  const int64_t entries = in.rounds * limits.sm_count * kSegmentBytes / 2;
  if (entries * (kQuadBytes / size) > kMaxOf32Bits) {
    return std::nullopt;
  }

  Plan plan{};
  plan.layout = in;
  plan.blocks = limits.sm_count;
  plan.threads = kExchangeThreads;
  plan.cluster = 1;
  plan.shared_bytes = table_bytes + staged_bytes;
  plan.workspace_bytes = kBarrierBytes + 2 * owners * limits.sm_count * kSegmentBytes;
  plan.clears = true;
  return plan;
}

/// Whether rows are read with what lies between them: it is no more than they are, or in their lines
/// and not much more. 64-bit elements are few to count, and whole sectors of them are left out.
bool is_little(int64_t gap, int64_t channels, int64_t size) {
  return (gap <= channels || (gap <= 3 * channels && (channels + gap) * size <= kReadWithRows)) &&
         (size < 8 || gap * size < kSectorBytes);
}

/// Rows with little between them: that is read too, as channels that have no counts.
template <class Binning>
std::optional<Plan> plan_with_gaps(
    const Problem& problem, const Binning& binning, const DeviceLimits& limits, bool in_runs) {
  const int64_t size = element_size(problem.type);
  const auto& [outer_channels, inner_channels] = problem.channels;
  const Extent& rows = problem.rows[2];
  const bool one = one_after_another(problem);
  const int64_t channels = one ? 1 : inner_channels.size;
  const int64_t gap = rows.stride - channels;
  const bool little =
      one ? size == 1 && rows.stride <= kMaxGapOfOneChannel : is_little(gap, channels, size);
  // Few channels of wider types are counted sooner in runs.
  if (rows.size == 1 || gap <= 0 || !little ||
      (size > 1 && rows.stride <= kMaxChannelsAddedByBlock) ||
      (one ? outer_channels.size > 1 : inner_channels.stride != 1)) {
    return std::nullopt;
  }
  Problem wider = problem;
  if (one) {
    wider.channels[0] = inner_channels;
  }
  wider.channels[1] = {rows.stride, 1};
  Allowed allowed;
  allowed.gap = gap;
  allowed.in_runs = in_runs;
  return plan_columns(wider, binning, limits, allowed);
}

/// Runs that begin anywhere: of channels one after another, or of rows of channels.
template <class Binning>
std::optional<Plan> plan_runs(
    const Problem& problem, const Binning& binning, const DeviceLimits& limits) {
  const int64_t size = element_size(problem.type);
  const int64_t of_quad = kQuadBytes / size;
  const auto& [outer_channels, inner_channels] = problem.channels;
  const Extent& inner_rows = problem.rows[2];
  const bool planar = one_after_another(problem);
  const int64_t channels = planar ? 1 : inner_channels.size;
  const int64_t step = inner_rows.size == 1 ? channels : inner_rows.stride;
  if (step < channels || (planar ? step > 1 : inner_channels.stride != 1)) {
    return std::nullopt;
  }

  Runs in{};
  in.table_rows = size == 1 ? end_of_values(problem.type, binning)
                            : static_cast<unsigned>(rows_of_table(problem, kBanks));
  const int64_t words_of_block = limits.shared_per_block / kCounterBytes;
  const int64_t most_columns = words_of_block / (in.table_rows + 1);
  // A row of columns: an odd number.
  const auto row_of = [&](int64_t period) { return (period + of_quad - 1) | 1; };
  const bool whole = is_little(step - channels, channels, size) && row_of(step) <= most_columns;
  const int64_t period = whole ? step : channels;
  // A load of 16 bytes for each row is then more work than one of each element.
  if (!whole && (planar || (channels * size <= kQuadBytes && problem.rows[0].size == 1))) {
    return std::nullopt;
  }
  if (row_of(period) > most_columns) {
    return std::nullopt;
  }
  // Of one channel short rows with little between them.
  const Extent& next = problem.rows[1];
  const int64_t row = inner_rows.size;
  const int64_t of_rows = (next.size - 1) * next.stride + row;
  const auto most_quads = [&](int64_t elements) {
    return ceil_div(kQuadBytes - size + elements * size, kQuadBytes);
  };
  const bool joins = planar && next.size > 1 && next.stride > row &&
                     next.stride * size <= kMaxJoinedRowBytes &&
                     most_quads(of_rows) < next.size * most_quads(row);
  const int64_t run = joins ? of_rows : whole ? (row - 1) * step + channels : channels;
  const int64_t units = outer_channels.size * (planar ? inner_channels.size : 1);
  const int64_t run_bytes = run * size;
  in.data = static_cast<const uint8_t*>(problem.data);
  in.batch[0] = planar ? in_bytes(outer_channels, size) : Extent{1, 0};
  in.batch[1] = in_bytes(planar ? inner_channels : outer_channels, size);
  const int within = joins ? 2 : whole ? 1 : 0; // loops of rows that a run has all of
  Extent loops[3] = {{1, 0}, {1, 0}, {1, 0}};   // of runs
  for (int i = within; i < 3; ++i) {
    loops[i] = in_bytes(problem.rows[i - within], size);
  }
  const int64_t runs = loops[0].size * loops[1].size * loops[2].size;
  const auto step_of = [](const Extent& loop) { return loop.size > 1 ? loop.stride : 0; };
  // Runs that all begin at the same distance from an aligned address have fewest quads.
  const auto address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(in.data));
  int64_t strides = 0;
  for (const Extent& loop : {in.batch[0], in.batch[1], loops[0], loops[1], loops[2]}) {
    strides |= step_of(loop);
  }
  const int64_t most_skew = strides % kQuadBytes == 0 ? address % kQuadBytes : kQuadBytes - size;
  const int64_t quads_of_run = ceil_div(most_skew + run_bytes, kQuadBytes);
  const int64_t quads = runs * quads_of_run;
  const uint8_t* end = end_of(problem);
  if (run_bytes >= kMaxRows / 2 || quads >= kMaxRows || units >= kMaxRows / 2 ||
      end - in.data < 2 * kQuadBytes) {
    return std::nullopt;
  }
  if (std::max(step_of(loops[1]), step_of(loops[2])) > kMaxPlace) {
    return std::nullopt;
  }
  const int64_t first_quad = ceil_div(address, kQuadBytes) * kQuadBytes;
  in.first_quad = static_cast<uint64_t>(first_quad);
  in.last_quad = static_cast<uint64_t>(
      (address + (end - in.data)) / kQuadBytes * kQuadBytes - kQuadBytes - first_quad);
  in.set_step = static_cast<uint64_t>(step_of(loops[0]));
  in.outer_step = static_cast<uint32_t>(step_of(loops[1]));
  in.step = static_cast<uint32_t>(step_of(loops[2]));

  // Two channels take turns as four do.
  const bool few = period == 1 || (size == 1 && period <= 4);
  // Three blocks an SM, where their tables fit; small units share a block.
  const int64_t preferred =
      std::min(limits.shared_per_block, limits.shared_per_sm / kRunBlocksOfSm - kReservedBytes);
  const int64_t tables = !few ? 0 : period == 2 ? 4 : period;
  const int64_t counters = (in.table_rows + 1) * (few ? tables : row_of(period));
  const auto fit = [&](int64_t words) { return words * kCounterBytes <= preferred; };
  // Neighbouring units begin in other banks.
  while (in.log_units < kLogRunThreads && quads << (in.log_units + 1) <= kRunUnroll * kRunThreads &&
         int64_t{1} << in.log_units < units && fit((counters | 1) << (in.log_units + 1))) {
    ++in.log_units;
  }
  // A small table is soon cleared and summed; of wider types few copies pay, or none.
  const int64_t read_words = quads * kQuadBytes / kCounterBytes;
  const int64_t worth = size == 1 ? read_words : size == 2 ? read_words / kReadPerTable : 0;
  while (few && in.log_units == 0 && in.log_copies < log2_of(kBanks) &&
         counters << (in.log_copies + 1) <= worth && fit(counters << (in.log_copies + 1))) {
    ++in.log_copies;
  }
  const int64_t unit_words = in.log_copies > 0 ? counters << in.log_copies : counters | 1;
  const int64_t table_words = ceil_div(unit_words << in.log_units, 4) * 4;
  if (table_words > words_of_block) {
    return std::nullopt;
  }
  const int64_t blocks_of_sm = std::clamp<int64_t>(
      limits.shared_per_sm / (table_words * kCounterBytes + kReservedBytes), 1, kRunBlocksOfSm);
  // As many blocks as are there at the same time, or several times as many of equal length.
  const int64_t places = blocks_of_sm * limits.sm_count;
  const int64_t fewest_chunks = ceil_div(quads, kMaxQuadsOfBlock);
  const int64_t table_bytes = unit_words * kCounterBytes;
  const auto chunks_of = [&](int64_t least) {
    return quads * kQuadBytes / std::max(least, table_bytes);
  };
  const int64_t most_chunks = std::max(
      {chunks_of(kEnoughRunBytesOfBlock),
       std::min(chunks_of(kMinRunBytesOfBlock), limits.sm_count / units), fewest_chunks});
  const int64_t wanted = units <= places ? places / units : ceil_div(kRunWaves * places, units);
  const int64_t chunks = in.log_units > 0 ? 1 : std::clamp(wanted, fewest_chunks, most_chunks);

  in.channels = channels;
  in.num_bins = problem.num_bins;
  in.units = static_cast<unsigned>(units);
  in.period = static_cast<unsigned>(period);
  const int64_t turn = joins ? next.stride : period;
  in.before_run = static_cast<unsigned>(ceil_div(of_quad, turn) * turn);
  in.run_bytes = static_cast<unsigned>(run_bytes);
  if (joins) {
    uint64_t bytes_of_rows = 0;
    for (int64_t begin = 0; begin < 64; begin += next.stride * size) {
      bytes_of_rows |= ((uint64_t{1} << (row * size)) - 1) << begin;
    }
    in.between = ~bytes_of_rows;
    in.run_bytes_between = static_cast<unsigned>(run_bytes - row * next.size * size);
  }
  in.quads = static_cast<unsigned>(quads);
  in.share = static_cast<unsigned>(ceil_div(quads, chunks));
  in.chunks = static_cast<unsigned>(ceil_div(quads, int64_t{in.share}));
  in.tables = static_cast<unsigned>(tables);
  in.columns = static_cast<unsigned>(few ? tables : period + of_quad - 1);
  in.row_words = few ? 1u << in.log_copies : static_cast<unsigned>(row_of(period));
  in.column_words = few ? (in.table_rows + 1) << in.log_copies : 1;
  in.unit_words = static_cast<unsigned>(unit_words);
  in.by_quads_of_run = Divider(static_cast<uint32_t>(quads_of_run));
  in.by_loop[0] = Divider(static_cast<uint32_t>(loops[1].size));
  in.by_loop[1] = Divider(static_cast<uint32_t>(loops[2].size));
  in.by_period = Divider(static_cast<uint32_t>(turn));
  in.by_rows = Divider(in.table_rows);
  in.by_channels = Divider(static_cast<uint32_t>(channels));
  in.type = problem.type;
  in.adds = in.chunks > 1 || !has_row_for_each_bin<Binning>(problem.type);

  Plan plan{};
  plan.blocks = ceil_div(units, int64_t{1} << in.log_units) * in.chunks;
  plan.threads = blocks_of_sm == 1 && size > 1 ? 2 * kRunThreads : kRunThreads;
  plan.cluster = 1;
  plan.shared_bytes = table_words * kCounterBytes;
  plan.clears = in.adds || problem.num_bins > in.table_rows;
  in.cleared = plan.clears;
  if (plan.blocks >= kMaxRows) {
    return std::nullopt;
  }
  plan.layout = in;
  return plan;
}

/// Whether runs or units are so short that a plan of columns is done later than one of runs.
bool runs_outdo(const Plan& plan, const DeviceLimits& limits) {
  const auto& in = std::get<Columns>(plan.layout);
  const int64_t size = element_size(in.type);
  const bool one_channel = in.channels == 1;
  const int64_t run = in.is_stream() ? in.run * size : in.rows * in.row_stride;
  const int64_t long_run = size > 1        ? kLongRunOfWiderTypes
                           : one_channel   ? kLongRunOfOneChannel
                           : in.groups > 1 ? 2 * kLongRun
                                           : kLongRun;
  const int64_t table_columns = (in.paired ? 2 : 1) << in.log_row_words;
  const bool has_copies = 2 * in.channels <= table_columns;
  const bool short_units = has_copies && in.by == CountedBy::kColumns &&
                           in.batches > static_cast<unsigned>(limits.sm_count) &&
                           in.outer.size * run <= (one_channel ? kLongUnitOfOneChannel : kLongUnit);
  return (in.outer.size > 1 && run < long_run) || short_units ||
         (size > 1 && in.few_channels && !one_channel);
}

/// Whether it is done sooner than by tiles, which leave no more behind than what was asked for.
bool runs_outdo_tiles(const Plan& plan, const Problem& problem) {
  const auto& in = std::get<Runs>(plan.layout);
  const int64_t bytes = problem.num_channels() * problem.num_rows() * element_size(problem.type);
  return bytes >= kMinBytesForRuns &&
         (in.tables > 0 || problem.num_rows() >= kMinRowsPerBinOfRuns * in.table_rows);
}

Plan plan_tiles(const Problem& problem, const DeviceLimits& limits) {
  Tiles in{};
  std::copy_n(problem.channels, 2, in.channels);
  in.sets = problem.rows[0].size > 1;
  in.set_stride = problem.rows[0].stride;
  std::copy_n(problem.rows + 1, 2, in.rows);
  in.num_channels = problem.num_channels();
  in.num_rows = problem.num_rows();
  in.along_rows = in.num_channels == 1 || problem.rows[2].stride < problem.channels[1].stride;
  // A counter for what has no bin; and odd, so that channels start in different banks.
  const int64_t table_stride = (problem.num_bins + 1) | 1;

  int64_t wanted;
  if (in.along_rows) {
    // Several channels a block only where each has few rows, a warp or more each.
    constexpr int64_t kWarps = kStridedThreads / 32;
    wanted = std::min(kStridedThreads * kStridedUnroll / in.num_rows, kWarps);
  } else {
    // As few as keep every SM busy, though a sector read for part of its bytes
    // costs traffic with the second-level cache.
    const int64_t size = element_size(problem.type);
    const int64_t least = std::clamp<int64_t>(
        in.num_channels * in.num_rows / kElementsPerSector, 1, kSectorBytes / size);
    const int64_t most = std::max(kTileRowElements, kTileRowBytes / size);
    wanted = std::clamp(in.num_channels / limits.sm_count, least, most);
  }
  const int64_t fit = std::max<int64_t>(kPreferredTableBytes / (table_stride * kCounterBytes), 1);
  const int64_t most = std::min(wanted, fit);
  in.tile_channels = 1;
  while (in.tile_channels * 2 <= most && in.tile_channels < in.num_channels) {
    in.tile_channels *= 2;
  }
  in.tiles = ceil_div(in.num_channels, in.tile_channels);

  const int64_t table_bytes = in.tile_channels * table_stride * kCounterBytes;
  const bool table = table_bytes <= limits.shared_per_block;
  in.table_stride = table ? static_cast<int>(table_stride) : 0;

  const int64_t rounds = ceil_div(in.num_rows, kStridedThreads / in.tile_channels * kStridedUnroll);
  const int64_t fill = kStridedBlocksPerSm * limits.sm_count / in.tiles;
  int64_t chunks = std::max<int64_t>(std::min(fill, rounds), 1);
  if (limits.has_clusters() && table && chunks > 1 && rounds <= kMaxCluster * kMaxClusterRounds) {
    in.clustered = true;
    chunks = std::min(chunks, kMaxCluster);
  }
  // A block's counters are 32 bits wide.
  in.rows_per_chunk = std::min(ceil_div(in.num_rows, chunks), int64_t{1} << 31);
  const int64_t size = element_size(problem.type);
  in.quads = in.along_rows && in.tile_channels == 1 && in.num_rows == in.rows[1].size &&
             in.rows[1].stride == 1 &&
             reinterpret_cast<uintptr_t>(problem.data) % kQuadBytes == 0 &&
             in.channels[0].stride * size % kQuadBytes == 0 &&
             in.channels[1].stride * size % kQuadBytes == 0;
  if (in.quads) {
    in.rows_per_chunk = ceil_div(in.rows_per_chunk, kQuadBytes) * kQuadBytes; // whole quads
  }
  in.chunks = ceil_div(in.num_rows, in.rows_per_chunk);
  in.clustered = in.clustered && in.chunks > 1;

  Plan plan{};
  plan.layout = in;
  plan.blocks = in.tiles * in.chunks;
  plan.threads = kStridedThreads;
  plan.cluster = in.clustered ? static_cast<int>(in.chunks) : 1;
  plan.shared_bytes = table ? table_bytes : 2 * int64_t{kOwnCounters} * kCounterBytes;
  plan.clears = !table || (in.chunks > 1 && !in.clustered);
  return plan;
}

/// Columns of whatever lies between rows and between runs of them.
template <class Binning>
std::optional<Plan> plan_side_by_side(
    const Problem& problem, const Binning& binning, const DeviceLimits& limits) {
  const Extent& rows = problem.rows[2];
  const auto with_gaps = [&](std::optional<Plan> plan, bool in_runs) {
    const auto suits = [&](const Columns& in) {
      return in.access == Access::kLoose &&
             static_cast<double>(rows.stride) <=
                 kMostStrideWithGaps * static_cast<double>(problem.channels[1].size);
    };
    if (!plan || suits(std::get<Columns>(plan->layout))) {
      if (std::optional<Plan> wider = plan_with_gaps(problem, binning, limits, in_runs)) {
        return wider;
      }
    }
    return plan;
  };
  std::optional<Plan> columns = with_gaps(plan_columns(problem, binning, limits), false);
  if (problem.num_rows() == rows.size) {
    return columns;
  }
  Allowed allowed;
  allowed.in_runs = true;
  std::optional<Plan> in_runs = with_gaps(plan_columns(problem, binning, limits, allowed), true);
  if (!columns || !in_runs) {
    return columns ? columns : in_runs;
  }
  const auto& one = std::get<Columns>(columns->layout);
  const auto& other = std::get<Columns>(in_runs->layout);
  const int64_t run_bytes = rows.size * rows.stride * element_size(problem.type);
  const int64_t tables_of_row = ceil_div(other.channels, other.group_columns);
  const bool short_runs = run_bytes < kLongRunOfRows * tables_of_row;
  return short_runs || one.access == Access::kLoose ? in_runs : columns;
}

} // namespace

template <class Binning>
Plan make_plan(const Problem& problem, const Binning& binning, const DeviceLimits& limits) {
  // Elements side by side have the fastest way; tiles take everything.
  const std::optional<Plan> columns = plan_side_by_side(problem, binning, limits);
  if (columns && outdoes_clusters(*columns, problem)) {
    return *columns;
  }
  if (const std::optional<Plan> clustered = plan_clustered(problem, binning, limits)) {
    return *clustered;
  }
  if (!columns || runs_outdo(*columns, limits)) {
    const std::optional<Plan> runs = plan_runs(problem, binning, limits);
    if (runs && (columns || runs_outdo_tiles(*runs, problem))) {
      return *runs;
    }
  }
  if (columns) {
    return *columns;
  }
  const std::optional<Plan> exchange = plan_exchange(problem, limits);
  return exchange ? *exchange : plan_tiles(problem, limits);
}

template Plan make_plan(const Problem&, const ValueBinning&, const DeviceLimits&);
template Plan make_plan(const Problem&, const LetterBinning&, const DeviceLimits&);

} // namespace histo::cuda
