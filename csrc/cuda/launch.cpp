#include "cuda/launch.h"

#include <stdexcept>
#include <string>

namespace histo::cuda {

namespace {

const char* advice(cudaError_t error) {
  switch (error) {
    case cudaErrorInsufficientDriver:
      return ": update the driver, or build torch_histo with a CUDA Toolkit for this driver";
    case cudaErrorNoKernelImageForDevice:
      return ": build torch_histo for this GPU (TORCH_CUDA_ARCH_LIST)";
    default:
      return "";
  }
}

} // namespace

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) {
    throw std::runtime_error(
        std::string("histo: ") + what + " failed: " + cudaGetErrorString(error) + advice(error));
  }
}

void no_kernel(const char* name) {
  throw std::logic_error(std::string("histo: no kernel ") + name + " for this plan");
}

dim3 grid_of(int64_t blocks) {
  constexpr int64_t kMaxBlocks = (int64_t{1} << 31) - 1;
  if (blocks > kMaxBlocks) {
    throw std::runtime_error(
        "histo: the input needs " + std::to_string(blocks) + " blocks, a grid holds " +
        std::to_string(kMaxBlocks));
  }
  return dim3(static_cast<unsigned>(blocks));
}

} // namespace histo::cuda
