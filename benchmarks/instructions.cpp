// Counts one input with the CPU engine, for callgrind. Torch is left out: one thread needs none
// of it. Arguments: the type ("uint8"), bins, rows, channels, "uniform" or "constant".
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <torch/csrc/stable/c/shim.h>

#include "cpu/kernels.h"

// The engine calls these functions of torch. With one thread it never reaches the second.
extern "C" AOTITorchError torch_get_num_threads(uint32_t* threads) {
  *threads = 1;
  return AOTI_TORCH_SUCCESS;
}
extern "C" AOTITorchError torch_parallel_for(int64_t, int64_t, int64_t, ParallelFunc, void*) {
  return AOTI_TORCH_FAILURE;
}

struct Memory final : histo::Allocator {
  void* operator()(int64_t bytes) override {
    held.push_back(std::make_unique<char[]>(static_cast<size_t>(bytes)));
    return held.back().get();
  }
  std::vector<std::unique_ptr<char[]>> held;
};

int main(int, char** arguments) {
  using histo::ElementType;
  const std::string dtype = arguments[1];
  const int64_t num_bins = std::atoll(arguments[2]);
  const int64_t rows = std::atoll(arguments[3]);
  const int64_t channels = std::atoll(arguments[4]);
  const bool constant = std::string(arguments[5]) == "constant";
  const auto [type, size] = dtype == "uint8"   ? std::pair(ElementType::kUInt8, 1)
                            : dtype == "int16" ? std::pair(ElementType::kInt16, 2)
                            : dtype == "int32" ? std::pair(ElementType::kInt32, 4)
                                               : std::pair(ElementType::kInt64, 8);
  std::vector<char> data(static_cast<size_t>(rows * channels * size));
  uint64_t random = 88172645463325252;
  for (int64_t i = 0; i < rows * channels; ++i) {
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    const uint64_t value = constant ? 3 : (random >> 20) % static_cast<uint64_t>(num_bins);
    std::memcpy(data.data() + i * size, &value, static_cast<size_t>(size));
  }
  std::vector<int64_t> counts(static_cast<size_t>(channels * num_bins));
  histo::Problem problem{};
  static_cast<histo::View&>(problem) = {
      type, data.data(), {{1, 0}, {channels, 1}}, {{1, 0}, {1, 0}, {rows, channels}}};
  problem.num_bins = num_bins;
  problem.counts = counts.data();
  Memory memory;
  const histo::ValueBinning binning{num_bins};
  histo::cpu::count(problem, histo::cpu::pattern_axis(type, binning), memory);
  const int64_t counted = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  if (counted != rows * channels) {
    std::fprintf(stderr, "instructions: counted %lld elements\n", static_cast<long long>(counted));
    return 1;
  }
  return 0;
}
