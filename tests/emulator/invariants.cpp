#include "emulator/invariants.h"

#include <algorithm>

namespace histo {
namespace {

using namespace cuda;

struct Path {
  std::string text;

  void add(bool holds, const std::string& word) {
    if (holds) {
      text += (text.empty() ? "" : " ") + word;
    }
  }
  void access(Access how) {
    add(how == Access::kVec16, "16-bytes");
    add(how == Access::kWord, "words");
    add(how == Access::kLoose, "loose-words");
  }
  void operator()(const Interleaved& in) {
    text = "interleaved";
    access(in.access);
    add(in.is_stream(), "stream");
    add(in.outer.size > 1, "several-runs");
    add(in.parts < in.segments() && in.segments() > 1, "several-segments-a-block");
    add(in.in_runs, "in-runs");
    add(in.log_entry_words < 5, "mixed-banks");
    add(in.counted < in.channels, "gaps");
    add(in.sums_columns, "sums-columns");
    add(in.channels == 1 && in.groups > 1, "dealt");
    add(in.packed16 && in.adds && !in.few_channels, "spills-or-adds");
  }
  void operator()(const WholeRows& in) {
    text = "rows";
    access(Access::kVec16);
    add(in.group_columns == kHalfColumns, "halves");
  }
  void operator()(const Planar& in) {
    text = "planar";
    access(Access::kVec16);
    add(in.outer.size > 1, "several-runs");
    add(in.segments() > 1, "several-segments-a-block");
    add(in.counted < in.channels, "gaps");
  }
  void operator()(const Clustered& in) {
    text = "clustered";
    access(in.access);
  }
  void operator()(const Runs& in) {
    text = "runs";
    add(in.run_bytes_between > 0, "joins");
    add(in.tables == 0, "columns-of-one-table");
    add(in.log_segments > 0, "shared-blocks");
  }
  void operator()(const Generic& in) {
    text = "generic";
    add(in.table_stride == 0, "atomics");
    add(in.clustered, "clustered");
    add(in.vec16s, "16-bytes");
    add(in.along_rows, "along-rows");
    add(in.chunks > 1, "chunks");
    add(in.sets, "sets");
  }
  void operator()(const Partitioned&) {
    text = "partitioned";
  }
};

/// In place of a fixed number of bits.
using Wide = __int128;

constexpr int64_t kMaxOf32Bits = 0xffffffff;
constexpr int64_t kSignedBit = int64_t{1} << 31;
constexpr int64_t kMaxOf16Bits = 0xffff;

int64_t size_of(ElementType type) {
  return visit_element_type(
      type, [](auto tag) { return int64_t{sizeof(typename decltype(tag)::type)}; });
}

/// Values of the type that can have a bin.
int64_t values_of(ElementType type, int64_t num_bins) {
  const int64_t size = size_of(type);
  const bool has_sign = type == ElementType::kInt8 || type == ElementType::kInt16;
  return size > 2 ? num_bins : std::min(num_bins, int64_t{1} << (8 * size - has_sign));
}

struct Checks {
  const Problem& problem;
  const CountPlan& plan;
  const DeviceLimits& limits;
  std::string wrong;

  void need(bool holds, const char* what) {
    if (!holds) {
      wrong += (wrong.empty() ? "" : ", ") + std::string(what);
    }
  }
  int64_t size() const {
    return size_of(problem.type);
  }
  int64_t elements() const {
    return problem.num_channels() * problem.num_rows();
  }
  int64_t address() const {
    return static_cast<int64_t>(reinterpret_cast<uintptr_t>(problem.data));
  }
  /// Behind the last element, in bytes from the first.
  int64_t end() const {
    int64_t last = 0;
    for (const Extent& loop : problem.channels) {
      last += (loop.size - 1) * loop.stride;
    }
    for (const Extent& loop : problem.rows) {
      last += (loop.size - 1) * loop.stride;
    }
    return (last + 1) * size();
  }
  static int64_t step_of(const Extent& loop) {
    return loop.size > 1 ? loop.stride : 0;
  }

