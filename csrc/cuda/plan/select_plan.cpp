#include "cuda/plan/select_plan.h"

#include <algorithm>

#include "cuda/plan/common.h"
#include "cuda/plan/select_planners.h"
#include "cuda/plan/short_plan.h"

namespace histo::cuda {
namespace {

constexpr int64_t kLanes = 32;

/// Whether each SM has many channels.
bool has_many_channels(const SelectRequest& request) {
  return request.channels > kManyShortChannelsOfSm * request.limits.sm_count;
}

/// Whether a warp sorts a channel sooner than its digits are counted.
bool takes_sort(const SelectRequest& request) {
  const bool has_many = has_many_channels(request);
  if (request.element_bytes == 2 && has_many && !vec16s_of(request.problem)) {
    return request.rows <= kMostRowsOfTinySort;
  }
  return request.rows <= kMostRowsToSort * (request.element_bytes >= 4 && has_many ? 2 : 1);
}

/// Short channels, and those of small inputs, if they do not lie in runs.
std::optional<SelectPlan> plan_gathered(const SelectRequest& request) {
  const int64_t rows = request.rows, element_bytes = request.element_bytes;
  const bool is_small = request.bytes() <= kMostBytesToGather &&
                        (element_bytes > 1 || rows <= kMostRowsOfBytesToGather) &&
                        (element_bytes > 2 || !has_many_channels(request));
  const bool is_short = element_bytes == 1
                            ? rows <= kMostRowsOfSort
                            : element_bytes > 2 && rows * element_bytes <= kMostBytesOfRowsToGather;
  if (vec16s_of(request.problem) || !(is_small || is_short)) {
    return std::nullopt;
  }
  GatherShape shape = gather_shape_of(request.problem);
  // Parts begin with whole lines, and so with whole words. There is room for some lines of short
  // channels, and for all channels of small inputs.
  const int64_t room = kBytesOfGathered / (shape.step * element_bytes);
  shape.channels =
      std::min(room < kLineBytes ? room : room / kLineBytes * kLineBytes, request.channels);
  return SelectPlan{shape};
}

SelectPlan plan_sort(const SelectRequest& request) {
  SelectSorted in{2};
  while (in.size < request.rows) {
    in.size *= 2;
  }
  return {in, ceil_div(request.channels, kThreadsOfSort / kLanes), kThreadsOfSort};
}

/// Whether there is one q of long channels, which are not too many.
bool takes_sample(const SelectRequest& request) {
  return request.num_q == 1 && request.rows >= kRowsToSample && request.bytes() >= kBytesToSample &&
         request.channels < kManyChannelsOfSm * request.limits.sm_count;
}

/// Channels that are read once, if they lie in runs and are short.
std::optional<SelectPlan> plan_staged(const SelectRequest& request) {
  const DeviceLimits& limits = request.limits;
  const auto in = vec16s_of(request.problem);
  if (!in || in->vec16s() * kVec16Bytes > kMostBytesOfShort || takes_sample(request) ||
      request.num_q * request.values_of_q > kMostStagedGroups * kMostSlotsOfStaged) {
    return std::nullopt;
  }
  const bool of_warps = fills_with_warps(*in, limits);
  const auto group = static_cast<unsigned>(
      std::min<int64_t>(request.num_q, kMostSlotsOfStaged / request.values_of_q));
  const unsigned slots = group * request.values_of_q;
  const int threads = of_warps ? kFewestThreadsOfShort
                               : threads_of_short_block(in->vec16s(), request.channels, limits);
  const int64_t teams = of_warps ? threads / kLanes : 1;
  const int64_t of_team = in->vec16s() * kVec16Bytes +
                          slots * ((kCounterBytes + 1) << kBitsOfColumnDigit) + kVec16Bytes;
  const int64_t shared_bytes = teams * of_team;
  if (shared_bytes + kDeclaredBytesOfSelect > limits.shared_per_block) {
    return std::nullopt;
  }
  const StagedShape shape{*in, group, request.values_of_q, slots, static_cast<unsigned>(of_team)};
  return SelectPlan{
      SelectStaged{shape, of_warps},
      blocks_of_short(request.channels, teams, threads, shared_bytes, limits), threads,
      shared_bytes};
}

SelectPlan plan_patterns(const SelectRequest& request) {
  return {SelectPatterns{}, request.channels, kPatterns, 0, kPatterns};
}

/// Digits of `bits` bits, counted in a table with room for `slots`. Each target may have a slot of
/// its own. None if that is too little.
std::optional<DigitGroups> groups_of(const SelectRequest& request, unsigned bits, int64_t slots) {
  const int64_t values_of_q = request.values_of_q;
  const int64_t group =
      std::min<int64_t>({slots / values_of_q, kMaxTargets / kTargetsOfQ, request.num_q});
  const DigitGroups groups{request.digits(bits), group, request.values_of_q};
  return group > 0 ? std::optional(groups) : std::nullopt;
}

std::optional<SelectPlan> plan_columns(const SelectRequest& request) {
  const Problem& problem = request.problem;
  const DeviceLimits& limits = request.limits;
  const int64_t element_bytes = request.element_bytes, word_bytes = bytes_of_word(element_bytes);
  const int64_t columns = word_bytes / element_bytes * kLanes;
  if (!are_columns(problem, word_bytes) && !are_general_columns(problem)) {
    return std::nullopt;
  }
  // A slot of a column has counters and a prefix; the first digit has a counter more.
  const int64_t slot_bytes =
      columns * ((int64_t{1} << kBitsOfColumnDigit) * kCounterBytes + element_bytes);
  const int64_t free = limits.shared_per_block - kDeclaredBytesOfSelect - columns * kCounterBytes;
  const int64_t fitting = std::min<int64_t>(free / slot_bytes, kMostSlotsOfColumn);
  const auto groups = groups_of(request, kBitsOfColumnDigit, fitting);
  if (!groups) {
    return std::nullopt;
  }
  const int64_t shared_bytes =
      groups->slots_of(groups->group) * slot_bytes + columns * kCounterBytes;
  ChannelColumns in = columns_of(problem, word_bytes, 5, kSetupBytes + 3 * shared_bytes, limits);
  if (in.fill(element_bytes) < kLeastFillOfColumns) {
    return std::nullopt;
  }
  set_steps(in, kThreadsOfSelectColumns);
  return SelectPlan{
      SelectPasses{*groups, in}, in.blocks(), kThreadsOfSelectColumns, shared_bytes,
      groups->counters()};
}

/// The most bytes of a block's table.
int64_t bytes_of_table(const DeviceLimits& limits) {
  return limits.shared_per_block - kDeclaredBytesOfSelect;
}
/// The same, if an SM has two blocks: one counts while the other selects.
int64_t bytes_of_half_table(const DeviceLimits& limits) {
  const int64_t half = limits.shared_per_sm / 2 - kDeclaredBytesOfSelect - kReservedBytes;
  return std::min(half, bytes_of_table(limits));
}

/// Digits of channels that are read for each of them, counted in a table of `shared` bytes.
DigitGroups groups_of_table(const SelectRequest& request, int64_t shared) {
  const unsigned bits = request.element_bytes == 2 ? kBitsOfColumnDigit : kBitsOfDigit;
  const auto groups = groups_of(request, bits, shared / kCounterBytes >> bits);
  if (!groups) {
    throw InternalError("plan_select: too little shared memory");
  }
  return *groups;
}

/// The bytes of the elements that a block of a channel keeps.
int64_t kept_bytes(const SelectRequest& request, unsigned cluster) {
  const ChannelSpans in = spans_of(request.problem, cluster);
  const int64_t each = int64_t{cluster} * kThreadsOfSpans;
  return ceil_div(in.items, each) * kThreadsOfSpans *
         (in.has_vec16s ? kVec16Bytes : request.element_bytes);
}

/// The most blocks of a cluster.
unsigned most_blocks_of_cluster(const DeviceLimits& limits) {
  return limits.has_clusters() ? kMaxCluster : 1;
}

/// The blocks of a channel that is read once: as few as have room for its elements, or as many as
/// there are SMs for. 0 if there is too little room.
unsigned cluster_that_keeps(const SelectRequest& request) {
  const unsigned most = most_blocks_of_cluster(request.limits);
  unsigned size = 1;
  while (size < most && (kept_bytes(request, size) > kKeptBytesOfBlock ||
                         (request.channels * size * 2 <= request.limits.sm_count &&
                          request.rows > size * kMinRowsOfBlockOfSpans))) {
    size *= 2;
  }
  return kept_bytes(request, size) <= kMostKeptBytesOfBlock ? size : 0;
}

/// The blocks of a channel that is read for each digit. 0 if a channel has more blocks than a
/// cluster.
unsigned cluster_that_reads(const SelectRequest& request) {
  const int64_t rows = request.rows, channels = request.channels;
  const int64_t sms = request.limits.sm_count;
  const unsigned most = most_blocks_of_cluster(request.limits);
  unsigned size = 1;
  while (size < most && channels * size < blocks_of_spans(false) * sms) {
    size *= 2;
  }
  const bool fills = channels * size >= sms && rows <= size * kMostCachedRows;
  const bool many = channels >= kManyChannelsOfSm * sms;
  return rows <= kMostRowsOfOneBlock || fills || many ? size : 0;
}

std::optional<SelectPlan> plan_spans(const SelectRequest& request) {
  const Problem& problem = request.problem;
  const DeviceLimits& limits = request.limits;
  if (request.rows >= kMaxRows || takes_sample(request)) {
    return std::nullopt;
  }
  unsigned cluster = cluster_that_keeps(request);
  // One run, or a few, are read sooner as SelectWhole and others. So are long runs, if
  // there are channels for all SMs, or runs begin within vec16s.
  const int64_t run = problem.rows[2].size;
  const bool is_run = run == request.rows || run >= kLongRunOfSpans;
  const bool has_long_runs = run >= kShortestRun && (request.channels >= limits.sm_count ||
                                                     !spans_of(problem, 1).has_vec16s);
  if (cluster != 1 && (is_run || has_long_runs)) {
    return std::nullopt;
  }
  const bool keeps = cluster > 0;
  cluster = keeps ? cluster : cluster_that_reads(request);
  if (cluster == 0) {
    return std::nullopt;
  }
  const unsigned bits = keeps ? kBitsOfColumnDigit : kBitsOfDigit;
  const int64_t kept = keeps ? kept_bytes(request, cluster) : 0;
  const int64_t room = bytes_of_half_table(limits) - kept;
  const int64_t tables = cluster > 1 ? 2 : 1; // and its sums over the cluster
  const Digits digits = request.digits(bits);
  const unsigned of_first = digits.at(0).counters(), of_slot = digits.at(1).counters();
  if (room < tables * kCounterBytes * (of_first + kSpareCounters)) {
    return std::nullopt;
  }
  const auto groups = groups_of(request, bits, room / (tables * kCounterBytes) / of_slot);
  if (!groups) {
    return std::nullopt;
  }
  const unsigned counters = std::max(of_first, groups->slots_of(groups->group) * of_slot);
  const unsigned words = (counters + 3) / 4 * 4;
  const SpannedShape shape{
      cluster, static_cast<unsigned>(groups->group), words, tables > 1 ? words : 0};
  return SelectPlan{
      SelectSpans{spans_of(problem, cluster), digits, shape, keeps}, request.channels * cluster,
      kThreadsOfSpans, tables * words * kCounterBytes + kept};
}

/// The passes of SelectSampled: one for a bad sample, those that find a few of all keys, and one
/// that finds the values among these.
unsigned passes_of_sampled(int64_t element_bytes, uint64_t room) {
  unsigned passes = 2;
  for (uint64_t keys = ~uint64_t{0} >> (64 - 8 * element_bytes); keys >= room; ++passes) {
    keys = keys_of_counter(keys, room);
  }
  return passes;
}

/// Whether channels lie in short runs, as those of images do. All blocks then read across runs.
bool takes_short_runs(const SelectRequest& request) {
  const int64_t rows = request.rows;
  const Extent& run = request.problem.rows[2];
  return run.size != rows && run.stride == 1 && run.size < kMostRunOfStreamedSpans &&
         rows >= kRowsToStreamSpans && rows < kMaxRows && request.bytes() >= kBytesToStreamSpans &&
         request.channels < kManyChannelsOfSm * request.limits.sm_count;
}

/// All blocks read each channel: once for each digit, or less often if a sample narrows the search.
SelectPlan plan_streams(const SelectRequest& request) {
  const int64_t shared = bytes_of_table(request.limits);
  const ChannelStreams in = streams_of(request.problem, 1, request.limits);
  const int64_t blocks = request.channels * in.chunks;
  const int threads = threads_of_select_streams(request.element_bytes);
  if (takes_sample(request) && !takes_short_runs(request)) {
    const unsigned room = static_cast<unsigned>(shared / kCounterBytes) - kSpareCounters;
    const SelectSampled sampled{
        in, kSampleSize, room, passes_of_sampled(request.element_bytes, room)};
    return {sampled, blocks, threads, shared, room + kSpareCounters + kCountersBesideWindow};
  }
  SelectPasses passes{groups_of_table(request, shared), in};
  if (takes_short_runs(request)) {
    passes.channels = spans_of(request.problem, in.chunks);
  }
  return {passes, blocks, threads, shared, passes.counters()};
}

/// A block reads each channel, if there are many or they are short.
std::optional<SelectPlan> plan_whole(const SelectRequest& request) {
  const DeviceLimits& limits = request.limits;
  const int64_t rows = request.rows, channels = request.channels;
  const bool fills = channels >= limits.sm_count && rows <= kMostCachedRows;
  const bool many = channels >= kManyChannelsOfSm * limits.sm_count && rows < kMaxRows;
  if (rows > kMostRowsOfOneBlock && !fills && !many) {
    return std::nullopt;
  }
  const int64_t shared = bytes_of_half_table(limits);
  const DigitGroups groups = groups_of_table(request, shared);
  ChannelStreams in = streams_of(request.problem, 1, limits);
  in.set_share(rows);
  return SelectPlan{SelectWhole{groups, in}, channels, kThreadsOfWhole, shared};
}

/// Channels whose digits are counted in any layout: by a cluster, a block or all blocks.
SelectPlan plan_digits(const SelectRequest& request) {
  if (!takes_short_runs(request)) {
    for (const auto plan_some : {plan_spans, plan_whole}) {
      if (const auto found = plan_some(request)) {
        return *found;
      }
    }
  }
  return plan_streams(request);
}

SelectPlan plan_layout(const SelectRequest& request) {
  if (takes_sort(request)) {
    return plan_sort(request);
  }
  for (const auto plan_some : {plan_staged, plan_gathered, plan_listed, plan_stripes}) {
    if (const auto found = plan_some(request)) {
      return *found;
    }
  }
  if (request.rows <= kMostRowsOfSort) {
    return plan_sort(request);
  }
  if (request.element_bytes == 1) {
    return plan_patterns(request);
  }
  const auto columns = plan_columns(request);
  return columns ? *columns : plan_digits(request);
}

} // namespace

SelectPlan plan_select(
    const Problem& problem, int64_t num_q, unsigned values_of_q, const DeviceLimits& limits) {
  SelectPlan plan = plan_layout({problem, num_q, values_of_q, limits});
  const int64_t channels = problem.num_channels();
  plan.overlaps = limits.has_clusters();
  plan.halves = channels > 1 && plan.counter_bytes(channels) > kMaxBytesOfSelectCounters;
  return plan;
}

} // namespace histo::cuda
