// The quantiles between the two values of each, in one kernel.
#include "cuda/pdl.cuh"
#include "cuda/policy_select.h"
#include "cuda/select/interpolate.h"

namespace histo::cuda {
namespace {

/// torch.lerp, whose sums and products the compiler joins in this way.
__device__ __forceinline__ float between(float below, float above, float weight) {
  const float step = above - below;
  return fabsf(weight) < 0.5f ? fmaf(weight, step, below) : fmaf(-step, 1 - weight, above);
}
__device__ __forceinline__ double between(double below, double above, double weight) {
  const double step = above - below;
  return fabs(weight) < 0.5 ? fma(weight, step, below) : fma(-step, 1 - weight, above);
}

/// Rounds as torch does: a double becomes a float first.
template <class T, class Real>
__device__ __forceinline__ T rounded_to(Real real) {
  if constexpr (std::is_same_v<T, Float16>) {
    Float16 half{};
#ifdef __CUDA_ARCH__
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half.bits) : "f"(static_cast<float>(real)));
#endif
    return half;
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    const auto bits = bits_as<uint32_t>(static_cast<float>(real));
    const uint32_t to_even = 0x7fff + (bits >> 16 & 1);
    return {static_cast<uint16_t>(real != real ? 0x7fff : bits + to_even >> 16)};
  } else {
    return static_cast<T>(real);
  }
}

/// Quantiles of integers are doubles.
template <class T>
using QuantileOf = std::conditional_t<Number<T>::kIsFloat, T, double>;

template <class T, class Real>
__global__ __launch_bounds__(kThreadsOfInterpolation) void interpolate_kernel(
    const T* __restrict__ below,
    const T* __restrict__ above,
    const Real* __restrict__ weights,
    QuantileOf<T>* __restrict__ result,
    int64_t size) {
  const int64_t i = int64_t{blockIdx.x} * kThreadsOfInterpolation + threadIdx.x;
  wait_for_previous(); // it selects
  if (i < size) {
    const auto low = static_cast<Real>(Number<T>::wide(below[i]));
    const auto high = static_cast<Real>(Number<T>::wide(above[i]));
    result[i] = rounded_to<QuantileOf<T>>(between(low, high, weights[i]));
  }
}

} // namespace

bool can_interpolate(ElementType type) {
  return type != ElementType::kFloat8E4M3 && type != ElementType::kFloat8E5M2;
}

void interpolate(const Selection& selection, void* result, const Launch& launch) {
  const int64_t size = selection.num_q * selection.problem.num_channels();
  visit_number_type(selection.problem.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (Number<T>::kIsFloat && sizeof(T) == 1) {
      throw InternalError("interpolate: torch interpolates this type");
    } else {
      const auto run = [&](auto real) {
        using Real = decltype(real);
        start(
            launch, "interpolate", interpolate_kernel<T, Real>,
            LaunchShape{
                grid_of(ceil_div(size, kThreadsOfInterpolation)), kThreadsOfInterpolation, 0, 1,
                launch.limits.has_clusters()},
            static_cast<const T*>(selection.below), static_cast<const T*>(selection.above),
            static_cast<const Real*>(selection.weights), static_cast<QuantileOf<T>*>(result), size);
      };
      selection.float64_ranks ? run(double{}) : run(float{});
    }
  });
}

} // namespace histo::cuda
