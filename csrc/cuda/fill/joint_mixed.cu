// Joint histograms of two coordinates of types that are known when the kernel runs.
#include "cuda/fill/joint_streams.cuh"

namespace histo::cuda {

void fill_mixed_pairs(const JointCall& call, const Launch& launch) {
  using Float = Untyped<float>;
  using Whole = Untyped<int64_t>;
  if (call.plan.types == JointTypes::kWide) {
    return start_joint<Separate<Untyped<double>, Untyped<double>>, 1, kFewestThreadsOfJoint>(
        call, launch);
  }
  const bool first = is_integer(call.problem.type);
  if (is_integer(call.problem.operand(1).type)) {
    first ? start_joint<Separate<Whole, Whole>, 2, kFewestThreadsOfJoint>(call, launch)
          : start_joint<Separate<Float, Whole>, 2, kFewestThreadsOfJoint>(call, launch);
  } else {
    first ? start_joint<Separate<Whole, Float>, 2, kFewestThreadsOfJoint>(call, launch)
          : start_joint<Separate<Float, Float>, 4, kFewestThreadsOfJoint>(call, launch);
  }
}

} // namespace histo::cuda
