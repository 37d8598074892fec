#include "cuda/plan/stripes_plan.h"

#include <algorithm>

#include "cuda/plan/common.h"

namespace histo::cuda {
namespace {

constexpr int64_t kReserved = 4096; // of shared memory, for what kernels declare themselves

/// The blocks of a cluster: as many as let the GPU end soonest.
unsigned cluster_of(const ChannelColumns& in, int64_t blocks_of_sm, const DeviceLimits& limits) {
  const int64_t stripes = in.batches * in.stripes;
  unsigned best = 1;
  int64_t least_cost = INT64_MAX;
  for (unsigned size = 1; size <= (limits.has_clusters() ? kMaxCluster : 1); size *= 2) {
    const int64_t blocks = stripes * size;
    const int64_t bytes = ceil_div(in.rows, int64_t{size}) * in.places() * kLineBytes;
    const int64_t cost = ceil_div(blocks, int64_t{limits.sm_count}) * bytes +
                         ceil_div(blocks, blocks_of_sm * limits.sm_count) * kSetupBytesOfStripe;
    if (cost <= least_cost) {
      least_cost = cost;
      best = size;
    }
  }
  return best;
}

/// Sums of packed counters have 16 bits.
constexpr int64_t kMaxRowsOfPackedStripe = kMaxPacked16;

} // namespace

std::optional<SelectPlan> plan_stripes(
    const Problem& problem,
    int64_t element_bytes,
    int64_t num_q,
    const DeviceLimits& limits,
    SelectPlan plan) {
  const int64_t word_bytes = bytes_of_word(element_bytes);
  const int64_t rows = problem.num_rows();
  const auto in_words = [&](int64_t elements) {
    return elements * element_bytes % word_bytes == 0;
  };
  const bool in_one_loop = are_columns(problem, word_bytes) && in_words(problem.rows[2].stride) &&
                           in_words(problem.channels[1].size);
  if ((!in_one_loop && !are_general_columns(problem)) ||
      rows > (element_bytes == 2 ? kMaxRowsOfPackedStripe : kMaxRows - 1)) {
    return std::nullopt;
  }
  ChannelColumns in = stripes_of(problem, word_bytes, 5);
  const int64_t width = in.width(static_cast<unsigned>(element_bytes));
  if (static_cast<double>(in.columns) < kEnoughFill * static_cast<double>(in.stripes * width)) {
    return std::nullopt;
  }
  const int64_t q = std::min<int64_t>(num_q, kMaxTargets / kTargetsOfQ);
  const int64_t of_targets = q * kTargetsOfQ * width * (element_bytes + kCounterBytes);
  const int64_t shared = limits.shared_per_block - kReserved;
  const int64_t beside = of_targets + 2 * width * kCounterBytes + kLineBytes; // NaN's row
  const int64_t of_slot = width * element_bytes + kLineBytes * (16 + (1 << kBitsOfColumnDigit));
  const int64_t most = std::min<int64_t>((shared - beside) / of_slot, kMaxSlotsOfStripe);
  const int64_t bytes = problem.num_channels() * rows * element_bytes;
  plan.layout = SelectLayout::kStripes;
  plan.threads = kThreadsOfStripes;
  // Fewer q's at a time leave an SM room for more blocks. Large inputs need one on almost every SM.
  for (int64_t group = std::min(most / plan.values_of_q, q); group > 0;
       group = group > 1 ? (group + 1) / 2 : 0) {
    const int64_t slots = group * plan.values_of_q;
    plan.group = group;
    plan.slots = static_cast<unsigned>(slots);
    plan.stripe = {
        static_cast<unsigned>(q * kTargetsOfQ), static_cast<unsigned>(group * kTargetsOfQ),
        static_cast<unsigned>(slots)};
    plan.shared_bytes = beside + slots * of_slot;
    const int64_t fit = limits.shared_per_sm / (plan.shared_bytes + kReservedBytes);
    in.chunks = cluster_of(in, std::clamp<int64_t>(fit, 1, kBlocksOfStripes), limits);
    in.share = ceil_div(in.rows, int64_t{in.chunks});
    set_steps(in, plan.threads);
    plan.blocks = in.batches * in.stripes * in.chunks;
    plan.columns = in;
    if (20 * plan.blocks >= 19 * limits.sm_count || bytes <= kMostBytesOfFewStripes) {
      return plan;
    }
  }
  return std::nullopt;
}

} // namespace histo::cuda