  void launches() {
    need(plan.blocks > 0 && plan.blocks < kSignedBit, "a grid has 1 to 2^31 - 1 blocks");
    need(
        plan.threads > 0 && plan.threads <= 1024 && plan.threads % 32 == 0,
        "a block has whole warps, 1,024 threads at most");
    need(plan.shared_bytes > 0 && plan.shared_bytes <= limits.shared_per_block, "shared memory");
    need(
        plan.cluster >= 1 && plan.cluster <= (limits.has_clusters() ? 8 : 1) &&
            plan.blocks % plan.cluster == 0,
        "clusters");
    need(plan.reduce_blocks == 0 || plan.workspace_bytes > 0, "a reduction has tables to reduce");
    need(plan.reduce_blocks >= 0 && plan.reduce_blocks < kSignedBit, "a grid of the reduction");
  }

  void divides(const Divider& by, int64_t most) {
    need(most < kSignedBit, "divides what is below 2^31");
    for (int64_t n : {int64_t{0}, int64_t{1}, most / 3, most / 2, most}) {
      for (int64_t near : {n, n / by.divisor * by.divisor, n / by.divisor * by.divisor - 1}) {
        if (near >= 0) {
          const auto number = static_cast<uint32_t>(near);
          need(by.quotient(number) == number / by.divisor, "a quotient");
        }
      }
    }
  }

  /// The elements of a batch, with those between rows.
  int64_t rows_of_batch(const ColumnLayout& in) const {
    return problem.num_rows() * in.channels;
  }

  void columns(const ColumnLayout& in, int64_t table_columns) {
    need(
        in.batch[0].size * in.batch[1].size == in.batches &&
            int64_t{in.batches} * in.counted == problem.num_channels(),
        "all channels");
    need(in.num_bins == problem.num_bins && in.type == problem.type, "bins and type");
    need(in.data == problem.data, "where the data begin");
    need(in.data_end - in.data <= end(), "where the data end");
    // The columns of a row, or the bins, are dealt to tables.
    const bool dealt = in.channels == 1 && in.groups > 1;
    need(
        in.channels == 1 || ((in.groups - 1) * table_columns < in.columns &&
                             in.groups * table_columns >= in.columns),
        "all columns");
    const int64_t values = values_of(in.type, in.num_bins);
    need(
        in.type == ElementType::kBool
            ? in.table_entries == (in.num_bins > 1 ? 256 : 1)
            : (dealt ? in.groups : 1) * int64_t{in.table_entries} >= values,
        "all bins");
    need(in.cleared == plan.clears && (plan.clears || !in.adds), "who adds adds to zeros");
    need(plan.clears || in.num_bins <= in.table_entries, "bins without a row are zeroed");
  }

  /// Every element of a batch is in a row, or read apart.
  template <class Layout>
  void stream(const Layout& in, Access access) {
    const int64_t load = bytes_of_load(access, size());
    const int64_t gap = in.channels - in.counted;
    need((in.run + gap) * in.outer.size == rows_of_batch(in), "all elements are in runs");
    const int64_t beyond = address() % load;
    const int64_t begin = step_of(in.batch[0]) | step_of(in.batch[1]) | step_of(in.outer);
    const bool alike = begin % load == 0;
    const int64_t least_head = alike && beyond > 0 ? (load - beyond) / size() : 0;
    const int64_t most_head = alike ? least_head : load / size() - 1;
    need(most_head + int64_t{in.rows} * in.columns <= in.run, "whole rows are in their run");
    need(
        in.run <= least_head + (int64_t{in.rows} + kRaggedRows - 1) * in.columns,
        "what makes no row is read apart");
    need(in.row_stride == in.columns * size(), "rows of a stream follow each other");
    need(in.row_stride % load == 0, "loads are aligned");
  }

