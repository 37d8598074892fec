#include "cuda/plan/extremes_plan.h"

#include <algorithm>
#include <iterator>

#include "cuda/plan/common.h"

namespace histo::cuda {
namespace {

constexpr int64_t kWarp = 32;

// Costs are bytes that the GPU reads in the same time.
constexpr int64_t kCostOfRound = 32 << 10;  // of an SM: waiting for the loads of a round
constexpr int64_t kCostOfKernel = 64 << 10; // of an SM: a second kernel
constexpr int64_t kCostOfLine = 20;         // a line of L1 for a lane
constexpr int64_t kCostOfElement = 2;       // comparing it alone
constexpr int64_t kCostOfLane = 24;         // setting it up, or comparing a vec16
constexpr int64_t kCostOfPart = 3;          // loading an element of a vec16 that is not full
// Lanes that read fast together.
constexpr int64_t kLanesOfSm = 1024;

/// The cost of a load by lanes whose elements are so many bytes apart.
int64_t cost_of_lanes(int64_t stride_bytes) {
  return kCostOfLine * std::min(stride_bytes, kLineBytes) / kLineBytes;
}

/// The lanes of a channel: few enough that each has several loads in flight, and enough that all lanes
/// fill the GPU.
unsigned lanes_of(int64_t channels, int64_t size, const DeviceLimits& limits) {
  int64_t lanes = kWarp;
  while (lanes > 1 &&
         (lanes / 2 >= size || (lanes / 2 * kLoadsOfExtremes >= size &&
                                channels * lanes / 2 >= kLanesOfSm * limits.sm_count))) {
    lanes /= 2;
  }
  return static_cast<unsigned>(lanes);
}

/// Chunks of channels of `size` vec16s or rows, so that blocks fill the GPU about once.
Chunks chunks_of(int64_t channels, int64_t size, const DeviceLimits& limits) {
  const int64_t fill = kBlocksOfExtremes * limits.sm_count;
  const int64_t most = std::max<int64_t>(size / (kThreadsOfExtremes * kLoadsOfExtremes), 1);
  const bool of_warps = channels >= fill && size <= kMostLoadsOfWarp * kWarp;
  const int64_t wanted = std::clamp<int64_t>(fill / channels, 1, most);
  const int64_t share = ceil_div(size, wanted), of_channel = ceil_div(size, share);
  const unsigned lanes = of_warps ? lanes_of(channels, size, limits) : 0;
  return {of_channel, share, channels * of_channel, lanes};
}

/// Columns in stripes of up to a line, or more of wide words.
ChannelColumns narrow_columns_of(
    const Problem& problem, int64_t word_bytes, const DeviceLimits& limits) {
  unsigned log_words = 5;
  ChannelColumns in = columns_of(problem, word_bytes, log_words, kSetupBytes, limits);
  const int64_t of_word = word_bytes / bytes_of_type(problem.type);
  if (in.columns == in.channels && in.stripes == 1 && in.left == 0) {
    while (log_words > 0 && of_word << (log_words - 1) >= in.columns) {
      --log_words;
    }
    in = columns_of(problem, word_bytes, log_words, kSetupBytes, limits);
  }
  set_steps(in, kThreadsOfColumnExtremes);
  // Few columns have more threads for each than a table of counts could have.
  const int64_t of_place = (kThreadsOfColumnExtremes >> log_words) / in.places();
  in.steps = std::max(in.steps, static_cast<unsigned>(std::min(in.share, of_place)));
  return in;
}

std::optional<ExtremesPlan> plan_columns(const Problem& problem, const DeviceLimits& limits) {
  const int64_t least = bytes_of_word(bytes_of_type(problem.type));
  for (const int64_t word : {kMostBytesOfWord, least}) {
    if (are_columns(problem, word) || (word == least && are_general_columns(problem))) {
      const ChannelColumns in = narrow_columns_of(problem, word, limits);
      return ExtremesPlan{in, in.chunks * (in.columns / in.channels)};
    }
  }
  return std::nullopt;
}

ExtremesPlan plan_teams(const Problem& problem, const DeviceLimits& limits) {
  const int64_t channels = problem.num_channels();
  if (const auto in = vec16s_of(problem)) {
    const Chunks chunks = chunks_of(channels, in->vec16s(), limits);
    return {ChunkedVec16s{*in, chunks}, chunks.of_channel};
  }
  const Chunks chunks = chunks_of(channels, problem.num_rows(), limits);
  return {ChunkedStreams{streams_of(problem, 1, limits), chunks}, chunks.of_channel};
}

ExtremesPlan plan_short(const Problem& problem) {
  ChannelWords in{};
  std::copy(std::begin(problem.channels), std::end(problem.channels), in.channels);
  std::copy(std::begin(problem.rows), std::end(problem.rows), in.rows);
  std::stable_sort(std::begin(in.rows), std::end(in.rows), [](const Extent& a, const Extent& b) {
    return a.size < b.size;
  });
  const int64_t bytes = bytes_of_type(problem.type), word = bytes_of_word(bytes);
  in.are_words = bytes < word && in.channels[1].stride == 1 && !stripes_of(problem, word, 0).loose;
  in.words = in.channels[1].size / (in.are_words ? word / bytes : 1);
  return {in, 1};
}

int64_t elements_of(const Problem& problem) {
  return problem.num_channels() * problem.num_rows();
}

int64_t cost_of(const ChunkedVec16s& in, const Problem& problem, const DeviceLimits&) {
  const int64_t elements = kVec16Bytes / bytes_of_type(problem.type);
  const int64_t of_vec16 = kCostOfLane + (in.vec16s.aligned ? 0 : elements * kCostOfPart);
  return problem.num_channels() * (kCostOfLane + in.vec16s.vec16s() * of_vec16);
}

int64_t cost_of(const ChunkedStreams& in, const Problem& problem, const DeviceLimits&) {
  const int64_t bytes = bytes_of_type(problem.type);
  const int64_t lanes = in.chunks.of_warps() ? in.chunks.lanes : kThreadsOfExtremes;
  const int64_t of_element =
      std::max({bytes, kCostOfElement, cost_of_lanes(problem.rows[2].stride * bytes)});
  return in.chunks.count * lanes * kCostOfLane + elements_of(problem) * of_element;
}

int64_t cost_of(const ChannelColumns& in, const Problem& problem, const DeviceLimits& limits) {
  const int64_t bytes = bytes_of_type(problem.type);
  const int64_t of_block =
      in.share * in.places() * in.width(static_cast<unsigned>(bytes)) * bytes + kSetupBytes;
  return ceil_div(in.blocks(), limits.sm_count) * limits.sm_count * of_block;
}

int64_t cost_of(const ChannelWords& in, const Problem& problem, const DeviceLimits& limits) {
  const int64_t bytes = bytes_of_type(problem.type);
  const int64_t stride = in.channels[1].size == 1 ? in.channels[0].stride : in.channels[1].stride;
  const int64_t of_element =
      std::max({bytes, in.are_words ? 1 : kCostOfElement, cost_of_lanes(stride * bytes)});
  const int64_t rounds = in.places() * ceil_div(in.rows[2].size, rows_of_round(bytes));
  return std::max(elements_of(problem) * of_element, rounds * kCostOfRound * limits.sm_count);
}

int64_t cost_of(const CountedBytes&, const Problem&, const DeviceLimits&) {
  throw InternalError("cost_of: not a layout that is chosen by cost");
}

int64_t cost_of(const ExtremesPlan& plan, const Problem& problem, const DeviceLimits& limits) {
  const int64_t of_second = plan.parts > 1 ? kCostOfKernel * limits.sm_count : 0;
  return of_second +
         std::visit([&](const auto& in) { return cost_of(in, problem, limits); }, plan.layout);
}

} // namespace

ExtremesPlan plan_extremes(const Problem& problem, const DeviceLimits& limits) {
  const auto columns = plan_columns(problem, limits);
  const ExtremesPlan teams = plan_teams(problem, limits);
  const ExtremesPlan plan = columns ? *columns : teams;
  const ExtremesPlan of_short = plan_short(problem);
  if (cost_of(of_short, problem, limits) < cost_of(plan, problem, limits)) {
    return of_short;
  }
  if (!std::holds_alternative<ChunkedVec16s>(plan.layout) && bytes_of_type(problem.type) == 1 &&
      problem.num_channels() <= kMostChannelsToCount) {
    return {CountedBytes{}, 1};
  }
  // The cost of strided reading is a rough estimate, so it must be much lower.
  const bool is_clear =
      kFifthsOfStrided * cost_of(teams, problem, limits) < 5 * cost_of(plan, problem, limits);
  return is_clear ? teams : plan;
}

} // namespace histo::cuda
