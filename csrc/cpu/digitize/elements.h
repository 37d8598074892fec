// The elements of a panel as searches take them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/numbers.h"
#include "core/problem.h"
#include "cpu/tuning.h"

namespace histo::cpu {

/// Elements in the order in which their slots are stored. Searches compare them as `Compared`.
template <class T, class Compared>
struct OrderedElements {
  const T* data;
  Extent outer;
  Extent inner;

  int64_t size() const {
    return outer.size * inner.size;
  }
  /// Calls f(values, size, slots) for the elements [first, first + size): once, if they lie in
  /// memory as searches take them; otherwise for converted parts, one after another.
  template <class Out, class F>
  void visit(int64_t first, int64_t size, Out* slots, const F& f) const {
    constexpr bool kIs16Bits = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;
    if constexpr (std::is_same_v<T, Compared> || (kIs16Bits && std::is_same_v<Compared, float>)) {
      if (inner.stride == 1 && (outer.size == 1 || outer.stride == inner.size)) {
        return f(data + first, size, slots);
      }
    }
    Compared values[tuning::kSearched];
    for (int64_t done = 0; done < size; done += tuning::kSearched) {
      const int64_t part = std::min(tuning::kSearched, size - done);
      load(first + done, part, values);
      f(values, part, slots + done);
    }
  }

 private:
  void load(int64_t first, int64_t size, Compared* values) const {
    int64_t i = first % inner.size;
    const T* line = data + first / inner.size * outer.stride;
    for (Compared* end = values + size; values < end; line += outer.stride, i = 0) {
      for (; i < inner.size && values < end; ++i) {
        *values++ = static_cast<Compared>(Number<T>::wide(line[i * inner.stride]));
      }
    }
  }
};

} // namespace histo::cpu