  void plain_rows(const ColumnLayout& in, int64_t rows, int64_t offsets, Access access) {
    const int64_t load = bytes_of_load(access, size());
    const int64_t begin = step_of(in.batch[0]) | step_of(in.batch[1]) | address() | in.row_stride;
    need(rows * in.columns == rows_of_batch(in), "all elements are in rows");
    need(access == Access::kLoose || (begin | offsets) % load == 0, "loads are aligned");
  }

  void whole_loads(const ColumnLayout& in, Access access) {
    const int64_t load = bytes_of_load(access, size());
    need(in.columns % in.channels == 0, "whole rows");
    need(access == Access::kLoose || in.columns * size() % load == 0, "a row is whole loads");
  }

  /// Every row is in one share.
  void shares(int64_t rows, int64_t blocks, int64_t share) {
    need(blocks * share >= rows && (blocks - 1) * share < rows, "all rows are in shares");
  }

  void reduces(const ColumnLayout& in, bool splits_segments, Wide most_of_counter) {
    need(splits_segments == (plan.reduce_blocks > 0), "what blocks share is reduced");
    if (splits_segments) {
      need(plan.workspace_bytes == plan.blocks * in.table_words() * int64_t{4}, "a table a block");
      need(
          plan.reduce_blocks == in.segments() * ceil_div(in.table_words(), plan.reduce_words),
          "all words are reduced");
      need(most_of_counter <= kMaxOf32Bits, "sums of 32 bits");
    } else {
      need(plan.workspace_bytes == 0, "no workspace");
    }
  }

  void operator()(const Interleaved& in) {
    const int64_t segments = in.segments();
    columns(in, in.group_columns);
    if (in.is_stream()) {
      need(!in.in_runs, "a stream is one run");
      stream(in, in.access);
    } else {
      const int64_t apart = in.in_runs && in.counted < in.channels ? kRowsApart : 0;
      plain_rows(
          in, in.segment_rows + apart, step_of(in.outer) | in.run_jump | in.set_jump, in.access);
    }
    whole_loads(in, in.access);
    need(in.segment_rows > 0 && (in.in_runs || in.segment_rows == in.rows * in.outer.size), "rows");
    const int64_t total = segments * in.segment_rows;
    need(int64_t{in.parts} * in.part_rows == total && total < kSignedBit, "parts");
    need(in.parts == 1 || in.parts == segments || segments % in.parts == 0, "parts of segments");
    need(plan.blocks == int64_t{in.parts} * in.blocks_of_part, "blocks");
    need(plan.threads == kColumnThreads, "threads");
    shares(in.part_rows, in.blocks_of_part, in.share);
    const bool splits_segments =
        in.parts == segments ? in.share < in.part_rows : in.share % in.segment_rows != 0;
    const int64_t copies = in.sums_columns ? in.columns / in.channels : 1;
    const Wide most = in.packed16 ? Wide{plan.blocks} * kMaxOf16Bits : Wide{in.segment_rows};
    reduces(in, splits_segments && !in.few_channels, most * copies);
    counters(in);
    table(in);
    if (in.access == Access::kVec16) {
      const int64_t rows = plan.threads >> in.log_lanes;
      need(
          in.load_step == rows * in.row_stride &&
              in.round_step == kBytesInFlight / kVec16Bytes * in.load_step,
          "steps");
    }
    if (in.in_runs) {
      runs_in(in);
    }
  }

  /// They hold all that is counted.
  void counters(const Interleaved& in) {
    const int64_t ragged = in.in_runs       ? kRowsApart
                           : in.is_stream() ? kRaggedRows * in.outer.size
                                            : 0;
    const int64_t most_rows = std::min(in.share, in.segment_rows);
    need(
        !in.packed16 || in.adds || most_rows + ragged <= kMaxOf16Bits,
        "counters of 16 bits, or what they hold is added");
    need(
        in.packed16 || Wide{in.share} * std::max<int64_t>(in.columns / 32, 1) <= kMaxOf32Bits,
        "counters of 32 bits");
    need(
        in.adds || in.columns == in.channels ||
            (in.sums_columns && in.groups == 1 && plan.reduce_blocks > 0),
        "one writer, or all add");
    need(!in.few_channels || in.adds, "blocks that add");
  }

