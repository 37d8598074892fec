// The plan of kListed.
#pragma once

#include <optional>

#include "cuda/plan/select_plan.h"

namespace histo::cuda {

/// Long channels side by side, whose values near a quantile are listed. Two-byte types have only two
/// digits, which are counted sooner. `plan` has what all layouts share.
std::optional<SelectPlan> plan_listed(
    const Problem& problem,
    int64_t element_bytes,
    int64_t num_q,
    const DeviceLimits& limits,
    SelectPlan plan);

} // namespace histo::cuda
