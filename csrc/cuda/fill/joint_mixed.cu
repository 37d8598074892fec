// Joint histograms of two coordinates of different types. Frequent ones have kernels of their own: the
// types of others are known when a kernel runs.
#include "cuda/fill/joint_streams.cuh"

namespace histo::cuda {
namespace {

/// Whether there is a kernel for the types of both; starts it.
bool starts_own_kernel(const JointCall& call, const Launch& launch) {
  const ElementType first = call.problem.type, second = call.problem.operand(1).type;
  const auto start = [&](auto of_first, auto of_second) {
    using First = Typed<typename decltype(of_first)::type, 4>;
    using Second = Typed<typename decltype(of_second)::type, 4>;
    start_joint<Separate<First, Second>, 2, kFewThreadsOfJoint>(call, launch);
    return true;
  };
  if (first == ElementType::kFloat32 && second == ElementType::kBFloat16) {
    return start(TypeTag<float>{}, TypeTag<BFloat16>{});
  }
  if (first == ElementType::kBFloat16 && second == ElementType::kFloat32) {
    return start(TypeTag<BFloat16>{}, TypeTag<float>{});
  }
  if (first == ElementType::kFloat32 && second == ElementType::kFloat16) {
    return start(TypeTag<float>{}, TypeTag<Float16>{});
  }
  if (first == ElementType::kFloat16 && second == ElementType::kFloat32) {
    return start(TypeTag<Float16>{}, TypeTag<float>{});
  }
  return false;
}

} // namespace

void fill_mixed_pairs(const JointCall& call, const Launch& launch) {
  using Float = Untyped<float>;
  using Whole = Untyped<int64_t>;
  if (call.plan.types == JointTypes::kWide) {
    return start_joint<Separate<Untyped<double>, Untyped<double>>, 1, kFewestThreadsOfJoint>(
        call, launch);
  }
  if (starts_own_kernel(call, launch)) {
    return;
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
