// Writing a row of a result.
#pragma once

#include <cstdint>

#include "cuda/walk/team.cuh"

namespace histo::cuda {

/// Writes f(0), ..., f(size - 1), with the threads of a team and 16 bytes at a time. Nobody reads
/// them soon, so they are the first to leave the cache.
template <bool kIsWarp, class V, class F>
__device__ __forceinline__ void put_row(
    const Team<kIsWarp>& team, V* row, unsigned size, const F& f) {
  constexpr unsigned kOf = 16 / sizeof(V);
  struct alignas(16) Values {
    V values[kOf];
  };
  const auto before = static_cast<unsigned>(-reinterpret_cast<uintptr_t>(row) % 16 / sizeof(V));
  const unsigned head = min(before, size), vec16s = (size - head) / kOf, tail = head + vec16s * kOf;
  for (unsigned i = team.thread; i < vec16s; i += team.threads) {
    Values some;
#pragma unroll
    for (unsigned j = 0; j < kOf; ++j) {
      some.values[j] = f(head + i * kOf + j);
    }
    __stcs(reinterpret_cast<uint4*>(row + head) + i, reinterpret_cast<const uint4&>(some));
  }
  const unsigned single = team.thread < head ? team.thread : tail + (team.thread - head);
  if (single < size) { // a team has more threads than there are singles
    row[single] = f(single);
  }
}

} // namespace histo::cuda
