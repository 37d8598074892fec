// Columns of bytes that are counted many at once, and the places of their counts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "tuning.h"

namespace histo::cpu {

struct ByteColumns {
  const uint8_t* data;
  int64_t columns;
  int64_t rows;
  int64_t stride;        // of the rows
  int64_t readable_rows; // those of the tile, and what follows
};

/// Whether each row waits for a page of its own where it is fetched.
constexpr bool are_far(int64_t stride) {
  return stride > tuning::kMaxNearStride;
}

/// 64 rows of up to 64 columns, as whole lines that are `stride` apart.
struct Lines {
  const uint8_t* data;
  int64_t stride;
};

/// A block of lines as it has to be copied: rows and columns that are not there are 0.
using FilledLines = uint8_t[tuning::kLineBytes * tuning::kLineBytes];

/// The lines of a tile from `row` and `column` on. They are read in place if they can be, with
/// anything behind the columns. Else they are copied.
inline Lines lines_of(const ByteColumns& tile, int64_t row, int64_t column, FilledLines& filled) {
  constexpr int64_t kLine = tuning::kLineBytes;
  const int64_t width = std::min(kLine, tile.columns - column);
  const int64_t rows = std::min(kLine, tile.rows - row);
  const uint8_t* data = tile.data + row * tile.stride + column;
  // The bytes behind the columns belong to other rows, or may not be read.
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

/// The place of the counts of some columns.
struct Histograms {
  int64_t* counts;
  int64_t num_bins; // they lie so far apart
  int64_t columns;
  int64_t values; // of those below
  bool add;
  bool past_caches; // where they are whole lines of memory

  /// Whether all of them are stored as whole lines that nobody has to read.
  bool are_lines() const {
    const auto places = reinterpret_cast<uintptr_t>(counts) | static_cast<uintptr_t>(num_bins * 8) |
                        static_cast<uintptr_t>(values * 8);
    return past_caches && !add && places % tuning::kLineBytes == 0;
  }
};

} // namespace histo::cpu
