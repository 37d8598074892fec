#include "cuda/plan/warp_sums_plan.h"

#include <algorithm>
#include <iterator>

#include "cuda/plan/common.h"

namespace histo::cuda {
namespace {

constexpr int64_t kWarp = 32;
constexpr int64_t kMostBins = 1 << 15; // slots in lists have 16 bits
constexpr int64_t kListBytes = 2;      // of a slot
constexpr unsigned kWordsOfSum = sum_layout(ElementType::kFloat32).digits;

/// All bits of a sum of float32, and the flags behind them.
WordTable table_of_warp() {
  WordTable table{kWordsOfSum + 1, 0, 0, 0, 0, false, 0, 0};
  table.set_copies(0);
  return table;
}

bool takes(const Problem& problem, const Edges& edges, const DeviceLimits& limits) {
  return edges.shared && edges.bins < kMostBins && value_kind(problem.type) != WordKind::kInteger &&
         word_kind(problem.operand(1).type) == WordKind::kFloat32 && problem.num_rows() > 0 &&
         problem.num_rows() <= kMostRowsOfWarpSums &&
         problem.num_channels() >= kFewestWarpSumsOfSm * limits.sm_count;
}

} // namespace

std::optional<WarpSumsPlan> plan_warp_sums(
    const Problem& problem, const Edges& edges, const DeviceLimits& limits) {
  if (!takes(problem, edges, limits)) {
    return std::nullopt;
  }
  WarpSumsPlan plan{};
  WarpSums& in = plan.in;
  const View& weights = problem.operand(1);
  std::copy(std::begin(problem.channels), std::end(problem.channels), in.channels);
  std::copy(std::begin(problem.rows), std::end(problem.rows), in.rows);
  std::copy(std::begin(weights.channels), std::end(weights.channels), in.weight_channels);
  std::copy(std::begin(weights.rows), std::end(weights.rows), in.weight_rows);
  in.num_channels = problem.num_channels();
  in.num_rows = static_cast<unsigned>(problem.num_rows());
  in.slots = static_cast<unsigned>(edges.bins) + 3;
  in.buckets = kFewestBucketsOfWeights;
  in.table = table_of_warp();
  const int64_t wide_bytes = value_kind(problem.type) == WordKind::kFloat32 ? 4 : 8;
  const int64_t of_axis = words_of(int64_t{in.slots}, 0u) * wide_bytes + in.buckets * 4;
  const int64_t room = limits.shared_per_block - kDeclaredBytes - of_axis;
  const int64_t of_warp = in.slots * (int64_t{in.table.slot_bytes} + kListBytes);
  const int64_t fitting = room / of_warp;
  if (fitting < kFewestWarpsOfWarpSums) {
    return std::nullopt;
  }
  const int64_t share = ceil_div(in.num_channels, limits.sm_count);
  const int64_t warps = std::min({fitting, kMostWarpsOfWarpSums, share});
  plan.threads = static_cast<int>(warps * kWarp);
  plan.shared_bytes = of_axis + in.words_of_tables(static_cast<unsigned>(warps)) * int64_t{4} +
                      warps * in.slots * kListBytes;
  plan.blocks = std::min<int64_t>(ceil_div(in.num_channels, warps), limits.sm_count);
  return plan;
}

Facts facts_of(const WarpSumsPlan& plan) {
  return {{"blocks", plan.blocks}, {"shared_bytes", plan.shared_bytes},
          {"chunks", 1},           {"words", plan.in.table.words - 1},
          {"copies", 1},           {"has_all_digits", true},
          {"layout", "warps"},     {"parts", 1}};
}

} // namespace histo::cuda
