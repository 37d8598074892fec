// The operators on the CPU, and the answer to tensors of every other kind.
#include <stdexcept>
#include <string>
#include <vector>

#include <torch/csrc/stable/library.h>

#include "../arguments.h"
#include "kernels.h"

namespace histo {
namespace {

using torch::stable::Tensor;

template <class Binning>
Tensor run(const Call& call, const Binning& binning) {
  if (call.variant == Variant::kSequential) {
    cpu::sequential(call.problem, binning);
  } else {
    Workspace workspace(call.counts);
    cpu::count(call.problem, cpu::axis_of(call.problem.type, binning), workspace);
  }
  return call.counts;
}

Tensor channel_histogram(
    const Tensor& input, int64_t num_bins, std::vector<int64_t> dim, std::string variant) {
  return run(prepare_channel_histogram(input, num_bins, dim, variant), ValueBinning{num_bins});
}

Tensor text_histogram(const Tensor& text, std::string variant) {
  return run(prepare_text_histogram(text, variant), LetterBinning{});
}

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

std::string channel_histogram_error(
    std::string device,
    std::string dtype,
    std::string layout,
    bool contiguous,
    int64_t ndim,
    int64_t num_bins,
    std::vector<int64_t> dim,
    std::string variant) {
  return error_of([&] {
    check_channel_histogram({device, dtype, layout, contiguous, ndim}, num_bins, dim, variant);
  });
}

std::string text_histogram_error(
    std::string device,
    std::string dtype,
    std::string layout,
    bool contiguous,
    int64_t ndim,
    std::string variant) {
  return error_of(
      [&] { check_text_histogram({device, dtype, layout, contiguous, ndim}, variant); });
}

[[noreturn]] void fail_without_cuda(const char* op) {
  fail(
      std::string(op) +
      ": got a CUDA tensor, but no CUDA kernels are loaded; build torch_histo with the CUDA "
      "Toolkit (TORCH_HISTO_CUDA=1 pip install --no-build-isolation .) and use a CUDA build of "
      "torch");
}

/// torch.ops makes an undefined tensor of None.
const Tensor& defined(const char* op, const char* argument, const Tensor& tensor) {
  if (!tensor.defined()) {
    fail(std::string(op) + ": " + argument + " must be a torch.Tensor, got None");
  }
  return tensor;
}

// Tensors that no kernel is registered for end here: sparse, quantized, other
// devices, and CUDA without the CUDA library. The checks name what is wrong.
Tensor channel_histogram_elsewhere(
    const Tensor& input, int64_t num_bins, std::vector<int64_t> dim, std::string variant) {
  const Description description = describe(defined("channel_histogram", "input", input));
  check_channel_histogram(description, num_bins, dim, variant);
  fail_without_cuda("channel_histogram");
}

Tensor text_histogram_elsewhere(const Tensor& text, std::string variant) {
  check_text_histogram(describe(defined("text_histogram", "text", text)), variant);
  fail_without_cuda("text_histogram");
}

[[noreturn]] void fail_nested(const char* op, const char* argument) {
  fail(
      std::string(op) + ": " + argument +
      " must be a dense tensor, got a nested one: pass the tensors of its unbind()");
}

Tensor channel_histogram_nested(const Tensor&, int64_t, std::vector<int64_t>, std::string) {
  fail_nested("channel_histogram", "input");
}

Tensor text_histogram_nested(const Tensor&, std::string) {
  fail_nested("text_histogram", "text");
}

void refuse_nested(torch::stable::detail::StableLibrary& m) {
  m.impl("channel_histogram", TORCH_BOX(&channel_histogram_nested));
  m.impl("text_histogram", TORCH_BOX(&text_histogram_nested));
}

} // namespace
} // namespace histo

STABLE_TORCH_LIBRARY_IMPL(histo, CPU, m) {
  m.impl("channel_histogram", TORCH_BOX(&histo::channel_histogram));
  m.impl("text_histogram", TORCH_BOX(&histo::text_histogram));
}

STABLE_TORCH_LIBRARY_IMPL(histo, CompositeExplicitAutograd, m) {
  m.impl("channel_histogram", TORCH_BOX(&histo::channel_histogram_elsewhere));
  m.impl("text_histogram", TORCH_BOX(&histo::text_histogram_elsewhere));
  m.impl("_check_channel_histogram", TORCH_BOX(&histo::channel_histogram_error));
  m.impl("_check_text_histogram", TORCH_BOX(&histo::text_histogram_error));
}

// The first key takes both layouts, strided and jagged. The other two take tensors that were made
// in inference mode.
STABLE_TORCH_LIBRARY_IMPL(histo, AutogradNestedTensor, m) {
  histo::refuse_nested(m);
}
STABLE_TORCH_LIBRARY_IMPL(histo, NestedTensorCPU, m) {
  histo::refuse_nested(m);
}
STABLE_TORCH_LIBRARY_IMPL(histo, NestedTensorCUDA, m) {
  histo::refuse_nested(m);
}
