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
  SelectPlan plan = request.plan();
  plan.layout = SelectLayout::kGathered;
  plan.gathered = gather_shape_of(request.problem);
  // Parts begin with whole lines, and so with whole words. There is room for some lines of short
  // channels, and for all channels of small inputs.
  const int64_t room = kBytesOfGathered / (plan.gathered.step * element_bytes);
  plan.gathered.channels =
      std::min(room < kLineBytes ? room : room / kLineBytes * kLineBytes, request.channels);
  return plan;
}

SelectPlan plan_sort(const SelectRequest& request) {
  SelectPlan plan = request.plan();
  plan.layout = SelectLayout::kSort;
  plan.sorted = 2;
  while (plan.sorted < request.rows) {
    plan.sorted *= 2;
  }
  plan.threads = kThreadsOfSort;
  plan.blocks = ceil_div(request.channels, kThreadsOfSort / kLanes);
  return plan;
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
  SelectPlan plan = request.plan();
  plan.of_warps = fills_with_warps(*in, limits);
  plan.group = std::min<int64_t>(request.num_q, kMostSlotsOfStaged / plan.values_of_q);
  plan.slots = plan.slots_of(plan.group);
  plan.threads = plan.of_warps ? kFewestThreadsOfShort
                               : threads_of_short_block(in->vec16s(), request.channels, limits);
  const int64_t teams = plan.of_warps ? plan.threads / kLanes : 1;
  const int64_t of_team = in->vec16s() * kVec16Bytes +
                          plan.slots * ((kCounterBytes + 1) << kBitsOfColumnDigit) + kVec16Bytes;
  plan.shared_bytes = teams * of_team;
  if (plan.shared_bytes + kDeclaredBytesOfSelect > limits.shared_per_block) {
    return std::nullopt;
  }
  plan.staged = {
      *in, static_cast<unsigned>(plan.group), plan.values_of_q, plan.slots,
      static_cast<unsigned>(of_team)};
  plan.blocks = blocks_of_short(request.channels, teams, plan.threads, plan.shared_bytes, limits);
  plan.layout = SelectLayout::kStaged;
  return plan;
}

SelectPlan plan_patterns(const SelectRequest& request) {
  SelectPlan plan = request.plan();
  plan.layout = SelectLayout::kPatterns;
  plan.threads = kThreadsOfPatterns;
  plan.blocks = request.channels;
  plan.counters = kPatterns;
  return plan;
}

/// A plan that counts digits of `bits` bits, in a table with room for `slots`. Each target may have a
/// slot of its own. None if that is too little.
std::optional<SelectPlan> plan_slots(const SelectRequest& request, unsigned bits, int64_t slots) {
  SelectPlan plan = request.plan();
  plan.digits = request.digits(bits);
  plan.group =
      std::min<int64_t>({slots / plan.values_of_q, kMaxTargets / kTargetsOfQ, request.num_q});
  plan.slots = plan.slots_of(plan.group);
  for (unsigned pass = 0; pass < plan.digits.count(); ++pass) {
    const KeyDigit digit = plan.digits.at(pass);
    plan.counters += digit.first ? digit.counters() : plan.slots * digit.counters();
  }
  return plan.group > 0 ? std::optional(plan) : std::nullopt;
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
  std::optional<SelectPlan> plan = plan_slots(request, kBitsOfColumnDigit, fitting);
  if (!plan) {
    return std::nullopt;
  }
  plan->layout = SelectLayout::kColumns;
  plan->threads = kThreadsOfSelectColumns;
  plan->shared_bytes = plan->slots * slot_bytes + columns * kCounterBytes;
  plan->columns = columns_of(problem, word_bytes, 5, kSetupBytes + 3 * plan->shared_bytes, limits);
  const ChannelColumns& in = plan->columns;
  if (in.fill(element_bytes) < kLeastFillOfColumns) {
    return std::nullopt;
  }
  set_steps(plan->columns, plan->threads);
  plan->blocks = in.blocks();
  return plan;
}

/// The bits of a digit of channels that are read for each of them.
unsigned bits_of_digit(const SelectRequest& request) {
  return request.element_bytes == 2 ? kBitsOfColumnDigit : kBitsOfDigit;
}

