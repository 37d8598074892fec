// Runs one study variant, HISTO_VARIANT, and tells of each access of its kernels.
//
// On standard input a line of numbers: whether letters are counted, the bins, the length, the
// channels, the SMs, whether to tell of each access; and the data. On standard output the counts, the
// additions in global and in shared memory and the threads of a block; then a line an access, in the order of the emulator.
#include <cstdio>
#include <iostream>
#include <string>

#include "cuda/study/variants.h"
#include "emulator/emulator.h"
#include "emulator/state.h"

namespace {

using namespace histo;
using emulated::How;
using emulated::Kind;

struct EmulatedWorkspace final : Allocator {
  void* operator()(int64_t bytes) override {
    return emulated::allocate(Kind::kWorkspace, static_cast<size_t>(bytes));
  }
};
EmulatedWorkspace workspace;

std::string accesses;
long long additions[2]; // in global and in shared memory
unsigned threads_per_block;

void count_additions(const emulated::Access& access) {
  additions[access.kind == Kind::kShared] += access.how == How::kAdd;
  threads_per_block = blockDim.x;
}

void note(const emulated::Access& access) {
  const char* const kinds[] = {"input", "counts", "workspace", "shared"};
  const char* const ways[] = {"read", "read", "write", "add"};
  count_additions(access);
  char line[200];
  std::snprintf(
      line, sizeof line, "%u %u %s %s %zu %zu %llu %s\n", emulated::running.block,
      emulated::running.thread, ways[static_cast<int>(access.how)],
      kinds[static_cast<int>(access.kind)], access.offset, access.bytes,
      static_cast<unsigned long long>(access.value), emulated::kernel.name.c_str());
  accesses += line;
}

} // namespace

int main() {
  bool letters = false, tells = false;
  int64_t num_bins = 0, length = 0, channels = 0;
  int sms = 0;
  std::cin >> letters >> num_bins >> length >> channels >> sms >> tells;
  std::cin.get();
  emulated::observer = tells ? note : count_additions;

  const auto bytes = static_cast<size_t>(length * channels);
  uint8_t* data = emulated::allocate(Kind::kInput, bytes);
  std::cin.read(reinterpret_cast<char*>(data), static_cast<std::streamsize>(bytes));
  const int64_t num_counts = channels * num_bins;
  uint8_t* memory = emulated::allocate(
      Kind::kCounts, static_cast<size_t>(num_counts) * sizeof(unsigned long long));
  auto* counts = reinterpret_cast<unsigned long long*>(memory);
  const cuda::StudyInput input{data, length, channels, counts};
  const cuda::Launch launch{nullptr, {sms, 227 << 10, 228 << 10, 90}, workspace};
  letters ? cuda::HISTO_VARIANT(input, LetterBinning{}, launch)
          : cuda::HISTO_VARIANT(input, ValueBinning{num_bins}, launch);

  for (int64_t i = 0; i < num_counts; ++i) {
    std::cout << counts[i] << ' ';
  }
  std::cout << '\n'
            << additions[0] << ' ' << additions[1] << ' ' << threads_per_block << '\n'
            << accesses;
}
