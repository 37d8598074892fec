// Rules that hold for every plan, whatever its tuning.
#pragma once

#include <string>

#include "cuda/plan/layouts.h"

namespace histo {

/// The rules that this plan breaks, or an empty text.
std::string violations(
    const Problem& problem, const cuda::CountPlan& plan, const cuda::DeviceLimits& limits);

/// Words for what the kernels are asked to do, such as "rows 16-bytes halves reduces".
std::string path_of(const cuda::CountPlan& plan);

} // namespace histo
