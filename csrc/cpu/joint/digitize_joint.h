// Digitizing elements of several coordinates to the slots of their joint bins.
#pragma once

#include <memory>

#include "core/joint.h"
#include "cpu/digitize/digitize.h"

namespace histo::cpu {

/// `slots` is what slot_type_of gives for the joint slots. The problem outlives the digitization.
std::unique_ptr<Digitization> digitize_joint(
    const Problem& problem, const JointAxes& axes, ElementType slots);

} // namespace histo::cpu
