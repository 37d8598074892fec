#include "cpu/count/indices.h"

#include <algorithm>

#include "cpu/run_widest.h"

namespace histo::cpu {

template <class T>
void make_indices(const T* patterns, int64_t size, int64_t own_bins, uint32_t* indices) {
  const auto most = static_cast<uint32_t>(own_bins + 1);
  run_widest([=]() __attribute__((always_inline)) {
    const uint32_t limit = most; // a copy: stores to indices could change the captured one
    for (int64_t i = 0; i < size; ++i) {
      auto index = static_cast<uint32_t>(patterns[i]) + 1; // or 0 for the largest of 32 bits
      if constexpr (sizeof(T) == 8) {
        index = patterns[i] < limit ? index : 0;
      }
      // Compilers may load a pattern for each of its uses, and another thread may write in between.
      // So the limit is applied last, after all comparisons.
      indices[i] = std::min(index, limit);
    }
  });
}

template void make_indices(const uint16_t*, int64_t, int64_t, uint32_t*);
template void make_indices(const uint32_t*, int64_t, int64_t, uint32_t*);
template void make_indices(const uint64_t*, int64_t, int64_t, uint32_t*);

} // namespace histo::cpu
