// The elements of a panel as searches take them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/numbers.h"
#include "core/problem.h"
#include "cpu/digitize/search.h"
#include "cpu/run_widest.h"
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
  /// Calls f(searched values, slots) for the elements [first, first + size): once, if they lie in
  /// memory as searches take them; otherwise for copied parts, one after another.
  template <class Out, class F>
  void visit(int64_t first, int64_t size, Out* slots, const F& f) const {
    if constexpr (kIsSearched) {
      const bool is_one_run = outer.size == 1 || outer.stride == inner.size * inner.stride;
      if (is_one_run && is_searched_stride<T>(inner.stride)) {
        return f(Searched<T>{data + first * inner.stride, size, inner.stride}, slots);
      }
    }
    Staged values[tuning::kSearched];
    for (int64_t done = 0; done < size; done += tuning::kSearched) {
      const int64_t part = std::min(tuning::kSearched, size - done);
      stage(first + done, part, values);
      f(Searched<Staged>{values, part}, slots + done);
    }
  }

 private:
  static constexpr bool kIs16Bits = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;
  /// Whether searches convert the elements.
  static constexpr bool kIsSearched =
      std::is_same_v<T, Compared> || (kIs16Bits && std::is_same_v<Compared, float>);
  /// Processors without AVX-512 convert integers of 32 bits in vectors, not those of 64.
  static constexpr bool kFitsInt32 = std::numeric_limits<int32_t>::min() <= Number<T>::kFirst &&
                                     Number<T>::kLast <= std::numeric_limits<int32_t>::max();
  using Exact =
      std::conditional_t<!Number<T>::kIsFloat && kFitsInt32, int32_t, typename Number<T>::Wide>;
  using Staged = std::conditional_t<kIsSearched, T, Compared>;

  void stage(int64_t first, int64_t size, Staged* values) const {
    int64_t i = first % inner.size;
    const T* line = data + first / inner.size * outer.stride;
    for (Staged* end = values + size; values < end; line += outer.stride, i = 0) {
      const int64_t run = std::min(inner.size - i, static_cast<int64_t>(end - values));
      copy(line + i * inner.stride, run, values);
      values += run;
    }
  }
  void copy(const T* from, int64_t size, Staged* to) const {
    if constexpr (kIsSearched) {
      constexpr int64_t kMinCopied = 8; // fewer take longer than in a loop
      if (inner.stride == 1 && size >= kMinCopied) {
        std::copy_n(from, size, to);
        return;
      }
    }
    // Loops of a constant stride become vectors: coordinates or channels that lie side by side.
    switch (inner.stride) {
      case 1:
        return copy_every<1>(from, size, to);
      case 2:
        return copy_every<2>(from, size, to);
      case 3:
        return copy_every<3>(from, size, to);
      case 4:
        return copy_every<4>(from, size, to);
      default:
        return copy_every<0>(from, size, to);
    }
  }
  /// Copies every kStride'th element. 0: the stride is that of the inner loop.
  template <int64_t kStride>
  void copy_every(const T* from, int64_t size, Staged* to) const {
    const int64_t stride = kStride > 0 ? kStride : inner.stride;
    run_widest([=]() __attribute__((always_inline)) {
      for (int64_t i = 0; i < size; ++i) {
        if constexpr (kIsSearched) {
          to[i] = from[i * stride];
        } else {
          to[i] = static_cast<Compared>(static_cast<Exact>(Number<T>::wide(from[i * stride])));
        }
      }
    });
  }
};

} // namespace histo::cpu
