// The functions of x86's vectors, for files that choose an instruction set for each function.
#pragma once

#include <algorithm>
#include <cstdint>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 takes the undefined vectors in its own header for a mistake (its bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#ifdef __x86_64__

namespace histo::cpu {

/// Of each 16 bytes of eight vectors: bytes to words.
[[gnu::target("avx512f,avx512bw"), gnu::always_inline]] inline void transpose_bytes(
    __m512i (&v)[8]) {
  __m512i a[8], b[8];
#pragma GCC unroll 8
  for (int i = 0; i < 4; ++i) {
    a[i] = _mm512_unpacklo_epi8(v[2 * i], v[2 * i + 1]);
    a[i + 4] = _mm512_unpackhi_epi8(v[2 * i], v[2 * i + 1]);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 4; ++i) {
    const int to = i / 2 * 4 + i % 2;
    b[to] = _mm512_unpacklo_epi16(a[2 * i], a[2 * i + 1]);
    b[to + 2] = _mm512_unpackhi_epi16(a[2 * i], a[2 * i + 1]);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 4; ++i) {
    v[2 * i] = _mm512_unpacklo_epi32(b[2 * i], b[2 * i + 1]);
    v[2 * i + 1] = _mm512_unpackhi_epi32(b[2 * i], b[2 * i + 1]);
  }
}

/// The first `size` of eight, or all.
inline __mmask8 first_of_eight(int64_t size) {
  return static_cast<__mmask8>(0xff >> (8 - std::min<int64_t>(8, size)));
}

} // namespace histo::cpu

#endif
