// The plan of SelectListed.
#include <algorithm>
#include <cmath>

#include "cuda/plan/common.h"
#include "cuda/plan/select_planners.h"

namespace histo::cuda {
namespace {

constexpr int64_t kSpareOfList = 32;

} // namespace

std::optional<SelectPlan> plan_listed(const SelectRequest& request) {
  const Problem& problem = request.problem;
  const DeviceLimits& limits = request.limits;
  const int64_t rows = request.rows, channels = request.channels, num_q = request.num_q;
  const int64_t element_bytes = request.element_bytes;
  if (element_bytes < 4 || rows < kRowsToList || request.bytes() < kBytesToList ||
      (num_q > 1 && element_bytes == 4 && channels > kMostChannelsOfLists) ||
      (!are_columns(problem, element_bytes) && !are_general_columns(problem))) {
    return std::nullopt;
  }
  SelectListed in{};
  in.sample = std::clamp(power_of_two_below(rows / kRowsPerSampled), kLeastListSample, kSampleSize);
  // The median has the longest list.
  const auto sample = static_cast<double>(in.sample);
  const double margin = kSampleDeviations * 0.5 / std::sqrt(sample) + kSampleMargin / sample;
  in.room =
      static_cast<int64_t>(kRoomOfList * 2 * margin * static_cast<double>(rows)) + kSpareOfList;
  const auto shared_of = [](int q) { return int64_t{kThreadsOfLists} * q * bytes_of_list(q); };
  const bool together = shared_of(kMostQOfLists) + kDeclaredBytes <= limits.shared_per_block;
  const int64_t most_lists = kMostBytesOfLists / (channels * in.room * element_bytes);
  in.group = together ? std::clamp(num_q, int64_t{1}, int64_t{kMostQOfLists}) : 1;
  if (in.room > kMostRoomOfList || most_lists < in.group) {
    return std::nullopt;
  }
  const int q = in.group == 1 ? 1 : kMostQOfLists;
  DeviceLimits at_once = limits;
  at_once.sm_count *= blocks_of_lists(q);
  in.columns = columns_of(problem, element_bytes, 5, kSetupBytes, at_once);
  set_steps(in.columns, kThreadsOfLists);
  in.streams = streams_of(problem, 1, limits);
  in.streams.set_share(rows); // a channel that is read again has one block
  in.digits = request.digits(kBitsOfDigit);
  return SelectPlan{in, in.columns.blocks(), kThreadsOfLists, shared_of(q)};
}

} // namespace histo::cuda
