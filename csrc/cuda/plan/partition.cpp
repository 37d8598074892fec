#include "cuda/plan/partition.h"

namespace histo::cuda {
namespace {

Segments segments_of(const Request& request, const Geometry& geometry) {
  const RowLayout& rows = geometry.rows;
  const int64_t size = request.entries.bytes;
  const bool deals_bins = geometry.channels.size == 1 && size > 1;
  return {
      deals_bins ? geometry.tables : ceil_div(rows.columns, geometry.table_columns),
      geometry.loops.batch[0].size * geometry.loops.batch[1].size,
      geometry.runs.outer.size * geometry.runs.rows,
      std::min(rows.columns, geometry.table_columns) * size};
}

/// The number of blocks that are resident at the same time.
struct Resident {
  int threads;
  int64_t blocks;
};

/// One block an SM, or several smaller ones if few channels of bytes have short segments.
Resident resident_blocks(
    const Request& request, const Geometry& geometry, const Segments& segments) {
  const DeviceLimits& limits = request.limits;
  const int64_t tables_of_sm = limits.shared_per_sm / (kByteTableBytes + kReservedBytes);
  const bool short_segments =
      segments.rows * segments.row_bytes < short_segment_bytes(geometry.in_turn);
  if (request.entries.bytes > 1 || !geometry.channels.few || tables_of_sm <= 1 || !short_segments) {
    return {kColumnThreads, limits.sm_count};
  }
  const int threads = threads_of_short_segments(geometry.in_turn);
  return {threads, limits.sm_count * std::min<int64_t>(kColumnThreads / threads, tables_of_sm)};
}

bool fits(const Request& request, const Geometry& geometry, const Segments& segments) {
  // With half tables, twice as many blocks would start and end.
  const bool in_turns = segments.count() > request.limits.sm_count;
  return segments.rows * segments.row_bytes >= kMinShareBytes &&
         segments.count() * segments.rows < kMaxRows &&
         !(geometry.halved && in_turns && geometry.channels.size > kHalfColumns);
}

int64_t fewest_rows_of_block(const Geometry& geometry, const Segments& segments) {
  const int64_t least = ceil_div(kMinShareBytes, segments.row_bytes);
  return std::min(segments.rows, geometry.channels.few ? least : std::max(kMinShareRows, least));
}

/// Whether it is faster if a block counts whole segments and no table is reduced.
bool counts_whole_segments(
    const Request& request, const Geometry& geometry, const Segments& segments, int64_t at_once) {
  if (geometry.channels.few) {
    return false;
  }
  const int64_t count = segments.count();
  if (count <= request.limits.sm_count) {
    return segments.rows <= rows_of_one_block_per_segment(geometry.table_columns) * count;
  }
  const bool has_copies = 2 * geometry.channels.size <= geometry.table_columns;
  const bool fills_turns = static_cast<double>(count) >=
                           kEnoughBlocks * static_cast<double>(ceil_div(count, at_once) * at_once);
  return segments.rows <= kRowsOfWholeSegments || (!has_copies && fills_turns);
}

/// Groups of few channels read neighbouring columns of the same rows, at the same time. With more
/// channels, a block that works on two segments takes longer than the others. So no block does, if
/// that leaves few SMs idle. With 64 channels no block ever does, for all would add to the counts.
int64_t parts_of(
    const Request& request,
    const Geometry& geometry,
    const Segments& segments,
    int64_t at_once,
    int64_t fewest) {
  if (geometry.channels.few) {
    return segments.groups <= at_once ? segments.groups : 1;
  }
  const int64_t count = segments.count();
  const int64_t share = std::max(ceil_div(count * segments.rows, at_once), fewest);
  const int64_t blocks_of_segment =
      std::min(ceil_div(segments.rows, share), request.limits.sm_count / count);
  const bool few_idle = blocks_of_segment * count >= kEnoughBlocks * request.limits.sm_count;
  const bool apart = geometry.halved && geometry.channels.size == kHalfColumns;
  const bool whole_segments = counts_whole_segments(request, geometry, segments, at_once);
  return whole_segments || few_idle || share == fewest || apart ? count : 1;
}

/// Whether the distances of the rows of a block fit 32 bits, as loops need it.
bool reaches_all_rows(const Geometry& geometry, int64_t share) {
  const RowRuns& in = geometry.runs;
  if (!in.in_one) {
    return true;
  }
  const int64_t runs = share / in.rows_of_run + 2;
  const int64_t sets = runs / in.runs_of_set + 2;
  return (share + 1) * geometry.rows.stride + runs * in.run_jump + sets * in.set_jump <=
         kMaxDistance;
}

} // namespace

std::optional<Partition> partition_of(const Request& request, const Geometry& geometry) {
  const Segments segments = segments_of(request, geometry);
  if (!fits(request, geometry, segments)) {
    return std::nullopt;
  }
  const Resident resident = resident_blocks(request, geometry, segments);
  const int64_t fewest = fewest_rows_of_block(geometry, segments);
  const int64_t parts = parts_of(request, geometry, segments, resident.blocks, fewest);
  const int64_t part_rows = segments.count() * segments.rows / parts;
  const int64_t most_blocks = std::max<int64_t>(resident.blocks / parts, 1);
  const int64_t blocks = counts_whole_segments(request, geometry, segments, resident.blocks)
                             ? 1
                             : std::clamp<int64_t>(ceil_div(part_rows, fewest), 1, most_blocks);
  const int64_t share = ceil_div(part_rows, blocks);
  if (!reaches_all_rows(geometry, share)) {
    return std::nullopt;
  }
  return Partition{segments, resident.threads, parts, part_rows, ceil_div(part_rows, share), share};
}

} // namespace histo::cuda
