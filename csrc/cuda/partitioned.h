// Counting one channel in more bins than shared memory holds: blocks own bins.
#pragma once

#include "launch.h"

namespace histo::cuda {

void count_partitioned(const Plan& plan, const Problem& problem, const Launch& launch);

} // namespace histo::cuda
