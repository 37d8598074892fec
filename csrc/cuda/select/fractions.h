// The fractions of quantiles, in memory of a GPU.
#pragma once

#include <cstdint>

#include "cuda/launch.h"

namespace histo::cuda {

/// Writes numbers of the host. They travel as arguments of a kernel, so that nothing is copied.
void write_fractions(const double* fractions, int64_t size, double* to, const Launch& launch);

} // namespace histo::cuda
