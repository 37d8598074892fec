// Values of 16 bits parted by their top bit, on processors that pack what a mask says of a vector.
// Each part is then counted in a half of the counters, which the first-level cache holds.
#pragma once

#include <cstdint>

#include "tuning.h"

namespace histo::cpu {

/// What a part takes: whole vectors are stored, and so some behind its end.
constexpr int64_t kPartElements = tuning::kPartedElements + tuning::kLineBytes / 2;

struct Parts {
  uint16_t* lows; // each has room for kPartElements
  uint16_t* highs;
  int64_t num_lows = 0;
  int64_t num_highs = 0;
};

/// Parts at most kPartedElements values, up to the first block of kValuesAtOnce in which one has a
/// bit of `outside`, which has all bits above the lowest 16. Returns how many that were. Needs
/// packs_words().
template <class T>
int64_t part_values(const T* data, int64_t size, T outside, Parts& parts);

} // namespace histo::cpu
