// How channels are copied, so that each is one run.
#pragma once

#include <optional>

#include "core/problem.h"

namespace histo::cuda {

struct GatherShape {
  int64_t channels;   // that there is room for
  int64_t step;       // elements from one channel of the copy to the next
  unsigned of_word;   // neighbouring channels that are read together
  unsigned log_words; // of a row that a block reads

  int64_t bytes(int64_t element_bytes) const {
    return channels * step * element_bytes;
  }
};

/// The shape of a copy of all channels.
GatherShape gather_shape_of(const Problem& problem);

/// The same, if the channels are copied before all else: they lie side by side with gaps between
/// them, so no layout can load whole words. Small inputs stay in L2, so a copy gains nothing; large
/// ones would need too much memory.
std::optional<GatherShape> plan_copy(const Problem& problem);

/// The same problem, of the copy.
Problem problem_of_copy(const Problem& problem, const GatherShape& shape, const void* copy);

} // namespace histo::cuda
