#include "cuda/plan/extremes_plan.h"

#include <algorithm>

#include "cuda/plan/common.h"

namespace histo::cuda {
namespace {

constexpr int64_t kWarp = 32;

/// Chunks of `size` vec16s or rows, so that blocks fill the GPU about once.
void divide(ExtremesPlan& plan, int64_t channels, int64_t size, const DeviceLimits& limits) {
  plan.threads = kThreadsOfExtremes;
  const int64_t fill = kBlocksOfExtremes * limits.sm_count;
  const int64_t most = std::max<int64_t>(size / (plan.threads * kLoadsOfExtremes), 1);
  plan.of_warps = channels >= fill && size <= kMostLoadsOfWarp * kWarp;
  const int64_t wanted = std::clamp<int64_t>(fill / channels, 1, most);
  plan.share = ceil_div(size, wanted);
  plan.chunks = ceil_div(size, plan.share);
  const int64_t teams = plan.of_warps ? plan.threads / kWarp : 1;
  plan.blocks = ceil_div(channels * plan.chunks, teams);
}

std::optional<ExtremesPlan> plan_columns(const Problem& problem, const DeviceLimits& limits) {
  ExtremesPlan plan{};
  const int64_t least = bytes_of_word(bytes_of_type(problem.type));
  for (const int64_t word : {kMostBytesOfWord, least}) {
    if (are_columns(problem, word) || (word == least && are_general_columns(problem))) {
      plan.layout = ExtremesLayout::kColumns;
      plan.columns = columns_of(problem, word, 5, kSetupBytes, limits);
      plan.threads = kThreadsOfColumnExtremes;
      set_steps(plan.columns, plan.threads);
      plan.chunks = plan.columns.chunks;
      plan.share = plan.columns.share;
      plan.blocks = plan.columns.batches * plan.columns.stripes * plan.chunks;
      return plan;
    }
  }
  return std::nullopt;
}

} // namespace

ExtremesPlan plan_extremes(const Problem& problem, const DeviceLimits& limits) {
  if (const auto columns = plan_columns(problem, limits)) {
    return *columns;
  }
  ExtremesPlan plan{};
  if (const auto vec16s = vec16s_of(problem)) {
    plan.layout = ExtremesLayout::kVec16s;
    plan.vec16s = *vec16s;
    divide(plan, problem.num_channels(), vec16s->vec16s(), limits);
    return plan;
  }
  plan.layout = ExtremesLayout::kStrided;
  plan.streams = streams_of(problem, 1, limits);
  divide(plan, problem.num_channels(), problem.num_rows(), limits);
  return plan;
}

} // namespace histo::cuda
