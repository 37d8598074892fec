// The plans of layouts of select/ that have files of their own.
#pragma once

#include <optional>

#include "cuda/plan/channels.h"
#include "cuda/plan/select_plan.h"

namespace histo::cuda {

/// Some q's of a problem, and the GPU. `values_of_q`: how many values of a q may differ.
struct SelectRequest {
  const Problem& problem;
  int64_t num_q;
  unsigned values_of_q;
  const DeviceLimits& limits;
  int64_t rows = problem.num_rows();
  int64_t channels = problem.num_channels();
  int64_t element_bytes = bytes_of_type(problem.type);

  int64_t bytes() const {
    return channels * rows * element_bytes;
  }
  /// The digits of keys, of so many bits each.
  Digits digits(unsigned bits) const {
    return {static_cast<unsigned>(8 * element_bytes), bits};
  }
};

/// Long channels side by side, whose values near a quantile are listed. Two-byte types
/// have only two digits: counting them is faster.
std::optional<SelectPlan> plan_listed(const SelectRequest& request);

/// Channels side by side whose digits are all counted in one kernel. None if a block has too little
/// room for them, or if all blocks together would leave the GPU idle.
std::optional<SelectPlan> plan_stripes(const SelectRequest& request);

} // namespace histo::cuda
