#include "cuda/plan/facts.h"
#include "cuda/plan/planners.h"

namespace histo::cuda {
namespace {

/// Whether neighbouring threads take neighbouring rows, and not neighbouring channels.
bool goes_along_rows(const Problem& problem) {
  return problem.num_channels() == 1 || problem.rows[2].stride < problem.channels[1].stride;
}

/// The channels of a block. There may be fewer, or a table may have room for fewer.
int64_t wanted_channels(const Request& request, bool along_rows) {
  const auto& [problem, entries, limits] = request;
  if (along_rows) {
    // A block takes several channels only if each has few rows. Each gets a warp or more.
    constexpr int64_t kWarps = kGenericThreads / 32;
    return std::min(kGenericThreads * kGenericUnroll / problem.num_rows(), kWarps);
  }
  // As few channels as keep every SM busy, though a sector that is read for part of its bytes costs
  // traffic with L2.
  const int64_t elements = problem.num_channels() * problem.num_rows();
  const int64_t least =
      std::clamp<int64_t>(elements / kElementsPerSector, 1, kSectorBytes / entries.bytes);
  const int64_t most = std::max(kTileRowElements, kTileRowBytes / entries.bytes);
  return std::clamp(problem.num_channels() / limits.sm_count, least, most);
}

/// The tables of a tile. `stride`: counters of a channel's table, or 0 if there is no table.
struct TileTables {
  int64_t stride;
  int64_t most_bytes; // of several channels
};

int channels_of_tile(const Request& request, bool along_rows, const TileTables& tables) {
  const int64_t wanted = wanted_channels(request, along_rows);
  const int64_t fit =
      tables.stride == 0
          ? wanted
          : std::max<int64_t>(tables.most_bytes / (tables.stride * kCounterBytes), 1);
  const int64_t most = std::min(wanted, fit);
  int channels = 1;
  while (channels * 2 <= most && channels < request.problem.num_channels()) {
    channels *= 2;
  }
  return channels;
}

/// Whether threads read 16 aligned bytes each of one channel's rows.
bool reads_vec16s(const Request& request, bool along_rows, int64_t tile_channels) {
  const auto& [problem, entries, limits] = request;
  const int64_t strides = (problem.channels[0].stride | problem.channels[1].stride) * entries.bytes;
  return along_rows && tile_channels == 1 && problem.num_rows() == problem.rows[2].size &&
         problem.rows[2].stride == 1 && (address_of(problem) | strides) % kVec16Bytes == 0;
}

struct RowChunks {
  int64_t rows; // of each, at most
  int64_t count;
  bool clustered;
};

RowChunks chunks_of(
    const Request& request, int64_t tile_channels, int64_t tiles, bool has_table, bool vec16s) {
  const DeviceLimits& limits = request.limits;
  const int64_t rows = request.problem.num_rows();
  const int64_t rounds = ceil_div(rows, kGenericThreads / tile_channels * kGenericUnroll);
  const int64_t fill = kGenericBlocksPerSm * limits.sm_count / tiles;
  const int64_t wanted = std::max<int64_t>(std::min(fill, rounds), 1);
  const bool small =
      limits.has_clusters() && has_table && wanted > 1 && rounds <= kMaxCluster * kMaxClusterRounds;
  const int64_t most = small ? std::min(wanted, kMaxCluster) : wanted;
  // A block's counters are 32 bits wide.
  const int64_t of_chunk = std::min(ceil_div(rows, most), int64_t{1} << 31);
  const int64_t whole = vec16s ? ceil_div(of_chunk, kVec16Bytes) * kVec16Bytes : of_chunk;
  const int64_t count = ceil_div(rows, whole);
  return {whole, count, small && count > 1};
}

CountPlan plan_tiles(const Request& request, const TileTables& tables) {
  const auto& [problem, entries, limits] = request;
  Generic in{};
  in.along_rows = goes_along_rows(problem);
  in.tile_channels = channels_of_tile(request, in.along_rows, tables);
  const int64_t table_bytes = in.tile_channels * tables.stride * kCounterBytes;
  const bool has_table = tables.stride > 0 && table_bytes <= limits.shared_per_block;
  std::copy_n(problem.channels, 2, in.channels);
  std::copy_n(problem.rows + 1, 2, in.rows);
  in.num_channels = problem.num_channels();
  in.num_rows = problem.num_rows();
  in.tiles = ceil_div(in.num_channels, in.tile_channels);
  in.table_stride = has_table ? static_cast<int>(tables.stride) : 0;
  in.vec16s = reads_vec16s(request, in.along_rows, in.tile_channels);
  const RowChunks chunks = chunks_of(request, in.tile_channels, in.tiles, has_table, in.vec16s);
  in.chunks = chunks.count;
  in.rows_per_chunk = chunks.rows;
  in.clustered = chunks.clustered;
  const bool meet = !has_table || (in.chunks > 1 && !in.clustered); // blocks, in a count
  in.adds = meet || problem.adds;
  in.sets = problem.rows[0].size > 1;
  in.set_stride = problem.rows[0].stride;

  CountPlan plan{};
  plan.layout = in;
  plan.blocks = in.tiles * in.chunks;
  plan.threads = kGenericThreads;
  plan.cluster = in.cluster();
  plan.shared_bytes = has_table ? table_bytes : 2 * int64_t{kHotBins} * kCounterBytes;
  plan.clears = meet && !problem.adds;
  return plan;
}

/// One counter more for values without a bin. The number is odd, so that channels start in different
/// banks.
int64_t stride_of_tables(const Request& request) {
  return (request.problem.num_bins + 1) | 1;
}

} // namespace

CountPlan plan_generic(const Request& request) {
  return plan_tiles(request, {stride_of_tables(request), kPreferredTableBytes});
}

CountPlan plan_generic_in_large_tables(const Request& request) {
  return plan_tiles(request, {stride_of_tables(request), request.limits.shared_per_block});
}

CountPlan plan_generic_in_result(const Request& request) {
  return plan_tiles(request, {0, 0});
}

LayoutFacts facts_of(const Generic& in, const Problem& problem) {
  const bool has_table = in.has_table();
  const Facts layout{
      {"method", has_table ? "generic" : "atomics"},
      {"access", in.vec16s ? name_of(Access::kVec16) : "elements"},
      {"load_bytes", in.vec16s ? kVec16Bytes : bytes_of_type(problem.type)},
      {"tile_channels", in.tile_channels},
      {"tiles", in.tiles},
      {"chunks", in.chunks},
      {"rows_per_block", in.rows_per_chunk}};
  return {"count_generic", layout, {{"counter_bits", has_table ? 32 : 64}}};
}

} // namespace histo::cuda
