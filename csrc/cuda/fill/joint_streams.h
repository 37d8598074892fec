// Joint histograms of coordinates that follow each other in memory.
#pragma once

#include "cuda/launch.h"
#include "cuda/plan/joint_plan.h"

namespace histo::cuda {

/// What the kernels of a plan are given.
struct JointCall {
  const JointPlan& plan;
  const Problem& problem;
  const JointAxes& axes;
  void* workspace;
};

void count_joint_streams(
    const JointPlan& plan, const Problem& problem, const JointAxes& axes, const Launch& launch);

// The kernels of two coordinates of one type, of types that differ, of three, and of those that are
// interleaved.
void fill_pairs(const JointCall& call, const Launch& launch);
void fill_mixed_pairs(const JointCall& call, const Launch& launch);
void fill_triples(const JointCall& call, const Launch& launch);
void fill_interleaved(const JointCall& call, const Launch& launch);

} // namespace histo::cuda
