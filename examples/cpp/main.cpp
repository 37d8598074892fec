// Counts from C++, without Python: an operator through PyTorch's dispatcher, and an
// AOTInductor package that contains it.
//
//   count LIBRARY_FOLDER PACKAGE.pt2 [cpu|cuda]
//
// LIBRARY_FOLDER is where _C.so lies, and _cuda.so for CUDA.
#include <dlfcn.h>

#include <cstdint>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include <ATen/Functions.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

namespace {

/// The library registers its operators and kernels as it loads.
void load(const std::string& library) {
  if (dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    throw std::runtime_error(dlerror());
  }
}

at::Tensor channel_histogram(const at::Tensor& input, int64_t num_bins, at::IntArrayRef dim) {
  using Signature = at::Tensor(const at::Tensor&, int64_t, at::IntArrayRef, c10::string_view);
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("histo::channel_histogram", "")
                             .typed<Signature>();
  return op.call(input, num_bins, dim, "auto");
}

/// The counts that are expected: one loop over uint8 [length, channels] on the CPU.
at::Tensor counts_by_loop(const at::Tensor& input) {
  const auto values = input.accessor<uint8_t, 2>();
  at::Tensor counts = at::zeros({input.size(1), 256}, at::kLong);
  auto bins = counts.accessor<int64_t, 2>();
  for (int64_t row = 0; row < input.size(0); ++row) {
    for (int64_t channel = 0; channel < input.size(1); ++channel) {
      ++bins[channel][values[row][channel]];
    }
  }
  return counts;
}

void require_equal(const at::Tensor& counts, const at::Tensor& expected, const char* what) {
  if (!at::equal(counts.cpu(), expected)) {
    throw std::runtime_error(std::string(what) + " counted wrong");
  }
  std::cout << what << ": " << counts.sizes() << " counts, all right\n";
}

} // namespace

int main(int argc, char** argv) {
  if (argc < 3 || argc > 4) {
    std::cerr << "usage: count LIBRARY_FOLDER PACKAGE.pt2 [cpu|cuda]\n";
    return 2;
  }
  try {
    const std::string folder = argv[1], device = argc > 3 ? argv[3] : "cpu";
    load(folder + "/_C.so");
    if (device == "cuda") {
      load(folder + "/_cuda.so");
    }
    torch::inductor::AOTIModelPackageLoader package(argv[2]);
    for (const auto& [length, channels] : {std::pair{1000, 512}, {131072, 3}}) {
      const at::Tensor sample = at::randint(0, 256, {length, channels}, at::kByte);
      const at::Tensor expected = counts_by_loop(sample);
      const at::Tensor input = sample.to(at::Device(device));
      require_equal(channel_histogram(input, 256, {0}), expected, "dispatcher");
      std::vector<at::Tensor> inputs{input};
      require_equal(package.run(inputs).at(0), expected, "package");
    }
  } catch (const std::exception& error) {
    std::cerr << "count: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
