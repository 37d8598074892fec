// The plan of SelectStripes.
#include <algorithm>

#include "cuda/plan/common.h"
#include "cuda/plan/select_planners.h"

namespace histo::cuda {
namespace {

/// The blocks of a cluster: as many as let the GPU end soonest, if each has an SM for itself.
unsigned cluster_of(const ChannelColumns& in, const DeviceLimits& limits) {
  const int64_t stripes = in.batches * in.stripes;
  unsigned best = 1;
  int64_t least_cost = INT64_MAX;
  for (unsigned size = 1; size <= (limits.has_clusters() ? kMaxCluster : 1); size *= 2) {
    const double sms = (size > 2 ? kSmsInClusters : 1) * limits.sm_count;
    const int64_t at_once = static_cast<int64_t>(sms) / size;
    if (at_once == 0) { // such a cluster never finds room
      break;
    }
    const int64_t bytes = ceil_div(in.rows, int64_t{size}) * in.places() * kLineBytes;
    const int64_t cost = ceil_div(stripes, at_once) * (bytes + kSetupBytesOfStripe);
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

std::optional<SelectPlan> plan_stripes(const SelectRequest& request) {
  const Problem& problem = request.problem;
  const DeviceLimits& limits = request.limits;
  const int64_t element_bytes = request.element_bytes, word_bytes = bytes_of_word(element_bytes);
  const auto in_words = [&](int64_t elements) {
    return elements * element_bytes % word_bytes == 0;
  };
  const bool in_one_loop = are_columns(problem, word_bytes) && in_words(problem.rows[2].stride) &&
                           in_words(problem.channels[1].size);
  if (element_bytes == 1 || (!in_one_loop && !are_general_columns(problem)) ||
      request.rows > (element_bytes == 2 ? kMaxRowsOfPackedStripe : kMaxRows - 1)) {
    return std::nullopt;
  }
  ChannelColumns in = stripes_of(problem, word_bytes, 5);
  if (in.fill(element_bytes) < kEnoughFill) {
    return std::nullopt;
  }
  const int64_t width = in.width(static_cast<unsigned>(element_bytes));
  const int64_t q = std::min<int64_t>(request.num_q, kMaxTargets / kTargetsOfQ);
  const int64_t of_targets = q * kTargetsOfQ * width * (element_bytes + kCounterBytes);
  const int64_t shared = limits.shared_per_block - kDeclaredBytesOfSelect;
  const int64_t of_digits = kLineBytes << kBitsOfColumnDigit; // a word each
  const int64_t beside =
      of_targets + 3 * width * kCounterBytes + (element_bytes == 2 ? of_digits : 0);
  const int64_t of_slot = width * element_bytes + kLineBytes * 16 + of_digits;
  const int64_t most = std::min<int64_t>((shared - beside) / of_slot, kMostSlotsOfColumn);
  if (most < 1) {
    return std::nullopt;
  }
  const auto slots = static_cast<unsigned>(std::min(most, q * request.values_of_q));
  const StripeShape shape{static_cast<unsigned>(q * kTargetsOfQ), slots};
  const int64_t shared_bytes = beside + slots * of_slot;
  // With many stripes an SM has two blocks of half the threads: one counts while the other waits.
  const bool two_of_sm = in.batches * in.stripes > limits.sm_count &&
                         2 * (shared_bytes + kReservedBytes) <= limits.shared_per_sm;
  const int threads = two_of_sm ? kThreadsOfStripes / 2 : kThreadsOfStripes;
  in.chunks = cluster_of(in, limits);
  in.share = ceil_div(in.rows, int64_t{in.chunks});
  set_steps(in, threads);
  const bool many =
      static_cast<double>(in.blocks()) >= enough_blocks_of_stripes(element_bytes) * limits.sm_count;
  if (!many && request.bytes() > kMostBytesOfFewStripes) {
    return std::nullopt;
  }
  return SelectPlan{SelectStripes{in, shape}, in.blocks(), threads, shared_bytes};
}

} // namespace histo::cuda
