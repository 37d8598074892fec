// Joint histograms of coordinates that lie side by side.
#include "cuda/fill/joint_streams.cuh"

namespace histo::cuda {

void fill_interleaved(const JointCall& call, const Launch& launch) {
  const bool are_pairs = call.axes.count == 2;
  switch (call.problem.type) {
    case ElementType::kFloat32:
      return are_pairs ? start_joint<SideBySide<float, 2, 4>, 2, kFewThreadsOfJoint>(call, launch)
                       : start_joint<SideBySide<float, 3, 4>, 1, kFewThreadsOfJoint>(call, launch);
    case ElementType::kFloat64:
      return are_pairs ? start_joint<SideBySide<double, 2, 2>, 2, kFewThreadsOfJoint>(call, launch)
                       : start_joint<SideBySide<double, 3, 2>, 1, kFewThreadsOfJoint>(call, launch);
    case ElementType::kFloat16:
      return start_joint<SideBySide<Float16, 2, 8>, 2, kFewThreadsOfJoint>(call, launch);
    case ElementType::kBFloat16:
      return start_joint<SideBySide<BFloat16, 2, 8>, 2, kFewThreadsOfJoint>(call, launch);
    default:
      no_kernel("joint_streams");
  }
}

} // namespace histo::cuda
