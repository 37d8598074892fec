// Loops that are compiled once for each instruction set.
#pragma once

#include "cpu/processor.h"

namespace histo::cpu {

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

} // namespace histo::cpu
