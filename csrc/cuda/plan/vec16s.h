// The vec16s of channels whose rows follow each other in runs.
#pragma once

#include <optional>

#include "cuda/plan/layouts.h"

namespace histo::cuda {

/// The rows of a channel are runs of elements without gaps. A run is read in aligned vec16s, from
/// the one that holds its first element on. So it has the same number of them wherever it begins,
/// and the first and the last may hold less than 16 bytes of it, or none.
struct ChannelVec16s {
  Extent channels[2]; // strides in elements, of all loops
  Extent runs[2];
  int64_t run; // elements
  int64_t vec16s_of_run;
  bool aligned; // all vec16s are full

  HISTO_HOST_DEVICE int64_t num_channels() const {
    return channels[0].size * channels[1].size;
  }
  HISTO_HOST_DEVICE int64_t rows() const {
    return runs[0].size * runs[1].size * run;
  }
  HISTO_HOST_DEVICE int64_t vec16s() const {
    return runs[0].size * runs[1].size * vec16s_of_run;
  }
};

/// None if rows do not lie in runs.
std::optional<ChannelVec16s> vec16s_of(const Problem& problem);

} // namespace histo::cuda
