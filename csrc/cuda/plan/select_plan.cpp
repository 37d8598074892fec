#include "cuda/plan/select_plan.h"

#include <algorithm>

#include "cuda/plan/common.h"

namespace histo::cuda {
namespace {

constexpr int64_t kReserved = 4096; // of shared memory, for what kernels declare themselves
constexpr int64_t kLanes = 32;

void plan_sort(const Problem& problem, int64_t element_bytes, SelectPlan& plan) {
  plan.layout = SelectLayout::kSort;
  plan.sorted = 2;
  while (plan.sorted < problem.num_rows()) {
    plan.sorted *= 2;
  }
  const int64_t bytes = plan.sorted * element_bytes;
  const int64_t warps = std::clamp<int64_t>(kSharedOfSort / bytes, 1, kMostThreadsOfSort / kLanes);
  plan.threads = static_cast<int>(warps * kLanes);
  plan.blocks = ceil_div(problem.num_channels(), warps);
  plan.shared_bytes = warps * bytes;
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
  plan.group = std::min<int64_t>({slots, kMaxTargets, kTargetsOfQ * num_q}) / kTargetsOfQ;
  plan.slots = static_cast<unsigned>(plan.group * kTargetsOfQ);
  for (unsigned pass = 0; pass < plan.digits.count(); ++pass) {
    const KeyDigit digit = plan.digits.at(pass);
    plan.counters += digit.first ? digit.counters() : plan.slots * digit.counters();
  }
  return plan.group > 0;
}

bool plan_columns(
    const Problem& problem,
    int64_t element_bytes,
    int64_t num_q,
    const DeviceLimits& limits,
    SelectPlan& plan) {
  const int64_t word_bytes = bytes_of_word(element_bytes);
  if (!are_columns(problem, word_bytes)) {
    return false;
  }
  plan.digits = {static_cast<unsigned>(8 * element_bytes), kBitsOfColumnDigit};
  const int64_t columns = word_bytes / element_bytes * kLanes;
  // A slot of a column has counters and a prefix; the first digit has a counter more.
  const int64_t slot_bytes =
      columns * ((int64_t{1} << kBitsOfColumnDigit) * kCounterBytes + element_bytes);
  const int64_t free = limits.shared_per_block - kReserved - columns * kCounterBytes;
  if (!plan_slots(free / slot_bytes, num_q, plan)) {
    return false;
  }
  plan.layout = SelectLayout::kColumns;
  plan.threads = kThreadsOfSelectColumns;
  plan.shared_bytes = plan.slots * slot_bytes + columns * kCounterBytes;
  plan.columns = columns_of(problem, word_bytes, 5, kSetupBytes + 3 * plan.shared_bytes, limits);
  plan.blocks = plan.columns.batches * plan.columns.stripes * plan.columns.chunks;
  return true;
}

/// A table as large as the shared memory allows: what slots leave free has copies.
void plan_table(int64_t shared, int64_t num_q, SelectPlan& plan) {
  plan.shared_bytes = shared;
  if (!plan_slots(shared / kCounterBytes >> plan.digits.bits, num_q, plan)) {
    throw InternalError("plan_select: too little shared memory");
  }
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

/// Changes a plan of kStreams to kSampled if there is one q, and the channels are long.
void plan_sampled(const Problem& problem, int64_t element_bytes, int64_t num_q, SelectPlan& plan) {
  const int64_t bytes = problem.num_channels() * problem.num_rows() * element_bytes;
  if (num_q > 1 || problem.num_rows() < kRowsToSample || bytes < kBytesToSample) {
    return;
  }
  plan.layout = SelectLayout::kSampled;
  plan.sample = kSampleSize;
  plan.room = static_cast<unsigned>(plan.shared_bytes / kCounterBytes) - kSpareCounters;
  plan.passes = passes_of_sampled(element_bytes, plan.room);
  plan.counters = plan.room + kSpareCounters + kCountersBesideWindow;
}

SelectPlan plan_layout(const Problem& problem, int64_t num_q, const DeviceLimits& limits) {
  const int64_t element_bytes = bytes_of_type(problem.type);
  const int64_t rows = problem.num_rows(), channels = problem.num_channels();
  SelectPlan plan{};
  plan.overlaps = limits.has_clusters();
  if (rows <= kMostRowsOfSort) {
    plan_sort(problem, element_bytes, plan);
    return plan;
  }
  if (element_bytes == 1) {
    plan_patterns(problem, plan);
    return plan;
  }
  SelectPlan columns = plan;
  if (plan_columns(problem, element_bytes, num_q, limits, columns)) {
    return columns;
  }
  plan.digits = {
      static_cast<unsigned>(8 * element_bytes),
      element_bytes == 2 ? kBitsOfColumnDigit : kBitsOfDigit};
  plan.copies = kMaxLogCopies;
  const bool fills = channels >= limits.sm_count && rows <= kMostCachedRows;
  const bool many = channels >= kManyChannelsOfSm * limits.sm_count && rows < kMaxRows;
  if (rows <= kMostRowsOfOneBlock || fills || many) {
    plan.layout = SelectLayout::kWhole;
    plan.threads = kThreadsOfWhole;
    plan.blocks = channels;
    plan.streams = streams_of(problem, 1, limits);
    plan.streams.share = rows;
    plan.streams.chunks = 1;
    plan.copies = rows <= kMostRowsOfOneBlock ? 2 : kMaxLogCopies;
    // Two blocks of a multiprocessor: one counts while the other selects.
    const int64_t half = limits.shared_per_sm / 2 - kReserved - 1024;
    plan_table(std::min(half, limits.shared_per_block - kReserved), num_q, plan);
    return plan;
  }
  plan.layout = SelectLayout::kStreams;
  plan.threads = threads_of_select_streams(element_bytes);
  plan.streams = streams_of(problem, 1, limits);
  plan.blocks = channels * plan.streams.chunks;
  plan_table(limits.shared_per_block - kReserved, num_q, plan);
  plan_sampled(problem, element_bytes, num_q, plan);
  return plan;
}

} // namespace

SelectPlan plan_select(const Problem& problem, int64_t num_q, const DeviceLimits& limits) {
  SelectPlan plan = plan_layout(problem, num_q, limits);
  const int64_t channels = problem.num_channels();
  plan.halves = channels > 1 && plan.counter_bytes(channels) > kMaxBytesOfSelectCounters;
  return plan;
}

} // namespace histo::cuda
