// Where values lie, as a sample of each channel tells.
#pragma once

#include "cuda/select/select.h"

namespace histo::cuda {

/// Values of a sample, near the quantiles of some q's. The quantiles lie between them almost surely.
struct SampleEnds {
  const void* values; // [q][below, above][channel], in the type of the data
  const double* q;    // [q][below, above]: 0 and 1 if there may be none
};

/// Takes `size` elements of each channel. Neighbouring threads take those of neighbouring channels
/// if these lie `side_by_side`. Zeroes `words` words at `zeroed`, which are fewer than the elements.
SampleEnds find_sample_ends(
    const SelectionPart& part,
    int64_t size,
    bool side_by_side,
    unsigned long long* zeroed,
    int64_t words,
    const Launch& launch);

} // namespace histo::cuda
