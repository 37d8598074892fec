#include "cuda/machine.h"

#include <algorithm>

namespace histo::cuda {
namespace {

template <bool kDependent, class T>
__device__ void add_ones(T* address, int64_t additions) {
  T one = 1;
  for (int64_t i = 0; i < additions; ++i) {
    if (kDependent) {
      // The next operand comes from the last answer, which is never this large.
      one = atomicAdd(address, one) == static_cast<T>(-1) ? 2 : 1;
    } else {
      atomicAdd(address, one);
    }
  }
}

template <bool kDependent>
__global__ void add_kernel(AddPlan plan, unsigned long long* result, unsigned long long* counter) {
  __shared__ uint32_t shared_counter;
  if (threadIdx.x == 0) {
    shared_counter = 0;
  }
  __syncthreads();
  const bool adds = threadIdx.x % 32 < plan.lanes;
  const long long start = clock64();
  if (adds && plan.shared) {
    add_ones<kDependent>(&shared_counter, plan.additions);
  } else if (adds) {
    add_ones<kDependent>(counter, plan.additions);
  }
  const long long stop = clock64();
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    result[0] = static_cast<unsigned long long>(stop - start);
  }
  __syncthreads();
  if (plan.shared && threadIdx.x == 0) {
    atomicAdd(counter, static_cast<unsigned long long>(shared_counter));
  }
}

} // namespace

DeviceLimits device_limits(int device) {
  const auto attribute = [device](cudaDeviceAttr which) {
    int value = 0;
    check(cudaDeviceGetAttribute(&value, which, device), "reading the device's limits");
    return value;
  };
  const int capability = 10 * attribute(cudaDevAttrComputeCapabilityMajor) +
                         attribute(cudaDevAttrComputeCapabilityMinor);
  // Built for older GPUs, kernels do without what this one can do (__CUDA_ARCH__).
  cudaFuncAttributes code{};
  check(cudaFuncGetAttributes(&code, add_kernel<false>), "reading what the kernels are built for");
  return {
      attribute(cudaDevAttrMultiProcessorCount), attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin),
      attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor),
      std::min(capability, code.ptxVersion)};
}

void add_to_one_address(const AddPlan& plan, unsigned long long* result, const Launch& launch) {
  fill_zero(launch, result, 2 * int64_t{sizeof(unsigned long long)});
  start(
      launch, "add_to_one_address", plan.dependent ? add_kernel<true> : add_kernel<false>,
      grid_of(plan.blocks), dim3(static_cast<unsigned>(plan.threads)), 0, plan, result, result + 1);
}

} // namespace histo::cuda