/// A plan that reads the rows of a channel in their order, with a table of `shared` bytes.
SelectPlan plan_table(const SelectRequest& request, int64_t shared) {
  const unsigned bits = bits_of_digit(request);
  std::optional<SelectPlan> plan = plan_slots(request, bits, shared / kCounterBytes >> bits);
  if (!plan) {
    throw InternalError("plan_select: too little shared memory");
  }
  plan->shared_bytes = shared;
  plan->streams = streams_of(request.problem, 1, request.limits);
  return *plan;
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
  // A single run, or few of them, are read sooner by select_whole and others. So are long runs, if
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
  // Two blocks of a multiprocessor at least: one counts while the other selects.
  const int64_t half = limits.shared_per_sm / 2 - kDeclaredBytesOfSelect - kReservedBytes;
  const int64_t room = std::min(half, limits.shared_per_block - kDeclaredBytesOfSelect) - kept;
  const int64_t tables = cluster > 1 ? 2 : 1; // and its sums over the cluster
  const Digits digits = request.digits(bits);
  const unsigned of_first = digits.at(0).counters(), of_slot = digits.at(1).counters();
  if (room < tables * kCounterBytes * (of_first + kSpareCounters)) {
    return std::nullopt;
  }
  std::optional<SelectPlan> plan =
      plan_slots(request, bits, room / (tables * kCounterBytes) / of_slot);
  if (!plan) {
    return std::nullopt;
  }
  const auto in_vec16s = [](unsigned words) { return (words + 3) / 4 * 4; };
  const unsigned counters = std::max(of_first, plan->slots * of_slot);
  plan->spanned = {
      cluster, static_cast<unsigned>(plan->group), in_vec16s(counters),
      tables > 1 ? in_vec16s(counters) : 0};
  plan->shared_bytes =
      kCounterBytes * (int64_t{plan->spanned.table_words} + plan->spanned.sum_words) + kept;
  plan->layout = SelectLayout::kSpans;
  plan->keeps = keeps;
  plan->threads = kThreadsOfSpans;
  plan->spans = spans_of(problem, cluster);
  plan->blocks = request.channels * cluster;
  plan->counters = 0;
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
SelectPlan plan_streams(const SelectRequest& request) {
  SelectPlan plan = plan_table(request, request.limits.shared_per_block - kDeclaredBytesOfSelect);
  plan.layout = SelectLayout::kStreams;
  plan.threads = threads_of_select_streams(request.element_bytes);
  plan.blocks = request.channels * plan.streams.chunks;
  return plan;
}

/// The same for channels that lie in short runs, as those of images do: all blocks read across runs.
std::optional<SelectPlan> plan_streams_of_spans(const SelectRequest& request) {
  const int64_t rows = request.rows;
  const Extent& run = request.problem.rows[2];
  if (run.size == rows || run.stride != 1 || run.size >= kMostRunOfStreamedSpans ||
      rows < kRowsToStreamSpans || rows >= kMaxRows || request.bytes() < kBytesToStreamSpans ||
      request.channels >= kManyChannelsOfSm * request.limits.sm_count) {
    return std::nullopt;
  }
  SelectPlan plan = plan_streams(request);
  plan.across_spans = true;
  plan.spans = spans_of(request.problem, plan.streams.chunks);
  return plan;
}

/// All blocks read each channel, for one q of long channels: a sample narrows the search.
SelectPlan plan_sampled(const SelectRequest& request) {
  SelectPlan plan = plan_streams(request);
  plan.layout = SelectLayout::kSampled;
  plan.sample = kSampleSize;
  plan.room = static_cast<unsigned>(plan.shared_bytes / kCounterBytes) - kSpareCounters;
  plan.passes = passes_of_sampled(request.element_bytes, plan.room);
  plan.counters = plan.room + kSpareCounters + kCountersBesideWindow;
  return plan;
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
  // Two blocks of a multiprocessor: one counts while the other selects.
  const int64_t half = limits.shared_per_sm / 2 - kDeclaredBytesOfSelect - kReservedBytes;
  SelectPlan plan =
      plan_table(request, std::min(half, limits.shared_per_block - kDeclaredBytesOfSelect));
  plan.layout = SelectLayout::kWhole;
  plan.threads = kThreadsOfWhole;
  plan.blocks = channels;
  plan.streams.set_share(rows);
  return plan;
}

/// Channels whose digits are counted in any layout: by a cluster, a block or all blocks.
SelectPlan plan_digits(const SelectRequest& request) {
  for (const auto plan_some : {plan_streams_of_spans, plan_spans, plan_whole}) {
    if (const auto found = plan_some(request)) {
      return *found;
    }
  }
  return takes_sample(request) ? plan_sampled(request) : plan_streams(request);
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
  plan.halves = channels > 1 && plan.counter_bytes(channels) > kMaxBytesOfSelectCounters;
  return plan;
}

} // namespace histo::cuda
