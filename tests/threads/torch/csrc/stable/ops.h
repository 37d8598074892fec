// The functions that the CPU engine takes from PyTorch, with threads that ThreadSanitizer
// understands: it does not see how those of OpenMP wait for each other.
#pragma once

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

namespace torch::stable {

constexpr int64_t kThreads = 4;

inline uint32_t get_num_threads() {
  return kThreads;
}

template <class F>
void parallel_for(int64_t begin, int64_t end, int64_t grain, const F& f) {
  const int64_t size = end - begin;
  const int64_t parts = std::min(kThreads, (size + grain - 1) / grain);
  std::vector<std::thread> threads;
  for (int64_t i = 0; i < parts; ++i) {
    threads.emplace_back([&f, first = begin + size * i / parts,
                          last = begin + size * (i + 1) / parts] { f(first, last); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

} // namespace torch::stable
