// Joint histograms of two coordinates, of the types that are most frequent.
#include "cuda/fill/joint_streams.cuh"

namespace histo::cuda {

void fill_pairs(const JointCall& call, const Launch& launch) {
  if (call.plan.types == JointTypes::kIds) {
    return start_joint<Separate<Typed<int64_t, 4>, Typed<float, 4>>, 1>(call, launch);
  }
  switch (call.problem.type) {
    case ElementType::kFloat32:
      return start_joint<Separate<Typed<float, 4>, Typed<float, 4>>, 2>(call, launch);
    case ElementType::kBFloat16:
      return start_joint<Separate<Typed<BFloat16, 8>, Typed<BFloat16, 8>>, 2, kFewThreadsOfJoint>(
          call, launch);
    case ElementType::kFloat16:
      return start_joint<Separate<Typed<Float16, 8>, Typed<Float16, 8>>, 2, kFewThreadsOfJoint>(
          call, launch);
    case ElementType::kUInt8:
      return start_joint<
          Separate<Typed<uint8_t, 16>, Typed<uint8_t, 16>>, 1, kFewestThreadsOfJoint>(call, launch);
    case ElementType::kInt32:
      return start_joint<Separate<Typed<int32_t, 4>, Typed<int32_t, 4>>, 2, kFewThreadsOfJoint>(
          call, launch);
    case ElementType::kFloat64:
      return start_joint<Separate<Typed<double, 2>, Typed<double, 2>>, 2>(call, launch);
    default:
      no_kernel("joint_streams");
  }
}

} // namespace histo::cuda
