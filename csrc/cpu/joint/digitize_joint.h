// Digitizing elements of several coordinates to the slots of their joint bins.
#pragma once

#include <memory>

#include "core/joint.h"
#include "cpu/digitize/digitize.h"

namespace histo::cpu {

/// The type of `num_slots` slots, and one more that counts nowhere.
ElementType joint_slot_type(int64_t num_slots);

/// `slots` is at least as wide as joint_slot_type. The problem outlives the digitization.
std::unique_ptr<Digitization> digitize_joint(
    const Problem& problem, const JointAxes& axes, ElementType slots);

} // namespace histo::cpu
