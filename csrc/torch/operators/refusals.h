// Errors for tensors that no kernel takes.
#pragma once

#include <stdexcept>
#include <string>

#include <torch/csrc/stable/library.h>

#include "torch/arguments.h"

namespace histo {

[[noreturn]] inline void fail_without_cuda(const char* op) {
  fail(
      std::string(op) +
      ": got a CUDA tensor, but no CUDA kernels are loaded; build torch_histo with the CUDA "
      "Toolkit (TORCH_HISTO_CUDA=1 pip install --no-build-isolation .) and use a CUDA build of "
      "torch");
}

/// torch.ops makes an undefined tensor of None.
inline const Tensor& defined(const char* op, const char* argument, const Tensor& tensor) {
  if (!tensor.defined()) {
    fail(std::string(op) + ": " + argument + " must be a torch.Tensor, got None");
  }
  return tensor;
}

[[noreturn]] inline void fail_nested(const char* op, const char* argument) {
  fail(
      std::string(op) + ": " + argument +
      " must be a dense tensor, got a nested one: pass the tensors of its unbind()");
}

/// Registers the answer of weighted and of joint operators to nested tensors.
void refuse_nested_weights(torch::stable::detail::StableLibrary& m);
void refuse_nested_joint(torch::stable::detail::StableLibrary& m);

/// The message of what `check` throws, or an empty string.
template <class Check>
std::string error_of(const Check& check) {
  try {
    check();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

} // namespace histo
