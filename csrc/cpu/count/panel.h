// Panels: rectangles of the input. Channels and rows are cut into them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/problem.h"
#include "cpu/tuning.h"

namespace histo::cpu {

/// Whether channels lie side by side: the stride between them is less than that between rows.
inline bool are_side_by_side(const Extent& channels, const Extent& rows) {
  return channels.size > 1 && channels.stride < rows.stride;
}

/// `channels x rows` elements.
template <class T>
struct InputPanel {
  const T* data;
  Extent channels;
  Extent rows;

  InputPanel from(int64_t row) const {
    return {data + row * rows.stride, channels, {rows.size - row, rows.stride}};
  }
  InputPanel first(int64_t size) const {
    return {data, channels, {size, rows.stride}};
  }
};

/// The elements that are loaded next. A line of them is fetched for each line that is counted.
struct Ahead {
  const char* line;
  int64_t step;

  void fetch() {
    __builtin_prefetch(line);
    // If the length of a row is no multiple of a line, rows begin and end within lines.
    __builtin_prefetch(line + tuning::kLineBytes - 1);
    line += step;
  }
};

/// The rows of a panel from `row` on, or the elements after the last row.
template <class T>
Ahead rows_after(const InputPanel<T>& panel, int64_t row, const T* next) {
  const T* first = row < panel.rows.size ? panel.from(row).data : next;
  return {
      reinterpret_cast<const char*>(first), panel.rows.stride * static_cast<int64_t>(sizeof(T))};
}

/// The offset of a step of nested loops, in elements.
template <size_t kLoops>
int64_t offset_of(const Extent (&loops)[kLoops], int64_t step) {
  int64_t offset = 0;
  for (size_t loop = kLoops - 1; loop > 0; --loop) {
    offset += step % loops[loop].size * loops[loop].stride;
    step /= loops[loop].size;
  }
  return offset + step * loops[0].stride;
}

/// Calls f(first, run) for every stretch of [begin, end) that stays within one
/// step of the outer loops: `first` is its offset in elements.
template <size_t kLoops, class F>
void for_each_run(const Extent (&loops)[kLoops], int64_t begin, int64_t end, const F& f) {
  const Extent& inner = loops[kLoops - 1];
  for (int64_t i = begin; i < end;) {
    const int64_t size = std::min(inner.size - i % inner.size, end - i);
    f(offset_of(loops, i), Extent{size, inner.stride});
    i += size;
  }
}

} // namespace histo::cpu
