#include "cuda/plan/select_plan.h"

#include <algorithm>

#include "cuda/plan/common.h"
#include "cuda/plan/listed_plan.h"
#include "cuda/plan/short_plan.h"
#include "cuda/plan/stripes_plan.h"

namespace histo::cuda {
namespace {

constexpr int64_t kReserved = 4096; // of shared memory, for what kernels declare themselves
constexpr int64_t kLanes = 32;

/// Whether each SM has many channels.
bool has_many_channels(const Problem& problem, const DeviceLimits& limits) {
  return problem.num_channels() > kManyShortChannelsOfSm * limits.sm_count;
}

/// Whether a warp sorts a channel sooner than its digits are counted.
bool takes_sort(const Problem& problem, int64_t element_bytes, const DeviceLimits& limits) {
  const bool has_many = has_many_channels(problem, limits);
  if (element_bytes == 2 && has_many && !vec16s_of(problem)) {
    return problem.num_rows() <= kMostRowsOfTinySort;
  }
  return problem.num_rows() <= kMostRowsToSort * (element_bytes >= 4 && has_many ? 2 : 1);
}

/// Short channels, and those of small inputs, if they do not lie in runs.
std::optional<SelectPlan> plan_gathered(
    const Problem& problem, int64_t element_bytes, const DeviceLimits& limits, SelectPlan plan) {
  const int64_t rows = problem.num_rows(), channels = problem.num_channels();
  const bool is_small = channels * rows * element_bytes <= kMostBytesToGather &&
                        (element_bytes > 1 || rows <= kMostRowsOfBytesToGather) &&
                        (element_bytes > 2 || !has_many_channels(problem, limits));
  const bool is_short = element_bytes == 1
                            ? rows <= kMostRowsOfSort
                            : element_bytes > 2 && rows * element_bytes <= kMostBytesOfRowsToGather;
  if (vec16s_of(problem) || !(is_small || is_short)) {
    return std::nullopt;
  }
  plan.layout = SelectLayout::kGathered;
  plan.gathered = gather_shape_of(problem);
  // Parts begin with whole lines, and so with whole words. There is room for some lines of short
  // channels, and for all channels of small inputs.
  const int64_t room = kBytesOfGathered / (plan.gathered.step * element_bytes);
  plan.gathered.channels =
      std::min(room < kLineBytes ? room : room / kLineBytes * kLineBytes, channels);
  return plan;
}

void plan_sort(const Problem& problem, SelectPlan& plan) {
  plan.layout = SelectLayout::kSort;
  plan.sorted = 2;
  while (plan.sorted < problem.num_rows()) {
    plan.sorted *= 2;
  }
  plan.threads = kThreadsOfSort;
  plan.blocks = ceil_div(problem.num_channels(), kThreadsOfSort / kLanes);
}

/// Whether there is one q of long channels, which are not too many.
bool takes_sample(
    const Problem& problem, int64_t element_bytes, int64_t num_q, const DeviceLimits& limits) {
  const int64_t bytes = problem.num_channels() * problem.num_rows() * element_bytes;
  return num_q == 1 && problem.num_rows() >= kRowsToSample && bytes >= kBytesToSample &&
         problem.num_channels() < kManyChannelsOfSm * limits.sm_count;
}

/// Channels that are read once, if they lie in runs and are short.
std::optional<SelectPlan> plan_staged(
    const Problem& problem,
    int64_t element_bytes,
    int64_t num_q,
    const DeviceLimits& limits,
    SelectPlan plan) {
  const auto in = vec16s_of(problem);
  if (!in || in->vec16s() * kVec16Bytes > kMostBytesOfShort ||
      takes_sample(problem, element_bytes, num_q, limits)) {
    return std::nullopt;
  }
  plan.of_warps = fills_with_warps(*in, limits);
  plan.group = std::min<int64_t>(num_q, kMostSlotsOfStaged / plan.values_of_q);
  plan.slots = static_cast<unsigned>(plan.group) * plan.values_of_q;
  const int64_t channels = in->num_channels();
  plan.threads = plan.of_warps ? kFewestThreadsOfShort
                               : threads_of_short_block(in->vec16s(), channels, limits);
  const int64_t teams = plan.of_warps ? plan.threads / kLanes : 1;
  const int64_t of_team = in->vec16s() * kVec16Bytes +
                          plan.slots * ((kCounterBytes + 1) << kBitsOfColumnDigit) + kVec16Bytes;
  plan.shared_bytes = teams * of_team;
  if (plan.shared_bytes + kReserved > limits.shared_per_block) {
    return std::nullopt;
  }
  plan.staged = {
      *in, static_cast<unsigned>(plan.group), plan.values_of_q, plan.slots,
      static_cast<unsigned>(of_team)};
  plan.blocks = blocks_of_short(channels, plan.of_warps, plan.threads, plan.shared_bytes, limits);
  plan.layout = SelectLayout::kStaged;
  return plan;
}

void plan_patterns(const Problem& problem, SelectPlan& plan) {
  plan.layout = SelectLayout::kPatterns;
  plan.threads = kThreadsOfPatterns;
  plan.blocks = problem.num_channels();
  plan.counters = kPatterns;
}

/// Targets, slots, and counters in memory, if a table has room for `slots`. Each target may have a
/// slot of its own. False if that is too little.
bool plan_slots(int64_t slots, int64_t num_q, SelectPlan& plan) {
  plan.group = std::min<int64_t>({slots / plan.values_of_q, kMaxTargets / kTargetsOfQ, num_q});
  plan.slots = static_cast<unsigned>(plan.group) * plan.values_of_q;
  for (unsigned pass = 0; pass < plan.digits.count(); ++pass) {
    const KeyDigit digit = plan.digits.at(pass);
    plan.counters += digit.first ? digit.counters() : plan.slots * digit.counters();
  }
  return plan.group > 0;
}

std::optional<SelectPlan> plan_columns(
    const Problem& problem,
    int64_t element_bytes,
    int64_t num_q,
    const DeviceLimits& limits,
    SelectPlan plan) {
  const int64_t word_bytes = bytes_of_word(element_bytes);
  if (!are_columns(problem, word_bytes) && !are_general_columns(problem)) {
    return std::nullopt;
  }
  plan.digits = {static_cast<unsigned>(8 * element_bytes), kBitsOfColumnDigit};
  const int64_t columns = word_bytes / element_bytes * kLanes;
  // A slot of a column has counters and a prefix; the first digit has a counter more.
  const int64_t slot_bytes =
      columns * ((int64_t{1} << kBitsOfColumnDigit) * kCounterBytes + element_bytes);
  const int64_t free = limits.shared_per_block - kReserved - columns * kCounterBytes;
  if (!plan_slots(std::min<int64_t>(free / slot_bytes, kMostSlotsOfColumn), num_q, plan)) {
    return std::nullopt;
  }
  plan.layout = SelectLayout::kColumns;
  plan.threads = kThreadsOfSelectColumns;
  plan.shared_bytes = plan.slots * slot_bytes + columns * kCounterBytes;
  plan.columns = columns_of(problem, word_bytes, 5, kSetupBytes + 3 * plan.shared_bytes, limits);
  set_steps(plan.columns, plan.threads);
  plan.blocks = plan.columns.batches * plan.columns.stripes * plan.columns.chunks;
  return plan;
}

/// A table as large as the shared memory allows.
void plan_table(int64_t shared, int64_t num_q, SelectPlan& plan) {
  plan.shared_bytes = shared;
  if (!plan_slots(shared / kCounterBytes >> plan.digits.bits, num_q, plan)) {
    throw InternalError("plan_select: too little shared memory");
  }
}

/// The bytes of the elements that a block of a channel keeps.
int64_t kept_bytes(const Problem& problem, int64_t element_bytes, unsigned cluster) {
  const ChannelSpans in = spans_of(problem, cluster);
  const int64_t each = int64_t{cluster} * kThreadsOfSpans;
  return ceil_div(in.items, each) * kThreadsOfSpans * (in.has_vec16s ? kVec16Bytes : element_bytes);
}

/// The blocks of a channel that is read once: as few as have room for its elements, or as many as
/// there are SMs for. 0 if there is too little room.
unsigned cluster_that_keeps(
    const Problem& problem, int64_t element_bytes, const DeviceLimits& limits) {
  const auto most = static_cast<unsigned>(limits.has_clusters() ? kMaxCluster : 1);
  unsigned size = 1;
  while (size < most && (kept_bytes(problem, element_bytes, size) > kKeptBytesOfBlock ||
                         (problem.num_channels() * size * 2 <= limits.sm_count &&
                          problem.num_rows() > size * kMinRowsOfBlockOfSpans))) {
    size *= 2;
  }
  const bool fits = kept_bytes(problem, element_bytes, size) <= kMostKeptBytesOfBlock;
  return fits ? size : 0;
}

/// The blocks of a channel that is read for each digit. 0 if a channel has more blocks than a
/// cluster.
unsigned cluster_that_reads(const Problem& problem, const DeviceLimits& limits) {
  const int64_t rows = problem.num_rows(), channels = problem.num_channels();
  const auto most = static_cast<unsigned>(limits.has_clusters() ? kMaxCluster : 1);
  unsigned size = 1;
  while (size < most && channels * size < blocks_of_spans(false) * limits.sm_count) {
    size *= 2;
  }
  const bool fills = channels * size >= limits.sm_count && rows <= size * kMostCachedRows;
  const bool many = channels >= kManyChannelsOfSm * limits.sm_count;
  return rows <= kMostRowsOfOneBlock || fills || many ? size : 0;
}

std::optional<SelectPlan> plan_spans(
    const Problem& problem,
    int64_t element_bytes,
    int64_t num_q,
    const DeviceLimits& limits,
    SelectPlan plan) {
  if (problem.num_rows() >= kMaxRows || takes_sample(problem, element_bytes, num_q, limits)) {
    return std::nullopt;
  }
  unsigned cluster = cluster_that_keeps(problem, element_bytes, limits);
  // A single run, or few of them, are read sooner by select_whole and others. So are long runs, if
  // there are channels for all SMs, or runs begin within vec16s.
  const bool is_run =
      problem.rows[2].size == problem.num_rows() || problem.rows[2].size >= kLongRunOfSpans;
  const bool has_long_runs =
      problem.rows[2].size >= kShortestRun &&
      (problem.num_channels() >= limits.sm_count || !spans_of(problem, 1).has_vec16s);
  if (cluster != 1 && (is_run || has_long_runs)) {
    return std::nullopt;
  }
  plan.keeps = cluster > 0;
  cluster = plan.keeps ? cluster : cluster_that_reads(problem, limits);
  if (cluster == 0) {
    return std::nullopt;
  }
  plan.digits.bits = plan.keeps ? kBitsOfColumnDigit : kBitsOfDigit;
  const int64_t kept = plan.keeps ? kept_bytes(problem, element_bytes, cluster) : 0;
  // Two blocks of a multiprocessor at least: one counts while the other selects.
  const int64_t half = limits.shared_per_sm / 2 - kReserved - kReservedBytes;
  const int64_t room = std::min(half, limits.shared_per_block - kReserved) - kept;
  const int64_t tables = cluster > 1 ? 2 : 1; // and its sums over the cluster
  const unsigned of_first = plan.digits.at(0).counters(), of_slot = plan.digits.at(1).counters();
  if (room < tables * kCounterBytes * (of_first + kSpareCounters) ||
      !plan_slots(room / (tables * kCounterBytes) / of_slot, num_q, plan)) {
    return std::nullopt;
  }
  const auto in_vec16s = [](unsigned words) { return (words + 3) / 4 * 4; };
  const unsigned counters = std::max(of_first, plan.slots * of_slot);
  plan.spanned = {
      cluster, static_cast<unsigned>(plan.group), in_vec16s(counters),
      tables > 1 ? in_vec16s(counters) : 0};
  plan.shared_bytes =
      kCounterBytes * (int64_t{plan.spanned.table_words} + plan.spanned.sum_words) + kept;
  plan.layout = SelectLayout::kSpans;
  plan.threads = kThreadsOfSpans;
  plan.spans = spans_of(problem, cluster);
  plan.blocks = problem.num_channels() * cluster;
  plan.counters = 0;
  return plan;
}

/// The passes of kSampled: one for a bad sample, those that find a few of all keys, and one that
/// finds the values among these.
unsigned passes_of_sampled(int64_t element_bytes, uint64_t room) {
  unsigned passes = 2;
  for (uint64_t keys = ~uint64_t{0} >> (64 - 8 * element_bytes); keys >= room; ++passes) {
    keys = keys_of_counter(keys, room);
  }
  return passes;
}

/// All blocks read each channel.
void plan_streams(
    const Problem& problem, int64_t num_q, const DeviceLimits& limits, SelectPlan& plan) {
  plan.layout = SelectLayout::kStreams;
  plan.threads = threads_of_select_streams(bytes_of_type(problem.type));
  plan.streams = streams_of(problem, 1, limits);
  plan.blocks = problem.num_channels() * plan.streams.chunks;
  plan_table(limits.shared_per_block - kReserved, num_q, plan);
}

/// The same for channels that lie in short runs, as those of images do: all blocks read across runs.
std::optional<SelectPlan> plan_streams_of_spans(
    const Problem& problem,
    int64_t element_bytes,
    int64_t num_q,
    const DeviceLimits& limits,
    SelectPlan plan) {
  const int64_t rows = problem.num_rows(), channels = problem.num_channels();
  const Extent& run = problem.rows[2];
  if (run.size == rows || run.stride != 1 || run.size >= kMostRunOfStreamedSpans ||
      rows < kRowsToStreamSpans || rows >= kMaxRows ||
      channels * rows * element_bytes < kBytesToStreamSpans ||
      channels >= kManyChannelsOfSm * limits.sm_count) {
    return std::nullopt;
  }
  plan_streams(problem, num_q, limits, plan);
  plan.across_spans = true;
  plan.spans = spans_of(problem, plan.streams.chunks);
  return plan;
}

/// Changes a plan of kStreams.
void plan_sampled(int64_t element_bytes, SelectPlan& plan) {
  plan.layout = SelectLayout::kSampled;
  plan.sample = kSampleSize;
  plan.room = static_cast<unsigned>(plan.shared_bytes / kCounterBytes) - kSpareCounters;
  plan.passes = passes_of_sampled(element_bytes, plan.room);
  plan.counters = plan.room + kSpareCounters + kCountersBesideWindow;
}

/// Channels whose digits are counted in any layout: by a cluster, a block or all blocks.
SelectPlan plan_digits(
    const Problem& problem, int64_t num_q, const DeviceLimits& limits, SelectPlan plan) {
  const int64_t element_bytes = bytes_of_type(problem.type);
  const int64_t rows = problem.num_rows(), channels = problem.num_channels();
  plan.digits = {
      static_cast<unsigned>(8 * element_bytes),
      element_bytes == 2 ? kBitsOfColumnDigit : kBitsOfDigit};
  if (const auto found = plan_streams_of_spans(problem, element_bytes, num_q, limits, plan)) {
    return *found;
  }
  if (const auto found = plan_spans(problem, element_bytes, num_q, limits, plan)) {
    return *found;
  }
  const bool fills = channels >= limits.sm_count && rows <= kMostCachedRows;
  const bool many = channels >= kManyChannelsOfSm * limits.sm_count && rows < kMaxRows;
  if (rows <= kMostRowsOfOneBlock || fills || many) {
    plan.layout = SelectLayout::kWhole;
    plan.threads = kThreadsOfWhole;
    plan.blocks = channels;
    plan.streams = streams_of(problem, 1, limits);
    plan.streams.share = rows;
    plan.streams.chunks = 1;
    // Two blocks of a multiprocessor: one counts while the other selects.
    const int64_t half = limits.shared_per_sm / 2 - kReserved - 1024;
    plan_table(std::min(half, limits.shared_per_block - kReserved), num_q, plan);
    return plan;
  }
  plan_streams(problem, num_q, limits, plan);
  if (takes_sample(problem, element_bytes, num_q, limits)) {
    plan_sampled(element_bytes, plan);
  }
  return plan;
}

SelectPlan plan_layout(
    const Problem& problem, int64_t num_q, unsigned values_of_q, const DeviceLimits& limits) {
  const int64_t element_bytes = bytes_of_type(problem.type);
  const int64_t rows = problem.num_rows();
  SelectPlan plan{};
  plan.overlaps = limits.has_clusters();
  plan.values_of_q = values_of_q;
  if (takes_sort(problem, element_bytes, limits)) {
    plan_sort(problem, plan);
    return plan;
  }
  if (num_q * values_of_q <= kMostStagedGroups * kMostSlotsOfStaged) {
    if (const auto staged = plan_staged(problem, element_bytes, num_q, limits, plan)) {
      return *staged;
    }
  }
  if (const auto gathered = plan_gathered(problem, element_bytes, limits, plan)) {
    return *gathered;
  }
  if (const auto listed = plan_listed(problem, element_bytes, num_q, limits, plan)) {
    return *listed;
  }
  if (element_bytes > 1) {
    if (const auto stripes = plan_stripes(problem, element_bytes, num_q, limits, plan)) {
      return *stripes;
    }
  }
  if (rows <= kMostRowsOfSort) {
    plan_sort(problem, plan);
    return plan;
  }
  if (element_bytes == 1) {
    plan_patterns(problem, plan);
    return plan;
  }
  const auto columns = plan_columns(problem, element_bytes, num_q, limits, plan);
  return columns ? *columns : plan_digits(problem, num_q, limits, plan);
}

} // namespace

SelectPlan plan_select(
    const Problem& problem, int64_t num_q, unsigned values_of_q, const DeviceLimits& limits) {
  SelectPlan plan = plan_layout(problem, num_q, values_of_q, limits);
  const int64_t channels = problem.num_channels();
  plan.halves = channels > 1 && plan.counter_bytes(channels) > kMaxBytesOfSelectCounters;
  return plan;
}

} // namespace histo::cuda
