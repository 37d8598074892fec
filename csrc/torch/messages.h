// The texts of errors.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace histo {

// The names of operators in errors.
constexpr std::string_view kChannelHistogram = "channel_histogram";
constexpr std::string_view kTextHistogram = "text_histogram";
constexpr std::string_view kHistogram = "histogram";
constexpr std::string_view kHistogramAdd = "histogram_add_";
constexpr std::string_view kWeightedHistogram = "weighted_histogram";
constexpr std::string_view kWeightedChannelHistogram = "weighted_channel_histogram";
constexpr std::string_view kJointHistogram = "joint_histogram";
constexpr std::string_view kWeightedJointHistogram = "weighted_joint_histogram";
constexpr std::string_view kJointIndex = "_joint_index";
constexpr std::string_view kSumOfDigits = "sum_of_digits";
constexpr std::string_view kNormalizeDigits = "normalize_digits";
constexpr std::string_view kFiniteRange = "finite_range";
constexpr std::string_view kUniformEdges = "uniform_edges";
constexpr std::string_view kQuantile = "quantile";
constexpr std::string_view kSummarize = "summarize";

template <class... Parts>
std::string join(const Parts&... parts) {
  std::string text;
  (text.append(parts), ...);
  return text;
}

inline std::string join_numbers(const std::vector<int64_t>& numbers) {
  std::string text;
  for (int64_t number : numbers) {
    text += (text.empty() ? "" : ", ") + std::to_string(number);
  }
  return "[" + text + "]";
}

/// A text of one line, however long it is and whatever is in it.
inline std::string quoted(std::string_view text) {
  constexpr size_t kShown = 40;
  std::string shown(text.substr(0, kShown));
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; }, '?');
  return join("'", shown, text.size() > kShown ? "..." : "", "'");
}

} // namespace histo