  void table(const Interleaved& in) {
    if (size() == 1) {
      need(plan.shared_bytes >= kByteTableBytes, "a table in shared memory");
      return;
    }
    const int64_t entry_words = int64_t{1} << in.log_entry_words;
    const bool packs_bins = in.packed16 && entry_words < kBanks;
    need(
        plan.shared_bytes >= 4 * (in.table_words() + (packs_bins ? 2 : 1) * entry_words),
        "a table in shared memory");
    need(
        in.log_entry_words >= 5 || in.table_entries % (kBanks >> in.log_entry_words) == 0,
        "rows that share banks");
    need(
        (int64_t{1} << in.log_lanes) * bytes_of_load(in.access, size()) >=
            std::min<int64_t>(32 * 16, entry_words * std::max<int64_t>(4, size())),
        "lanes of a row");
  }

  void operator()(const WholeRows& in) {
    const int64_t blocks = in.blocks_of_part;
    const int64_t chunk = rows_of_chunk(in.group_columns);
    columns(in, in.group_columns);
    plain_rows(in, in.rows, 0, Access::kVec16);
    whole_loads(in, Access::kVec16);
    need(size() == 1 && !in.adds && in.columns == in.channels, "plain rows of bytes");
    need(Wide{in.segments()} * in.rows < kSignedBit, "rows in 31 bits");
    need(plan.blocks == in.segments() * blocks, "blocks");
    need(plan.threads == kColumnThreads, "threads");
    need(
        blocks * in.chunks + in.blocks_with_more == in.rows / chunk && in.blocks_with_more < blocks,
        "all chunks");
    const int64_t most_rows =
        in.chunks * chunk + (in.blocks_with_more > 0 ? chunk : in.rows % chunk);
    need(most_rows == in.rows_of_block() && most_rows <= kMaxOf16Bits, "counters of 16 bits");
    need(
        in.load_step == kWarpBytes / in.group_columns * in.row_stride &&
            in.round_step == chunk * (kColumnThreads / 32) * in.row_stride,
        "steps");
    reduces(in, blocks > 1, Wide{plan.blocks} * kMaxOf16Bits);
    const bool halves = in.group_columns == kHalfColumns;
    need(plan.shared_bytes >= (halves ? kHalfTableBytes : kByteTableBytes), "a table");
  }

  void operator()(const Planar& in) {
    columns(in, in.group_columns);
    stream(in, Access::kVec16);
    need(size() == 1 && in.groups == 1 && in.channels <= 4, "few channels of bytes");
    need(in.row_stride == kWarpBytes && in.row_stride % kVec16Bytes == 0, "rows of a warp");
    need(in.segment_rows > 0 && in.segment_rows == in.rows * in.outer.size, "rows");
    const int64_t total = int64_t{in.batches} * in.segment_rows;
    need(in.part_rows == total && total < kSignedBit, "one part");
    shares(in.part_rows, plan.blocks, in.share);
    need(in.adds, "all add");
    need(in.in_turn == (in.channels == 3), "channels in turn");
    need(
        plan.threads == kColumnThreads || plan.threads == threads_of_short_segments(in.in_turn),
        "threads");
    need(plan.shared_bytes >= kByteTableBytes, "a table");
    reduces(in, false, 0);
  }

