#include "cuda/plan/geometry.h"

#include <numeric>

namespace histo::cuda {
namespace {

/// How well rows of this number of elements suit their tables: they leave few columns idle, and
/// need few tables. More than `enough` columns are of no use.
double score_of_width(int64_t width, int64_t table, double enough = 1) {
  const auto groups = static_cast<double>(ceil_div(width, table));
  const double fill = static_cast<double>(width) / (groups * static_cast<double>(table));
  return std::min(fill, enough) - kGroupCost * groups;
}

/// The number of elements of a stream that make a row: a multiple of the channels, and whole words,
/// so that every row is aligned.
int64_t stream_width(int64_t channels, int64_t word, int64_t table) {
  const int64_t step = std::lcm(channels, word);
  const double enough = channels <= kMaxChannelsAddedByBlock ? 1 : kEnoughFill;
  int64_t best = step;
  for (int64_t width = step;; width += step) {
    if (width > step && ceil_div(width, table) > kMaxStreamGroups) {
      return best;
    }
    if (score_of_width(width, table, enough) > score_of_width(best, table, enough)) {
      best = width;
    }
  }
}

/// The number of rows of a run that are joined to one. They suit their tables, and are whole words
/// or vec16s if runs begin with such.
int64_t joined_rows(
    int64_t row_bytes,
    int64_t rows_of_run,
    int64_t begin, // aligned as the worst of the runs
    int64_t table_bytes,
    int64_t most_groups) {
  const auto score = [&](int64_t rows) {
    const int64_t bytes = rows * row_bytes;
    const int64_t offsets = bytes | begin;
    return score_of_width(bytes, table_bytes) - (offsets % 4 != 0             ? kLooseCost
                                                 : offsets % kVec16Bytes != 0 ? kWordCost
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

Channels channels_of(const Problem& problem, int64_t gap) {
  const bool planar = problem.rows[2].stride == 1;
  const int64_t size = planar ? 1 : problem.channels[1].size;
  const bool few = size == 1 || (is_one_byte(problem.type) && size <= kMaxChannelsAddedByBlock);
  return {planar, size, size - gap, few};
}

ByteLoops loops_of(const Problem& problem, bool planar, int64_t size) {
  const Extent outer = in_bytes(problem.channels[0], size);
  const Extent inner = in_bytes(problem.channels[1], size);
  return {{planar ? outer : Extent{1, 0}, planar ? inner : outer}, in_bytes(problem.rows[1], size)};
}

bool is_enough(const Request& request, const Channels& channels) {
  const int64_t least = channels.size > kMaxChannelsAddedByBlock ? kMinBytesForColumns
                        : request.entries.bytes == 1             ? kMinBytesForFewChannels
                                                                 : kMinBytesForFewWideChannels;
  return bytes_of(request) >= least;
}

/// The words of an entry in the table of a type wider than a byte: copies for one channel, or
/// channels side by side. 0 if too few fit.
int64_t words_of_entry(const Request& request, int64_t channels) {
  // One more entry counts values without a bin. It takes two bins if a word counts two.
  const int64_t columns_of_word = std::max<int64_t>(4 / request.entries.bytes, 1);
  const int64_t bytes_of_word =
      (entries_of_table(request.entries, 1) + columns_of_word) * kCounterBytes;
  const int64_t least = channels == 1 ? 1 : kFewestColumns / columns_of_word;
  const int64_t bytes_of_block = bytes_of(request) / request.limits.sm_count;
  const int64_t worth = std::max(bytes_of_block / (kReadPerTable * bytes_of_word), least);
  const int64_t words = std::min({request.limits.shared_per_block / bytes_of_word, kBanks, worth});
  return words < least ? 0 : power_of_two_below(words);
}

std::optional<EntryShape> entry_shape_of(const Request& request, const Channels& channels) {
  const int64_t shared_bytes = request.limits.shared_per_block;
  if (request.entries.bytes == 1) {
    const EntryShape entry{channels.planar ? kBanks : kByteColumns / 2, 1};
    return kByteTableBytes <= shared_bytes ? std::optional(entry) : std::nullopt;
  }
  if (const int64_t words = words_of_entry(request, channels.size)) {
    return EntryShape{words, 1};
  }
  const int64_t fit = (shared_bytes / kCounterBytes - 1) / kBanks * kBanks;
  const EntryShape entry{1, ceil_div(entries_of_table(request.entries, 1), fit)};
  const bool deals = channels.size == 1 && request.entries.bytes >= 4;
  return deals && entry.tables <= kMaxTablesOfBins ? std::optional(entry) : std::nullopt;
}

/// The whole rows of a stream, after the elements before its first aligned load. Their number is
/// known if all runs begin alike. A row that is not whole costs a load for every element.
int64_t rows_of_stream(
    const Request& request,
    const ByteLoops& loops,
    int64_t run,
    int64_t columns,
    int64_t load_bytes) {
  const int64_t beyond = address_of(request.problem) % load_bytes;
  int64_t head = beyond > 0 ? load_bytes - beyond : 0;
  for (const Extent& loop : {loops.batch[0], loops.batch[1], loops.outer}) {
    if (loop.size > 1 && loop.stride % load_bytes != 0) {
      head = load_bytes - request.entries.bytes;
    }
  }
  return (run - head / request.entries.bytes) / columns;
}

/// A warp reads 512 bytes at once. A run may begin at any address, and its last row may be shorter.
RowLayout rows_of_warps(
    const Request& request, const Channels& channels, const ByteLoops& loops, int64_t gap) {
  const int64_t columns = kWarpBytes / request.entries.bytes;
  const int64_t run = request.problem.rows[2].size * channels.size - gap;
  return {
      Access::kVec16, columns, kWarpBytes, run,
      rows_of_stream(request, loops, run, columns, kVec16Bytes)};
}

int64_t word_bytes_of(int64_t size) {
  return std::max<int64_t>(4, size);
}

/// The rows of the input, or several of a run as one.
RowLayout plain_rows(
    const Request& request,
    const Channels& channels,
    const ByteLoops& loops,
    bool in_runs,
    int64_t table_columns) {
  const Extent& inner = request.problem.rows[2];
  const int64_t size = request.entries.bytes;
  const int64_t begin = address_of(request.problem) | loops.batch[1].stride | loops.outer.stride |
                        request.problem.rows[0].stride * size;
  const int64_t most_groups = std::min(
      {bytes_of(request) / kMinStreamBytesPerTable,
       request.limits.sm_count / request.problem.channels[0].size, kMaxGroupsInRuns});
  const int64_t joined =
      in_runs && inner.stride == channels.size
          ? joined_rows(channels.size * size, inner.size, begin, table_columns * size, most_groups)
          : 1;
  const int64_t columns = joined * channels.size;
  const int64_t stride = joined * inner.stride * size;
  const int64_t offsets = begin | stride | columns * size;
  const Access access = size == 1 && offsets % kVec16Bytes == 0 ? Access::kVec16
                        : offsets % word_bytes_of(size) == 0    ? Access::kWord
                                                                : Access::kLoose;
  return {access, columns, stride, 0, inner.size / joined};
}

/// Whether rows leave most of a warp idle.
bool are_narrow(const RowLayout& rows, bool in_runs, int64_t table_columns) {
  const int64_t columns = ceil_div(rows.columns, table_columns) * table_columns;
  const double enough = in_runs ? enough_fill_in_runs(rows.access) : 0.5;
  return static_cast<double>(rows.columns) < enough * static_cast<double>(columns);
}

/// Neighbouring blocks read the two halves of a line at about the same time.
bool suit_half_tables(const Request& request, const ByteLoops& loops, const RowLayout& rows) {
  const int64_t begin = address_of(request.problem) | loops.batch[1].stride | rows.stride;
  return rows.access == Access::kVec16 && loops.outer.size == 1 &&
         (rows.columns == kHalfColumns ||
          (begin | loops.outer.stride | request.problem.rows[0].stride) % kLineBytes == 0);
}

/// Rows without gaps as a stream, if it is long enough. All its runs must begin at the same
/// distance from an aligned address.
std::optional<RowLayout> stream_rows(
    const Request& request,
    const Channels& channels,
    const ByteLoops& loops,
    int64_t table_columns,
    int64_t bytes_of_table) {
  const int64_t size = request.entries.bytes;
  const int64_t word_bytes = word_bytes_of(size);
  const int64_t width = stream_width(channels.size, word_bytes / size, table_columns);
  const Access access = size == 1 && width % kVec16Bytes == 0 ? Access::kVec16 : Access::kWord;
  const int64_t load_bytes = access == Access::kVec16 ? kVec16Bytes : word_bytes;
  const int64_t gap = channels.size - channels.counted;
  const int64_t run = request.problem.rows[2].size * channels.size - gap;
  if ((loops.outer.size > 1 && loops.outer.stride % load_bytes != 0) ||
      run * loops.outer.size * size < ceil_div(width, table_columns) * bytes_of_table) {
    return std::nullopt;
  }
  return RowLayout{
      access, width, width * size, run, rows_of_stream(request, loops, run, width, load_bytes)};
}

/// Counts the rows of all runs as rows of one. Returns none if rows are too far apart for 32 bits,
/// or if loose words would begin before the tensor.
std::optional<RowRuns> in_one_run(
    const Request& request,
    const Channels& channels,
    const ByteLoops& loops,
    const RowLayout& rows) {
  const auto& [sets, outer, inner] = request.problem.rows;
  const int64_t of_set = outer.size * loops.outer.stride;
  const int64_t set_stride = sets.size > 1 ? sets.stride * request.entries.bytes : of_set;
  const int64_t run_jump = loops.outer.stride - rows.of_run * rows.stride;
  const int64_t set_jump = set_stride - of_set;
  const int64_t least_stride = rows.access == Access::kLoose ? kMostBeyondLoose : 0;
  if (std::min(run_jump, set_jump) < 0 || std::min(loops.outer.stride, set_stride) < least_stride ||
      std::max({rows.stride, run_jump, set_jump}) > kMaxDistance) {
    return std::nullopt;
  }
  const int64_t apart = channels.counted < channels.size ? kRowsApart : 0;
  const int64_t all_rows = rows.of_run * outer.size * sets.size - apart;
  return RowRuns{{1, 0}, all_rows, true, rows.of_run, outer.size, run_jump, set_jump};
}

Geometry geometry_of_warps(
    const Request& request,
    const Channels& channels,
    const ByteLoops& loops,
    const EntryShape& entry) {
  const RowLayout rows = rows_of_warps(request, channels, loops, channels.size - channels.counted);
  const bool in_turn = request.entries.bytes == 1 && channels.size == 3;
  return {channels,       in_turn,      false,
          loops,          rows,         {loops.outer, rows.of_run},
          entry.tables,   rows.columns, log2_of(entry.words),
          log2_of(kBanks)};
}

/// Rows that do not fill a warp, loose words, and rows with gaps are taken under some conditions.
bool are_countable(const RowLayout& rows, const Gaps& gaps, bool narrow) {
  const bool is_stream = rows.run > 0;
  const bool reaches_beyond =
      rows.access == Access::kLoose && rows.stride * kRowsAtEnd < kMostBeyondLoose;
  return (is_stream || !narrow) && !reaches_beyond &&
         (is_stream || gaps.in_runs || gaps.channels == 0);
}

std::optional<Geometry> geometry_of_rows(
    const Request& request,
    const Channels& channels,
    const ByteLoops& loops,
    const EntryShape& entry,
    const Gaps& gaps,
    bool may_halve) {
  const int64_t size = request.entries.bytes;
  const int64_t word = word_bytes_of(size) / size;
  const int64_t whole = size == 1 ? kByteColumns : entry.words * word;
  const RowLayout plain = plain_rows(request, channels, loops, gaps.in_runs, whole);
  const bool narrow = are_narrow(plain, gaps.in_runs, whole);
  const bool halved =
      may_halve && !gaps.in_runs && !narrow && suit_half_tables(request, loops, plain);
  const int64_t columns = halved ? kHalfColumns : whole;
  const bool may_stream =
      request.problem.rows[2].stride == channels.size && !gaps.in_runs &&
      (plain.access == Access::kLoose || channels.size % columns != 0 || gaps.channels > 0);
  const std::optional<RowLayout> stream =
      may_stream ? stream_rows(
                       request, channels, loops, columns,
                       narrow ? kMinShareBytes : kMinStreamBytesPerTable)
                 : std::nullopt;
  const RowLayout rows = stream.value_or(plain);
  const std::optional<RowRuns> runs =
      gaps.in_runs ? in_one_run(request, channels, loops, rows) : RowRuns{loops.outer, rows.of_run};
  if (!are_countable(rows, gaps, narrow) || !runs) {
    return std::nullopt;
  }
  const int64_t load_bytes = rows.access == Access::kVec16 ? kVec16Bytes : word_bytes_of(size);
  return Geometry{
      channels,
      false,
      halved,
      loops,
      rows,
      *runs,
      entry.tables,
      columns,
      log2_of(halved ? kHalfColumns / 2 : entry.words),
      log2_of(columns * size / load_bytes)};
}

} // namespace

std::optional<Geometry> geometry_of(const Request& request, const Gaps& gaps, bool may_halve) {
  const Problem& problem = request.problem;
  const Extent& inner = problem.rows[2];
  const Channels channels = channels_of(problem, gaps.channels);
  const bool side_by_side = channels.planar || problem.channels[1].stride == 1;
  if ((problem.rows[0].size != 1 && !gaps.in_runs) || !side_by_side ||
      (gaps.in_runs && (channels.planar || channels.few)) || !is_enough(request, channels)) {
    return std::nullopt;
  }
  const std::optional<EntryShape> entry = entry_shape_of(request, channels);
  if (!entry) {
    return std::nullopt;
  }
  const ByteLoops loops = loops_of(problem, channels.planar, request.entries.bytes);
  // With two channels or four, a byte's position in its word tells its channel, in all runs alike.
  const bool few_in_turn =
      request.entries.bytes == 1 && channels.few && inner.stride == channels.size &&
      (channels.size == 3 || loops.outer.size == 1 || loops.outer.stride % channels.size == 0);
  if (channels.planar || few_in_turn) {
    return geometry_of_warps(request, channels, loops, *entry);
  }
  return geometry_of_rows(request, channels, loops, *entry, gaps, may_halve);
}

} // namespace histo::cuda
