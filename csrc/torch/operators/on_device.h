// Calls of kernels on the device of a tensor.
#pragma once

#include <mutex>

#include <torch/csrc/stable/accelerator.h>

#include "cuda/launch.h"
#include "cuda/machine.h"
#include "torch/arguments.h"

namespace histo {

/// Asking takes longer than a small histogram, so a device is asked once.
inline cuda::DeviceLimits limits_of(int index) {
  constexpr int kMaxDevices = 64;
  static cuda::DeviceLimits devices[kMaxDevices];
  static std::once_flag asked[kMaxDevices];
  if (index >= kMaxDevices) {
    return cuda::device_limits(index);
  }
  std::call_once(asked[index], [&] { devices[index] = cuda::device_limits(index); });
  return devices[index];
}

/// Calls f with a launch on the device of `like` and the stream that is current there.
template <class F>
void on_device(const Tensor& like, const F& f) {
  const int32_t device = like.get_device_index();
  const torch::stable::accelerator::DeviceGuard guard(device);
  void* stream = nullptr;
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(device, &stream));
  Workspace workspace(like);
  f(cuda::Launch{static_cast<cudaStream_t>(stream), limits_of(device), workspace});
}

} // namespace histo
