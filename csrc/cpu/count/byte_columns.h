// Columns of bytes that are counted many at once, and where their counts go.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "cpu/tuning.h"

namespace histo::cpu {

struct ByteColumns {
  const uint8_t* data;
  int64_t columns;
  int64_t rows;
  int64_t stride;        // of the rows
  int64_t readable_rows; // those of the tile, and what follows
};

/// Whether rows are so far apart that each prefetch of a row waits for another page.
constexpr bool are_far(int64_t stride) {
  return stride > tuning::kMaxNearStride;
}

/// 64 rows of up to 64 columns, as whole lines that are `stride` apart.
struct LineBlock {
  const uint8_t* data;
  int64_t stride;
};

/// A copy of a block of lines. Rows and columns that the tile does not have are 0.
using FilledLines = uint8_t[tuning::kLineBytes * tuning::kLineBytes];

/// The lines of a tile from `row` and `column` on. They are not copied if the bytes behind the
/// columns may be read, too.
inline LineBlock line_block_of(
    const ByteColumns& tile, int64_t row, int64_t column, FilledLines& filled) {
  constexpr int64_t kLine = tuning::kLineBytes;
  const int64_t width = std::min(kLine, tile.columns - column);
  const int64_t rows = std::min(kLine, tile.rows - row);
  const uint8_t* data = tile.data + row * tile.stride + column;
  // The bytes behind the columns belong to other rows, or lie outside the input.
  const int64_t behind = (tile.readable_rows - row - kLine) * tile.stride;
  if (rows == kLine && behind >= kLine - width) {
    return {data, tile.stride};
  }
  std::memset(filled, 0, sizeof filled);
  for (int64_t i = 0; i < rows; ++i) {
    std::memcpy(filled + i * kLine, data + i * tile.stride, static_cast<size_t>(width));
  }
  return {filled, kLine};
}

/// Where the counts of some columns go.
struct Histograms {
  int64_t* counts;
  int64_t num_bins; // counters from one histogram to the next
  int64_t columns;
  int64_t values; // only these first values are bins
  bool add;
  bool past_caches; // stores go past the caches, if are_lines()

  /// Whether all counts are stored as whole lines, which need not be read before.
  bool are_lines() const {
    const auto multiples = reinterpret_cast<uintptr_t>(counts) |
                           static_cast<uintptr_t>(num_bins * 8) |
                           static_cast<uintptr_t>(values * 8);
    return past_caches && !add && multiples % tuning::kLineBytes == 0;
  }
};

} // namespace histo::cpu
