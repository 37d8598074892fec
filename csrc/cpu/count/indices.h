// The indices of patterns in tables of counters. With many bins, an array of indices is made before
// they are counted. Index 0 counts nowhere; the index of a bin is one more than its number. A byte
// is its own index.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/axis.h"
#include "cpu/read_once.h"

namespace histo::cpu {

/// The index of one pattern.
template <class T>
struct IndexOf {
  static constexpr int64_t kFirst = sizeof(T) == 1 ? 0 : 1; // the index of bin 0
  int64_t own_bins;

  size_t operator()(T pattern) const {
    if constexpr (sizeof(T) == 1) {
      return pattern;
    } else {
      // The conversion is done once for all uses.
      const uint64_t wide = read_once(uint64_t{pattern});
      int64_t bin = wide < static_cast<uint64_t>(own_bins) ? static_cast<int64_t>(wide) : kNoBin;
      // Without this the compiler makes a branch, which data could make mispredicted.
      // Workaround gcc-12-no-branch: see docs/tuning.md.
      __asm__ volatile("" : "+r"(bin));
      return static_cast<size_t>(bin + 1);
    }
  }
};

/// indices[i] = patterns[i] + 1 where patterns[i] < own_bins, else 0 or own_bins + 1, which are no
/// bin's. own_bins < 2^31. Indices are in this range even if another thread changes patterns.
template <class T>
void make_indices(const T* patterns, int64_t size, int64_t own_bins, uint32_t* indices);

} // namespace histo::cpu
