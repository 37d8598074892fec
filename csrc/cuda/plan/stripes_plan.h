// The plan of kStripes.
#pragma once

#include <optional>

#include "cuda/plan/select_plan.h"

namespace histo::cuda {

/// Channels side by side whose digits are all counted in one kernel. None if a block has too little
/// room for them, or if all blocks together would leave the GPU idle.
/// `plan` has what all layouts share.
std::optional<SelectPlan> plan_stripes(
    const Problem& problem,
    int64_t element_bytes,
    int64_t num_q,
    const DeviceLimits& limits,
    SelectPlan plan);

} // namespace histo::cuda
