// Loops that are compiled once for each instruction set.
#pragma once

#include <type_traits>

#include "cpu/processor.h"

namespace histo::cpu {

template <int kBytes>
using VectorBytes = std::integral_constant<int, kBytes>;

/// GCC's vector of so many bytes.
template <class T, int kBytes>
struct VectorOf {
  typedef T Type __attribute__((vector_size(kBytes)));
};

#ifdef __x86_64__

template <class Loop>
[[gnu::target("avx2")]] void run_avx2(const Loop& loop) {
  loop();
}

#ifdef __clang__ // it does not know the preferred width
#define HISTO_AVX512 "avx512f,avx512bw,avx512dq,avx512vl"
#else
#define HISTO_AVX512 "avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512"
#endif

template <class Loop>
[[gnu::target(HISTO_AVX512)]] void run_avx512(const Loop& loop) {
  loop();
}

#endif

/// Runs a loop of plain C++ with the chosen instruction set. The loop is a lambda that is always
/// inlined.
template <class Loop>
void run_widest(const Loop& loop) {
#ifdef __x86_64__
  if (has_avx512()) {
    return run_avx512(loop);
  }
  if (chosen_set() == InstructionSet::kAvx2) {
    return run_avx2(loop);
  }
#endif
  loop();
}

/// As run_widest, for a loop over GCC's vectors: passes the bytes of one.
template <class Loop>
void run_widest_vectors(const Loop& loop) {
#ifdef __x86_64__
  if (has_avx512()) {
    return run_avx512([&]() __attribute__((always_inline)) { loop(VectorBytes<64>{}); });
  }
  if (chosen_set() == InstructionSet::kAvx2) {
    return run_avx2([&]() __attribute__((always_inline)) { loop(VectorBytes<32>{}); });
  }
#endif
  loop(VectorBytes<16>{});
}

} // namespace histo::cpu
