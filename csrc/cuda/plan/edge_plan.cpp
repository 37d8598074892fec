#include "cuda/plan/edge_plan.h"

#include <algorithm>
#include <utility>

#include "core/locate.h"
#include "cuda/plan/common.h"
#include "cuda/plan/planners.h"

namespace histo::cuda {
namespace {

int64_t bytes_of_wide(ElementType type) {
  return visit_number_type(type, [](auto tag) {
    return int64_t{sizeof(typename Number<typename decltype(tag)::type>::Wide)};
  });
}

/// Whether all tables of columns are worth their reduction.
bool has_rows_for_columns(const ChannelColumns& in, int64_t slots) {
  return in.rows * (int64_t{1} << in.log_words) >= slots;
}

/// Bytes of a column's threshold: two of 16 bits are a word; others are kept as what is compared.
int64_t threshold_bytes_of(ElementType type) {
  const bool is_small_float = bytes_of_type(type) == 2 && !is_integer(type);
  return is_small_float ? 2 : bytes_of_wide(type);
}

int64_t column_bytes(ElementType type, int64_t bins) {
  return (bins + 3) * 4 + (bins + 1) * threshold_bytes_of(type);
}

/// Tables of columns in stripes of 32 words, wide ones if they pay, or else of 8.
std::optional<EdgePlan> plan_columns(
    const Problem& problem, int64_t bins, const DeviceLimits& limits) {
  if (problem.num_rows() < kMinRowsOfColumns) {
    return std::nullopt;
  }
  const int64_t element_bytes = bytes_of_type(problem.type);
  const int64_t word_bytes = bytes_of_word(element_bytes);
  for (const auto& [bytes, log_words] :
       {std::pair{kMostBytesOfWord, 5u}, std::pair{word_bytes, 5u}, std::pair{word_bytes, 3u}}) {
    const int64_t columns = bytes / element_bytes << log_words;
    const int64_t shared = column_bytes(problem.type, bins) * columns + 16;
    if (!are_columns(problem, bytes) || shared + kDeclaredBytes > limits.shared_per_block) {
      continue;
    }
    // Tables are filled and reduced, and blocks of later waves meet in fewer lines: together as
    // long as reading three times as much.
    const ChannelColumns in =
        columns_of(problem, bytes, log_words, kSetupBytes + 3 * shared, limits);
    const int64_t bytes_of_block = in.share * columns * element_bytes;
    if (bytes > word_bytes && bytes_of_block < kMinReadsOfWide * shared) {
      continue;
    }
    const EdgePlan plan{
        in,     in.blocks(), threads_of_columns(element_bytes, !is_integer(problem.type)),
        shared, false,       false};
    return has_rows_for_columns(in, bins + 3) ? std::optional(plan) : std::nullopt;
  }
  return std::nullopt;
}

/// How many blocks share the rows of a stripe. Each clears and sums a table, which takes as long as
/// reading `table_bytes` some times; several add to counts, which costs all blocks more.
int64_t chunks_of_stripe(
    const EdgeStripes& in, int64_t at_once, int64_t row_bytes, int64_t table_bytes) {
  const int64_t stripes = in.batches * in.stripes;
  const int64_t setup_bytes = kSetupOfStripes + kReadsOfStripeTable * table_bytes;
  int64_t best = 1, least_cost = INT64_MAX;
  for (int64_t chunks = 1;
       chunks <= std::max<int64_t>(kMoreWaves * at_once / stripes, 1) && chunks <= in.rows;
       ++chunks) {
    const int64_t waves = ceil_div(stripes * chunks, at_once);
    int64_t cost = waves * (ceil_div(in.rows, chunks) * row_bytes + setup_bytes);
    if (chunks > 1) {
      cost += stripes * chunks * kReadsOfAddedTable * table_bytes / at_once;
    }
    if (cost < least_cost) {
      least_cost = cost;
      best = chunks;
    }
  }
  return best;
}

/// Stripes, and the rows of a block.
EdgeStripes stripes_with_rows(const Problem& problem, int64_t bins, const DeviceLimits& limits) {
  const int64_t element_bytes = bytes_of_type(problem.type);
  const int64_t word_bytes = bytes_of_word(element_bytes);
  EdgeStripes in{
      columns_of(problem, word_bytes, kLogWordsOfStripe, kSetupBytes, limits), 0, false, 0};
  const int64_t of_row = int64_t{in.places()} * in.width(static_cast<unsigned>(element_bytes));
  const int64_t row_bytes = of_row * element_bytes;
  const int64_t table_bytes = (bins + 3) * 4 << kLogWordsOfStripe;
  const int64_t share = ceil_div(
      in.rows,
      chunks_of_stripe(in, int64_t{limits.sm_count} * kStripesOfSm, row_bytes, table_bytes));
  const bool is_only_layout = !are_columns(problem, word_bytes);
  const int64_t most = std::max<int64_t>(kMostElementsOfStripe / of_row, 1);
  in.set_share(is_only_layout ? std::min(share, most) : share);
  return in;
}

/// Tables of columns in stripes of 8 words. `bytes_of_bins`: shared memory of a block for its bins.
std::optional<EdgePlan> plan_stripes(
    const Problem& problem,
    int64_t bins,
    int64_t bytes_of_bins,
    bool shares_edges,
    const DeviceLimits& limits) {
  const int64_t element_bytes = bytes_of_type(problem.type);
  if (element_bytes == 1 || problem.num_rows() < kMinRowsOfColumns ||
      (!are_columns(problem, bytes_of_word(element_bytes)) && !are_general_columns(problem))) {
    return std::nullopt;
  }
  const int64_t room = std::min(limits.shared_per_block, limits.shared_per_sm / kStripesOfSm) -
                       kReservedBytes - kDeclaredBytesOfStripes - bytes_of_bins;
  const auto table_bytes = [&](unsigned log_lanes) { return (bins + 3) * 4 << log_lanes; };
  const bool has_few_rows = problem.num_rows() < kRowsPerSlotOfLanes * (bins + 3);
  const unsigned log_lanes = has_few_rows || table_bytes(5) > room ? 3 : 5;
  if (table_bytes(log_lanes) > room) {
    return std::nullopt;
  }
  EdgeStripes in = stripes_with_rows(problem, bins, limits);
  const bool meet = in.chunks > 1 || in.columns != in.channels; // in a count
  in.log_lanes = log_lanes;
  in.adds = meet || problem.adds;
  EdgePlan plan{};
  plan.shared_bytes = table_bytes(in.log_lanes) + bytes_of_bins;
  plan.threads = kMostThreadsOfStripes;
  const int64_t blocks_of_sm =
      limits.shared_per_sm / (plan.shared_bytes + kReservedBytes + kDeclaredBytesOfStripes);
  while (plan.threads > kFewestThreadsOfStripes &&
         blocks_of_sm * plan.threads >= 2 * kStripesOfSm * kMostThreadsOfStripes &&
         in.share * in.places() << in.log_words < kEnoughLoadsOfStripes * plan.threads) {
    plan.threads /= 2;
  }
  set_steps(in, plan.threads);
  const int64_t works = in.blocks();
  const int64_t elements = in.share * in.places() * in.width(static_cast<unsigned>(element_bytes));
  const bool later = shares_edges && are_columns(problem, bytes_of_word(element_bytes)) &&
                     works > int64_t{limits.sm_count} * kStripesOfSm;
  if (elements > kMostElementsOfStripe ||
      (later && elements * element_bytes > kMostBytesOfLaterStripes)) {
    return std::nullopt;
  }
  const int64_t at_once =
      int64_t{limits.sm_count} * (kStripesOfSm * kMostThreadsOfStripes / plan.threads);
  in.works = static_cast<unsigned>(works);
  plan.layout = in;
  plan.blocks = std::min(works, at_once);
  plan.clears = meet && !problem.adds;
  plan.overlaps = plan.clears && limits.has_clusters();
  return works <= INT32_MAX ? std::optional(plan) : std::nullopt;
}

/// Bytes of a table and its thresholds, in 2^log_copies copies, and of buckets.
int64_t stream_bytes(ElementType type, int64_t bins, unsigned log_copies, int64_t buckets) {
  return words_of(bins + 3, log_copies) * (4 + bytes_of_wide(type)) + buckets * 4;
}

std::optional<EdgePlan> plan_streams(
    const Problem& problem, int64_t bins, const DeviceLimits& limits) {
  const int64_t element_bytes = bytes_of_type(problem.type);
  const auto fits = [&](int64_t part_bins, unsigned log_copies) {
    return stream_bytes(problem.type, part_bins, log_copies, kFewestBuckets) + kDeclaredBytes <=
           limits.shared_per_block;
  };
  int64_t parts = 1;
  while (parts <= kMaxParts && !fits(ceil_div(bins, parts), 0)) {
    ++parts;
  }
  if (parts > kMaxParts || problem.num_rows() < kMinRowsOfStream) {
    return std::nullopt;
  }
  const int64_t part_bins = ceil_div(bins, parts);
  unsigned log_copies = 0;
  if (element_bytes == 2 && !is_integer(problem.type)) {
    log_copies = fits(part_bins, 5) ? 5 : fits(part_bins, 3) ? 3 : 0;
  }
  const auto bytes_with = [&](int64_t buckets) {
    return stream_bytes(problem.type, part_bins, log_copies, buckets);
  };
  EdgeStreams in{
      streams_of(problem, parts, limits),
      static_cast<unsigned>(parts),
      part_bins,
      log_copies,
      kFewestBuckets,
      false};
  const int64_t bytes_of_block = ceil_div(in.num_rows, int64_t{in.chunks}) * element_bytes;
  const int64_t room = std::min(kMostSharedWithBuckets, limits.shared_per_block - kDeclaredBytes);
  while (in.buckets < kMostBuckets && bytes_with(2 * in.buckets) <= room &&
         bytes_of_block >= 2 * in.buckets * kMinBytesOfBucket) {
    in.buckets *= 2;
  }
  in.adds = in.chunks > 1 || problem.adds;
  const bool clears = in.adds && !problem.adds;
  return EdgePlan{
      in,
      problem.num_channels() * in.chunks * parts,
      threads_of_streams(element_bytes),
      bytes_with(in.buckets),
      clears,
      clears && limits.has_clusters() && parts == 1};
}

/// Whether channels are so few and so long that blocks of one channel, which take a whole SM, count
/// them no later than teams do: each SM reads `bytes_of_sm` or more.
bool are_long(const Problem& problem, int64_t bytes_of_sm, const DeviceLimits& limits) {
  const int64_t bytes = bytes_of_type(problem.type), channels = problem.num_channels();
  return channels <= limits.sm_count && problem.rows[2].size * bytes >= kMinLongRunOfStream &&
         channels * problem.num_rows() * bytes >= bytes_of_sm * limits.sm_count;
}

/// Tables of teams. Edges that are stored need thresholds and buckets, which the block's teams share.
std::optional<EdgePlan> plan_teams(
    const Problem& problem, int64_t bins, bool stored, const DeviceLimits& limits) {
  const int64_t words = words_of(bins + 3, 0);
  const int32_t buckets = stored ? kFewestBuckets : 0;
  const int64_t of_block = stored ? words * bytes_of_wide(problem.type) + buckets * 4 : 0;
  const TeamMemory memory{kDeclaredBytes + of_block, words * kCounterBytes};
  const auto teams = teams_of(problem, memory, limits);
  if (!teams) {
    return std::nullopt;
  }
  const EdgeTeams in{*teams, buckets, teams->parts > 1 || problem.adds};
  const bool clears = in.adds && !problem.adds;
  return EdgePlan{in,           blocks_of(in, limits),
                  in.threads(), of_block + in.teams * memory.of_team,
                  clears,       clears && limits.has_clusters()};
}

} // namespace

ColumnMemory ColumnMemory::of(const ChannelColumns& in, const Edges& edges, ElementType type) {
  const unsigned width = in.width(static_cast<unsigned>(bytes_of_type(type)));
  const int64_t bins = edges.bins;
  const int64_t stripes = edges.shared ? 1 : in.batches * in.stripes;
  const int64_t columns = stripes * width;
  const int64_t line_bytes = visit_number_type(type, [](auto tag) {
    return int64_t{sizeof(Lines<GuessOf<typename Number<typename decltype(tag)::type>::Wide>>)};
  });
  const int64_t parts = ceil_div(bins + 1, edges_of_part(width));
  return {
      stripes, parts, columns * line_bytes, columns * (bins + 1) * threshold_bytes_of(type),
      columns * parts * int64_t{sizeof(uint32_t)}};
}

namespace {

/// Few rows have fewer elements than bytes have values. But if many channels have many edges of
/// their own, mapping sums takes less time than searching each element among edges in memory.
bool are_bytes_worth_sums(const Problem& problem, const Edges& edges, const DeviceLimits& limits) {
  constexpr int64_t kMinOwnBins = 128, kMinOwnChannelsOfSm = 24, kMostOwnBinsOfRow = 4;
  return problem.num_rows() >= kMinRowsOfByteTable ||
         (!edges.shared && edges.bins >= kMinOwnBins && edges.bins <= kMostBinsOfByteWarp &&
          edges.bins <= kMostOwnBinsOfRow * problem.num_rows() &&
          problem.num_channels() >= kMinOwnChannelsOfSm * limits.sm_count);
}

EdgePlan plan_bytes(const Problem& problem, int64_t bins, const DeviceLimits& limits) {
  constexpr int64_t kWarps = kThreadsOfBytes / 32, kBlocksOfSm = 8;
  const int64_t channels = problem.num_channels(), most = kBlocksOfSm * limits.sm_count;
  const bool of_warps = channels > most && bins <= kMostBinsOfByteWarp;
  const int64_t blocks = of_warps ? ceil_div(channels, kWarps) : channels;
  return {EdgeBytes{of_warps}, std::min(blocks, most), kThreadsOfBytes, 0, false, false};
}

EdgePlan plan_tiles(const Problem& problem, const DeviceLimits& limits) {
  const TableEntries entries{bytes_of_type(problem.type), problem.num_bins, false};
  const CountPlan tiles = plan_generic({problem, entries, limits});
  return {std::get<Generic>(tiles.layout),
          tiles.blocks,
          tiles.threads,
          tiles.shared_bytes,
          tiles.clears,
          tiles.clears && limits.has_clusters()};
}

} // namespace

EdgePlan plan_edges(const Problem& problem, const Edges& edges, const DeviceLimits& limits) {
  const bool are_bytes = bytes_of_type(problem.type) == 1;
  if (are_bytes && are_bytes_worth_sums(problem, edges, limits)) {
    return plan_bytes(problem, edges.bins, limits);
  }
  if (edges.shared) {
    const int64_t bytes_of_bins =
        words_of(edges.bins + 3, 0u) * bytes_of_wide(problem.type) + kBucketsOfStripes * 4;
    if (const auto plan = plan_stripes(problem, edges.bins, bytes_of_bins, true, limits)) {
      return *plan;
    }
  }
  if (are_bytes) {
    return plan_tiles(problem, limits);
  }
  if (const auto plan = plan_columns(problem, edges.bins, limits)) {
    return *plan;
  }
  // A few short channels are counted by one kernel without preparations.
  const bool is_little =
      problem.num_rows() < kMinRowsOfStream && problem.num_channels() < limits.sm_count;
  if (edges.shared && !is_little && !are_long(problem, kMinBytesOfLongStreams, limits)) {
    if (const auto plan = plan_teams(problem, edges.bins, true, limits)) {
      return *plan;
    }
  }
  const auto plan = plan_streams(problem, edges.bins, limits);
  return plan ? *plan : plan_tiles(problem, limits);
}

std::optional<EdgePlan> plan_own_stripes(
    const Problem& problem, int64_t bins, const DeviceLimits& limits) {
  return plan_stripes(problem, bins, 0, false, limits);
}

std::optional<EdgePlan> plan_own_rows(
    const Problem& problem, int64_t bins, const DeviceLimits& limits) {
  if (bytes_of_type(problem.type) == 1 || are_long(problem, kMinBytesOfLongOwnStreams, limits)) {
    return std::nullopt;
  }
  return plan_teams(problem, bins, false, limits);
}

} // namespace histo::cuda
