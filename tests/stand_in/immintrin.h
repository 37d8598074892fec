// In place of the compiler's header: the vector instructions that
// csrc/cpu/count/matrix_products.cpp and bit_planes.cpp use, as plain loops. Intel's Intrinsics
// Guide defines each.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>

template <int kBytes>
struct alignas(kBytes) StandIn {
  uint8_t bytes[kBytes];

  template <class T>
  T get(int i) const {
    T lane;
    std::memcpy(&lane, bytes + i * sizeof(T), sizeof(T));
    return lane;
  }
  template <class T>
  void set(int i, T lane) {
    std::memcpy(bytes + i * sizeof(T), &lane, sizeof(T));
  }
};

using __m128i = StandIn<16>;
using __m256i = StandIn<32>;
using __m512i = StandIn<64>;
using __mmask8 = uint8_t;
using __mmask16 = uint16_t;
using __mmask64 = uint64_t;

namespace stand_in {

/// A vector whose lane i is f(i).
template <class T, class F>
__m512i lanes(const F& f) {
  __m512i result;
  for (int i = 0; i < 64 / static_cast<int>(sizeof(T)); ++i) {
    result.set<T>(i, static_cast<T>(f(i)));
  }
  return result;
}

/// The processor faults where an address is not aligned as the instruction wants it.
inline void check_alignment(const void* address, uintptr_t bytes) {
  if (reinterpret_cast<uintptr_t>(address) % bytes != 0) {
    std::abort();
  }
}

/// Takes the lower half of each 16 bytes of both vectors, or the upper half, in turns of a lane.
template <class T>
__m512i unpack(const __m512i& a, const __m512i& b, bool high) {
  constexpr int kLanes = 16 / sizeof(T);
  return lanes<T>([&](int i) {
    const int from = i / kLanes * kLanes + i % kLanes / 2 + (high ? kLanes / 2 : 0);
    return i % 2 == 0 ? a.get<T>(from) : b.get<T>(from);
  });
}

} // namespace stand_in

inline __m128i _mm_loadu_si128(const __m128i* from) {
  __m128i v;
  std::memcpy(v.bytes, from, sizeof v);
  return v;
}
inline __m256i _mm256_load_si256(const __m256i* from) {
  stand_in::check_alignment(from, 32);
  __m256i v;
  std::memcpy(v.bytes, from, sizeof v);
  return v;
}
inline __m512i _mm512_loadu_si512(const void* from) {
  __m512i v;
  std::memcpy(v.bytes, from, sizeof v);
  return v;
}
inline __m512i _mm512_load_si512(const void* from) {
  stand_in::check_alignment(from, 64);
  return _mm512_loadu_si512(from);
}
inline void _mm512_store_si512(void* to, const __m512i& v) {
  stand_in::check_alignment(to, 64);
  std::memcpy(to, v.bytes, sizeof v);
}
inline void _mm512_stream_si512(__m512i* to, const __m512i& v) {
  _mm512_store_si512(to, v);
}
inline void _mm_sfence() {
}
inline __m512i _mm512_maskz_loadu_epi64(__mmask8 mask, const void* from) {
  __m512i v{};
  for (int i = 0; i < 8; ++i) {
    if (mask >> i & 1) {
      std::memcpy(v.bytes + 8 * i, static_cast<const uint8_t*>(from) + 8 * i, 8);
    }
  }
  return v;
}
inline void _mm512_mask_storeu_epi64(void* to, __mmask8 mask, const __m512i& v) {
  for (int i = 0; i < 8; ++i) {
    if (mask >> i & 1) {
      std::memcpy(static_cast<uint8_t*>(to) + 8 * i, v.bytes + 8 * i, 8);
    }
  }
}

inline __m512i _mm512_set1_epi8(char value) {
  return stand_in::lanes<char>([=](int) { return value; });
}
inline __m512i _mm512_set1_epi32(int32_t value) {
  return stand_in::lanes<int32_t>([=](int) { return value; });
}
inline __m512i _mm512_set1_epi64(int64_t value) {
  return stand_in::lanes<int64_t>([=](int) { return value; });
}
inline __m512i _mm512_mask_set1_epi8(const __m512i& other, __mmask64 mask, char value) {
  return stand_in::lanes<char>([&](int i) { return mask >> i & 1 ? value : other.get<char>(i); });
}
inline __m512i _mm512_maskz_set1_epi8(__mmask64 mask, char value) {
  return _mm512_mask_set1_epi8(__m512i{}, mask, value);
}
inline __m512i _mm512_castsi128_si512(const __m128i& low) {
  // The bytes behind are undefined.
  return stand_in::lanes<uint8_t>([&](int i) { return i < 16 ? low.bytes[i] : 0xa5; });
}
inline __m512i _mm512_mask_broadcast_i32x4(
    const __m512i& other, __mmask16 mask, const __m128i& four) {
  return stand_in::lanes<uint32_t>(
      [&](int i) { return mask >> i & 1 ? four.get<uint32_t>(i % 4) : other.get<uint32_t>(i); });
}
inline __m512i _mm512_cvtepu32_epi64(const __m256i& v) {
  return stand_in::lanes<uint64_t>([&](int i) { return v.get<uint32_t>(i); });
}

