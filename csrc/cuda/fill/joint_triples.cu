// Joint histograms of three coordinates.
#include "cuda/fill/joint_streams.cuh"

namespace histo::cuda {

void fill_triples(const JointCall& call, const Launch& launch) {
  using Any = Untyped<double>;
  if (call.plan.types == JointTypes::kWide) {
    return start_joint<Separate<Any, Any, Any>, 1, kFewestThreadsOfJoint>(call, launch);
  }
  switch (call.problem.type) {
    case ElementType::kFloat32: {
      using Own = Typed<float, 4>;
      return start_joint<Separate<Own, Own, Own>, 1, kFewThreadsOfJoint>(call, launch);
    }
    case ElementType::kFloat64: {
      using Own = Typed<double, 2>;
      return start_joint<Separate<Own, Own, Own>, 1, kFewThreadsOfJoint>(call, launch);
    }
    default:
      no_kernel("joint_streams");
  }
}

} // namespace histo::cuda
