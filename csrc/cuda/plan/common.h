// Helpers that the plans of several layouts share.
#pragma once

#include <algorithm>
#include <optional>

#include "cuda/plan/layouts.h"
#include "cuda/policy.h"

namespace histo::cuda {

constexpr int64_t kCounterBytes = 4;
constexpr int64_t kMaxRows = int64_t{1} << 31;
constexpr int64_t kMaxOf32Bits = 0xffffffff;
/// Loops compute distances in 32 bits, so this is the longest distance in bytes.
constexpr int64_t kMaxDistance = kMaxOf32Bits;

/// A problem, the entries of its values, and the GPU.
struct Request {
  const Problem& problem;
  const TableEntries& entries;
  const DeviceLimits& limits;
};

inline Extent in_bytes(const Extent& loop, int64_t element_bytes) {
  return {loop.size, loop.stride * element_bytes};
}

/// Whether channels lie one after another, and not side by side.
inline bool one_after_another(const Problem& problem) {
  const Extent& channels = problem.channels[1];
  const Extent& rows = problem.rows[2];
  return channels.size == 1 || (rows.size > 1 && rows.stride < channels.stride);
}

inline int64_t address_of(const Problem& problem) {
  return static_cast<int64_t>(reinterpret_cast<uintptr_t>(problem.data));
}

/// The byte behind the last element.
inline const uint8_t* end_of(const Problem& problem, int64_t element_bytes) {
  int64_t last = 0; // the highest offset
  for (const Extent& loop : problem.channels) {
    last += (loop.size - 1) * loop.stride;
  }
  for (const Extent& loop : problem.rows) {
    last += (loop.size - 1) * loop.stride;
  }
  return static_cast<const uint8_t*>(problem.data) + (last + 1) * element_bytes;
}

inline int64_t bytes_of(const Request& request) {
  return request.problem.num_channels() * request.problem.num_rows() * request.entries.bytes;
}

inline unsigned log2_of(int64_t power) {
  unsigned log = 0;
  while (int64_t{1} << log < power) {
    ++log;
  }
  return log;
}

inline int64_t power_of_two_below(int64_t n) {
  int64_t power = 1;
  while (power * 2 <= n) {
    power *= 2;
  }
  return power;
}

/// An entry for each value that has a bin. Entries that share the 32 banks may be mixed with each
/// other, so a table of wider types has whole groups of such entries.
inline int64_t entries_of_table(const TableEntries& entries, int64_t entry_words) {
  const int64_t group = entries.bytes == 1 ? 1 : std::max<int64_t>(kBanks / entry_words, 1);
  return ceil_div(entries.values, group) * group;
}

/// Whether gaps between rows are read with the rows: if a gap is no longer than a row, or lies in
/// the lines of the rows and is not much longer. 64-bit elements leave out gaps of whole sectors,
/// because there are few elements to count.
inline bool is_little(int64_t gap, int64_t channels, int64_t size) {
  return (gap <= channels || (gap <= 3 * channels && (channels + gap) * size <= kReadWithRows)) &&
         (size < 8 || gap * size < kSectorBytes);
}

} // namespace histo::cuda
