// The functions of x86's vectors, for files that choose an instruction set for each function.
#pragma once

#include <algorithm>
#include <cstdint>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 warns of the undefined vectors in its own header (its bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

/// The instruction sets of one function; none where tests stand in for the instructions.
#ifndef HISTO_TARGET
#define HISTO_TARGET(sets) gnu::target(sets)
#endif

#ifdef __x86_64__

namespace histo::cpu {

using Vector = __m512i;

/// Transposes the bytes of eight vectors, in each 16 bytes: bytes become words.
[[HISTO_TARGET("avx512f,avx512bw"), gnu::always_inline]] inline void transpose_bytes(
    Vector (&v)[8]) {
  Vector a[8], b[8];
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

/// Puts or adds the first `size` of eight counts, or all, or stores all past the caches.
[[HISTO_TARGET("avx512f"), gnu::always_inline]] inline void put_eight(
    Vector counts, int64_t* to, int64_t size, bool add, bool past_caches) {
  if (past_caches) {
    _mm512_stream_si512(reinterpret_cast<Vector*>(to), counts);
    return;
  }
  const auto inside = static_cast<__mmask8>(0xff >> (8 - std::min<int64_t>(8, size)));
  const Vector old = _mm512_maskz_loadu_epi64(add ? inside : 0, to);
  _mm512_mask_storeu_epi64(to, inside, _mm512_add_epi64(counts, old));
}

} // namespace histo::cpu

#endif
