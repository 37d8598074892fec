#include "cuda/plan/short_plan.h"

#include <algorithm>

#include "core/numbers.h"
#include "cuda/plan/channels.h"
#include "cuda/plan/common.h"
#include "cuda/plan/edge_plan.h"

namespace histo::cuda {
namespace {

constexpr int64_t kWarp = 32;

/// Bytes of a table of bins, with counters for what is outside and for NaN.
int64_t table_bytes(int64_t bins) {
  return ceil_div((bins + 3) * kCounterBytes, kVec16Bytes) * kVec16Bytes;
}

/// Sets the shared memory, `fixed` bytes and that of all teams, and the blocks. None if it does not
/// fit.
std::optional<ShortPlan> with_grid(ShortPlan plan, int64_t fixed, const DeviceLimits& limits) {
  plan.shared_bytes = fixed + plan.teams() * plan.in.team_bytes;
  if (plan.shared_bytes + kReservedBytes > limits.shared_per_block) {
    return std::nullopt;
  }
  plan.blocks = blocks_of_short(
      plan.in.vec16s.num_channels(), plan.teams(), plan.threads, plan.shared_bytes, limits);
  return plan;
}

std::optional<ShortPlan> plan_teams(
    const Problem& problem, int64_t bins, const DeviceLimits& limits) {
  const auto vec16s = vec16s_of(problem);
  if (!vec16s || problem.adds || vec16s->vec16s() * kVec16Bytes > kMostBytesOfShort ||
      bins >= kMostBinsOfShort) {
    return std::nullopt;
  }
  // Tiny runs of bytes would fill few places of their vec16s.
  if (bytes_of_type(problem.type) == 1 &&
      vec16s->vec16s() * kVec16Bytes > kMostPlacesPerByte * problem.num_rows()) {
    return std::nullopt;
  }
  ShortPlan plan{};
  plan.in.vec16s = *vec16s;
  plan.in.bins = static_cast<unsigned>(bins);
  plan.of_warps = bins <= kMostBinsOfWarp && fills_with_warps(*vec16s, limits);
  return plan;
}

} // namespace

int threads_of_short_block(int64_t vec16s, int64_t channels, const DeviceLimits& limits) {
  const int64_t of_thread = channels < limits.sm_count ? 1 : kVec16sOfThread;
  int threads = kFewestThreadsOfShort;
  while (threads < kMostThreadsOfShort && threads * of_thread < vec16s) {
    threads *= 2;
  }
  return threads;
}

bool fills_with_warps(const ChannelVec16s& in, const DeviceLimits& limits) {
  // A block for each channel keeps all SMs busy with fewer channels.
  return in.vec16s() * kVec16Bytes <= kMostBytesOfWarp &&
         in.num_channels() >= kWarpsOfSmToFill * limits.sm_count;
}

int64_t blocks_of_short(
    int64_t channels,
    int64_t teams,
    int threads,
    int64_t shared_bytes,
    const DeviceLimits& limits) {
  const int64_t by_shared = limits.shared_per_sm / (shared_bytes + 2 * kReservedBytes);
  const int64_t of_sm =
      std::clamp<int64_t>(kThreadsOfSmOfShort / threads, 1, std::max<int64_t>(by_shared, 1));
  return std::min(ceil_div(channels, teams), of_sm * limits.sm_count);
}

std::optional<ShortPlan> plan_own_ranges(
    const Problem& problem, int64_t bins, const DeviceLimits& limits) {
  auto plan = plan_teams(problem, bins, limits);
  if (!plan) {
    return plan;
  }
  const int64_t vec16s = plan->in.vec16s.vec16s(), channels = plan->in.vec16s.num_channels();
  plan->threads =
      plan->of_warps ? kFewestThreadsOfShort : threads_of_short_block(vec16s, channels, limits);
  plan->in.team_bytes = static_cast<unsigned>(vec16s * kVec16Bytes + table_bytes(bins));
  return with_grid(*plan, 0, limits);
}

std::optional<ShortPlan> plan_short_channels(
    const Problem& problem, int64_t bins, int64_t edge_bytes, const DeviceLimits& limits) {
  auto plan = plan_teams(problem, bins, limits);
  // Integers have thresholds of 8 bytes. There is no kernel for them, nor for floats of one byte.
  const bool is_float = !is_integer(problem.type) && problem.type != ElementType::kFloat64 &&
                        bytes_of_type(problem.type) > 1;
  if (!plan || !is_float || bins > kMostSharedBinsOfShort) {
    return std::nullopt;
  }
  const int64_t fixed =
      words_of(bins + 3, 0) * int64_t{sizeof(float)} + kBucketsOfShort * 4 + edge_bytes;
  const int64_t table = table_bytes(bins);
  plan->in.buckets = kBucketsOfShort;
  plan->in.team_bytes = static_cast<unsigned>(table);
  if (plan->of_warps) {
    // Warps share the thresholds of their block.
    int64_t most = 0;
    for (const int64_t blocks : {2, 1}) {
      const int64_t room =
          std::min(limits.shared_per_sm / blocks - kReservedBytes, limits.shared_per_block) -
          kReservedBytes - fixed;
      const int64_t warps = std::min(room / table, kThreadsOfSmOfShort / blocks / kWarp);
      if (warps * blocks > most) {
        most = warps * blocks;
        plan->threads = static_cast<int>(warps * kWarp);
      }
    }
    if (most == 0) {
      return std::nullopt;
    }
  } else {
    const ChannelVec16s& in = plan->in.vec16s;
    plan->threads = threads_of_short_block(in.vec16s(), in.num_channels(), limits);
  }
  return with_grid(*plan, fixed, limits);
}

} // namespace histo::cuda