  void operator()(const Clustered& in) {
    const int64_t blocks_of_segment = plan.blocks / in.segments();
    columns(in, kHalfColumns);
    plain_rows(in, in.rows, 0, in.access);
    need(in.columns == in.channels && size() == 1, "plain rows of bytes");
    need(
        blocks_of_segment * in.segments() == plan.blocks && blocks_of_segment % plan.cluster == 0,
        "blocks");
    need(in.rows > 0 && blocks_of_segment * in.share >= in.rows, "all rows are in shares");
    need(in.adds || blocks_of_segment == plan.cluster, "one cluster writes, or all add");
    need(std::min(in.share, in.rows) + 2 <= kMaxOf16Bits, "counters of 16 bits");
    need(in.row_stride < kSignedBit, "rows in 32 bits");
    need(plan.shared_bytes >= kHalfTableBytes, "half a table");
    reduces(in, false, 0);
  }

  void runs_in(const Interleaved& in) {
    divides(in.by_rows_of_run, in.segment_rows);
    divides(in.by_runs_of_set, in.segment_rows / in.by_rows_of_run.divisor);
    const auto byte_offset = [&](int64_t row) {
      const int64_t run = row / in.by_rows_of_run.divisor;
      return Wide{row} * in.row_stride + Wide{run} * in.run_jump +
             Wide{run / in.by_runs_of_set.divisor} * in.set_jump;
    };
    for (int64_t block = 0; block < std::min<int64_t>(in.blocks_of_part, 300); ++block) {
      const int64_t first = block * in.share % in.segment_rows;
      need(
          byte_offset(first + in.share) - byte_offset(first) <= kMaxOf32Bits, "a share in 32 bits");
    }
    const int64_t apart = in.counted < in.channels ? kRowsApart : 0;
    need(
        byte_offset(in.segment_rows + apart - 1) + in.columns * size() <=
            in.data_end - in.data + (in.channels - in.counted) * size(),
        "rows are in the tensor");
  }