inline __m512i _mm512_add_epi64(const __m512i& a, const __m512i& b) {
  return stand_in::lanes<uint64_t>([&](int i) { return a.get<uint64_t>(i) + b.get<uint64_t>(i); });
}
inline __m512i _mm512_sub_epi64(const __m512i& a, const __m512i& b) {
  return stand_in::lanes<uint64_t>([&](int i) { return a.get<uint64_t>(i) - b.get<uint64_t>(i); });
}
inline __m512i _mm512_and_si512(const __m512i& a, const __m512i& b) {
  return stand_in::lanes<uint64_t>([&](int i) { return a.get<uint64_t>(i) & b.get<uint64_t>(i); });
}
inline __m512i _mm512_andnot_si512(const __m512i& a, const __m512i& b) {
  return stand_in::lanes<uint64_t>([&](int i) { return ~a.get<uint64_t>(i) & b.get<uint64_t>(i); });
}
inline __m512i _mm512_xor_si512(const __m512i& a, const __m512i& b) {
  return stand_in::lanes<uint64_t>([&](int i) { return a.get<uint64_t>(i) ^ b.get<uint64_t>(i); });
}
inline __m512i _mm512_ternarylogic_epi64(
    const __m512i& a, const __m512i& b, const __m512i& c, int table) {
  return stand_in::lanes<uint64_t>([&](int i) {
    uint64_t result = 0;
    for (int bit = 0; bit < 64; ++bit) {
      const auto bit_of = [&](const __m512i& v) { return v.get<uint64_t>(i) >> bit & 1; };
      const uint64_t row = bit_of(a) << 2 | bit_of(b) << 1 | bit_of(c);
      result |= (static_cast<uint64_t>(table) >> row & 1) << bit;
    }
    return result;
  });
}
inline __m512i _mm512_popcnt_epi64(const __m512i& v) {
  return stand_in::lanes<uint64_t>([&](int i) { return __builtin_popcountll(v.get<uint64_t>(i)); });
}
inline __m512i _mm512_srli_epi16(const __m512i& v, unsigned bits) {
  return stand_in::lanes<uint16_t>([&](int i) { return v.get<uint16_t>(i) >> bits; });
}
/// Each bit of a byte of the result: whether the byte of x has an odd number of bits in common with
/// a row of the matrix, of which the last row is for the lowest bit.
inline __m512i _mm512_gf2p8affine_epi64_epi8(const __m512i& x, const __m512i& matrix, int added) {
  return stand_in::lanes<uint8_t>([&](int i) {
    int result = 0;
    for (int bit = 0; bit < 8; ++bit) {
      const int row = matrix.bytes[i / 8 * 8 + 7 - bit];
      result |= (__builtin_parity(row & x.bytes[i]) ^ (added >> bit & 1)) << bit;
    }
    return result;
  });
}

inline __m512i _mm512_shuffle_epi8(const __m512i& v, const __m512i& indices) {
  return stand_in::lanes<uint8_t>([&](int i) {
    return indices.bytes[i] & 0x80 ? 0 : v.bytes[i / 16 * 16 + indices.bytes[i] % 16];
  });
}
inline __m512i _mm512_permutexvar_epi8(const __m512i& indices, const __m512i& v) {
  return stand_in::lanes<uint8_t>([&](int i) { return v.bytes[indices.bytes[i] % 64]; });
}
inline __m512i _mm512_shuffle_i64x2(const __m512i& a, const __m512i& b, int indices) {
  return stand_in::lanes<uint64_t>([&](int i) {
    const int from = indices >> i / 2 * 2 & 3;
    return (i < 4 ? a : b).get<uint64_t>(2 * from + i % 2);
  });
}
inline __m512i _mm512_unpacklo_epi8(const __m512i& a, const __m512i& b) {
  return stand_in::unpack<uint8_t>(a, b, false);
}
inline __m512i _mm512_unpackhi_epi8(const __m512i& a, const __m512i& b) {
  return stand_in::unpack<uint8_t>(a, b, true);
}
inline __m512i _mm512_unpacklo_epi16(const __m512i& a, const __m512i& b) {
  return stand_in::unpack<uint16_t>(a, b, false);
}
inline __m512i _mm512_unpackhi_epi16(const __m512i& a, const __m512i& b) {
  return stand_in::unpack<uint16_t>(a, b, true);
}
inline __m512i _mm512_unpacklo_epi32(const __m512i& a, const __m512i& b) {
  return stand_in::unpack<uint32_t>(a, b, false);
}
inline __m512i _mm512_unpackhi_epi32(const __m512i& a, const __m512i& b) {
  return stand_in::unpack<uint32_t>(a, b, true);
}
inline __m512i _mm512_unpacklo_epi64(const __m512i& a, const __m512i& b) {
  return stand_in::unpack<uint64_t>(a, b, false);
}
inline __m512i _mm512_unpackhi_epi64(const __m512i& a, const __m512i& b) {
  return stand_in::unpack<uint64_t>(a, b, true);
}
