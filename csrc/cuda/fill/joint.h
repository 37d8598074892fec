// Joint histograms on a GPU. The first operands of a problem are the coordinates, and num_bins are
// all joint bins of a channel.
#pragma once

#include "core/joint.h"
#include "cuda/launch.h"

namespace histo::cuda {

void count_joint(const Problem& problem, const JointAxes& axes, const Launch& launch);

/// Writes to each element of `index` its joint bin, or -1. The last operand is the view of the
/// index.
void write_joint_index(
    const Problem& problem, const JointAxes& axes, int64_t* index, const Launch& launch);

} // namespace histo::cuda