  void operator()(const Runs& in) {
    const int64_t segments = in.segments;
    const int64_t vec16s_of_run = in.by_vec16s_of_run.divisor;
    const int64_t runs = in.vec16s / vec16s_of_run;
    const bool joins = in.run_bytes_between > 0;
    need(segments * in.channels == problem.num_channels(), "all channels");
    need(runs * vec16s_of_run == in.vec16s, "vec16s of whole runs");
    const int64_t rows = joins ? (in.run_bytes - in.run_bytes_between) / size()
                               : (in.run_bytes / size() - in.channels) / in.period + 1;
    need(segments * runs * rows * in.channels == elements(), "all elements");
    const int64_t strides = step_of(in.batch[0]) | step_of(in.batch[1]) |
                            static_cast<int64_t>(in.set_step) | in.outer_step | in.step;
    const int64_t skew =
        strides % kVec16Bytes == 0 ? address() % kVec16Bytes : kVec16Bytes - size();
    need(vec16s_of_run * kVec16Bytes >= skew + in.run_bytes, "a run's vec16s");
    need(
        int64_t{in.chunks} * in.share >= in.vec16s &&
            (int64_t{in.chunks} - 1) * in.share < in.vec16s,
        "all vec16s are in shares");
    need(in.log_segments == 0 || in.chunks == 1, "small segments have one block");
    need(plan.blocks == ceil_div(segments, int64_t{1} << in.log_segments) * in.chunks, "blocks");
    need(int64_t{in.share} * kVec16Bytes / size() <= kMaxOf32Bits, "counters of 32 bits");
    const auto first = static_cast<int64_t>(in.first_vec16);
    need(
        first >= address() && first % kVec16Bytes == 0 && in.last_vec16 % kVec16Bytes == 0 &&
            first + static_cast<int64_t>(in.last_vec16) + kVec16Bytes <= address() + end(),
        "vec16s in the tensor");
    need(in.data == problem.data, "where the data begin");
    const int64_t turn = in.by_period.divisor;
    need(
        in.before_run % turn == 0 && in.before_run >= kVec16Bytes / size() &&
            (joins || turn == in.period),
        "elements before a run");
    if (joins) {
      const int64_t row = problem.rows[2].size * size();
      need(turn * size() + kVec16Bytes <= 64, "a vec16's bits");
      for (int64_t byte = 0; byte < 64; ++byte) {
        need((in.between >> byte & 1) == (byte % (turn * size()) >= row), "bytes between rows");
      }
    }
    divides(in.by_vec16s_of_run, in.vec16s);
    divides(in.by_loop[0], runs);
    divides(in.by_loop[1], runs);
    divides(in.by_period, int64_t{in.before_run} + in.run_bytes);
    divides(in.by_entries, int64_t{in.table_entries} * in.channels << in.log_segments);
    divides(in.by_channels, in.channels << in.log_segments);
    need(
        in.by_entries.divisor == in.table_entries && in.by_channels.divisor == in.channels,
        "divisors");
    const int64_t all_rows = int64_t{in.table_entries} + 1;
    need(
        in.tables == 0
            ? in.entry_words >= in.columns && in.segment_words >= all_rows * in.entry_words
            : in.entry_words == 1u << in.log_copies &&
                  in.column_words == all_rows << in.log_copies &&
                  in.segment_words >= int64_t{in.tables} * in.column_words,
        "words of a segment");
    need(
        in.tables == 0 ? in.columns == in.period + kVec16Bytes / size() - 1
                       : in.columns == in.tables && in.tables % in.period == 0,
        "columns");
    need(4 * (int64_t{in.segment_words} << in.log_segments) <= plan.shared_bytes, "tables fit");
    need(plan.shared_bytes % kVec16Bytes == 0, "tables are cleared by 16 bytes");
    need(size() == 1 || in.table_entries >= values_of(problem.type, in.num_bins), "all bins");
    need(in.adds || in.chunks == 1, "one block writes, or all add");
    need(in.cleared == plan.clears && (plan.clears || !in.adds), "who adds adds to zeros");
    need(plan.clears || in.num_bins <= in.table_entries, "bins without a row are zeroed");
    need(plan.threads == kRunThreads || (size() > 1 && plan.threads == 2 * kRunThreads), "threads");
    need(plan.threads >> in.log_segments >= 1, "threads of a segment");
  }

  void operator()(const Generic& in) {
    const int64_t channels = in.tile_channels;
    need(channels > 0 && (channels & (channels - 1)) == 0 && channels <= plan.threads, "a tile");
    need(
        in.num_channels == problem.num_channels() && in.tiles * channels >= in.num_channels &&
            (in.tiles - 1) * channels < in.num_channels,
        "all channels");
    need(
        in.num_rows == problem.num_rows() && in.chunks * in.rows_per_chunk >= in.num_rows &&
            (in.chunks - 1) * in.rows_per_chunk < in.num_rows,
        "all rows");
    for (int i = 0; i < 2; ++i) {
      need(
          in.channels[i].size == problem.channels[i].size &&
              in.channels[i].stride == problem.channels[i].stride &&
              in.rows[i].size == problem.rows[i + 1].size &&
              in.rows[i].stride == problem.rows[i + 1].stride,
          "loops");
    }
    need(
        in.sets ? in.set_stride == problem.rows[0].stride
                : in.rows[0].size * in.rows[1].size == in.num_rows,
        "sets");
    need(plan.blocks == in.tiles * in.chunks, "blocks");
    need(in.rows_per_chunk <= kMaxOf32Bits, "counters of 32 bits");
    if (in.table_stride > 0) {
      need(in.table_stride > problem.num_bins, "a counter for what has no bin");
      need(channels * in.table_stride * 4 <= plan.shared_bytes, "a table in shared memory");
      need(plan.clears == (in.chunks > 1 && !in.clustered), "several blocks add to zeros");
    } else {
      need(plan.clears && !in.clustered && channels * 4 <= plan.shared_bytes, "additions to zeros");
      need(2 * int64_t{kHotBins} * 4 <= plan.shared_bytes, "a block's own counters");
      need(4 * (problem.num_bins + 2) > limits.shared_per_block, "more bins than a table has");
    }
    need(plan.cluster == (in.clustered ? in.chunks : 1), "a cluster has a tile");
    if (in.vec16s) {
      const int64_t strides = step_of(in.channels[0]) | step_of(in.channels[1]);
      need(
          (address() | strides * size() | in.rows_per_chunk * size()) % kVec16Bytes == 0 &&
              in.rows[1].stride == 1 && in.rows[1].size == in.num_rows && channels == 1,
          "loads are aligned");
    }
    need(plan.workspace_bytes == 0 && plan.reduce_blocks == 0, "no workspace");
  }

  void operator()(const Partitioned& in) {
    const int64_t owners = int64_t{1} << in.log_owners;
    const int64_t owned = int64_t{1} << in.log_owned;
    const int64_t of_vec16 = kVec16Bytes / size();
    const auto begin = static_cast<int64_t>(reinterpret_cast<uintptr_t>(in.data));
    need(in.element_bytes == size() && in.num_bins == problem.num_bins, "bins and type");
    need(owners * owned >= in.num_bins && in.log_owned <= 15, "all bins");
    need(plan.blocks == limits.sm_count && owners <= plan.blocks, "a block an SM");
    need(begin == address() + in.head * size() && begin % kVec16Bytes == 0, "loads are aligned");
    need(in.vec16s * of_vec16 + in.ragged == elements(), "all elements");
    need(in.ragged < 2 * of_vec16 && in.head <= in.ragged, "few elements are read apart");
    need(int64_t{in.rounds} * in.vec16s_of_tile * plan.blocks >= in.vec16s, "all vec16s");
    need(in.vec16s_of_tile % plan.threads == 0, "vec16s of a thread");
    const int64_t values = values_of(problem.type, in.num_bins);
    need(
        in.limit >= std::min(values, kMaxOf32Bits) && in.limit <= in.num_bins &&
            (in.limit <= values || problem.type == ElementType::kUInt16),
        "values with a bin");
    need(
        in.mixer == kGoldenRatio << (32 - in.log_owners - in.log_owned) &&
            kGoldenRatio * in.unmixer == 1,
        "bins find their way back");
    need(
        owners * (kBucketBytes + kVec16Bytes + 4) + 4 * 32 + 4 * owned + 8 * int64_t{kHotBins} <=
            plan.shared_bytes,
        "buckets and tables fit");
    need(
        plan.workspace_bytes >= kBarrierBytes + 2 * owners * plan.blocks * kBucketBytes,
        "two sets of buckets");
    need(
        Wide{in.rounds} * plan.blocks * (kBucketBytes / 2) * of_vec16 <= kMaxOf32Bits &&
            Wide{in.rounds} * in.vec16s_of_tile * of_vec16 <= kMaxOf32Bits,
        "counters of 32 bits");
    need(plan.clears && plan.reduce_blocks == 0, "the barrier is zeroed");
  }
};

} // namespace

std::string path_of(const CountPlan& plan) {
  Path path;
  std::visit(path, plan.layout);
  path.add(plan.reduce_blocks > 0, "reduces");
  path.add(plan.reduce_blocks > 0 && plan.reduce_words == kFewReduceWords, "few-words");
  path.add(plan.reduce_blocks > 0 && plan.reduce_words == kManyReduceWords, "many-words");
  path.add(plan.cluster > 1, std::to_string(plan.cluster) + "-blocks");
  path.add(plan.clears, "clears");
  return path.text;
}

std::string violations(const Problem& problem, const CountPlan& plan, const DeviceLimits& limits) {
  Checks check{problem, plan, limits, {}};
  check.launches();
  std::visit(check, plan.layout);
  return check.wrong;
}

} // namespace histo
