#include "parted_values.h"

#include "intrinsics.h"

namespace histo::cpu {

#ifdef __x86_64__

namespace {

#define HISTO_PARTED [[HISTO_TARGET("avx512f,avx512bw,avx512vbmi2,popcnt")]]

using Vector = __m512i;

constexpr int64_t kWords = tuning::kLineBytes / 2; // of a vector
constexpr int64_t kVectors = tuning::kValuesAtOnce / kWords;

/// As many values as a vector has words, in any order. `bits` gets all bits of any.
template <class T>
HISTO_PARTED [[gnu::always_inline]] inline Vector load_words(const T* data, Vector& bits) {
  if constexpr (sizeof(T) == 2) {
    const Vector words = _mm512_loadu_si512(data);
    bits = _mm512_or_si512(bits, words);
    return words;
  } else {
    Vector narrowed[sizeof(T) / 2];
#pragma GCC unroll 4
    for (size_t i = 0; i < sizeof(T) / 2; ++i) {
      narrowed[i] = _mm512_loadu_si512(data + i * (tuning::kLineBytes / sizeof(T)));
      bits = _mm512_or_si512(bits, narrowed[i]);
    }
    // The upper halves of those of 8 bytes become zeros between them.
    const Vector first = _mm512_packus_epi32(narrowed[0], narrowed[1]);
    if constexpr (sizeof(T) == 4) {
      return first;
    } else {
      return _mm512_packus_epi32(first, _mm512_packus_epi32(narrowed[2], narrowed[3]));
    }
  }
}

template <class T>
HISTO_PARTED [[gnu::always_inline]] inline Vector broadcast(T value) {
  if constexpr (sizeof(T) == 2) {
    return _mm512_set1_epi16(static_cast<int16_t>(value));
  } else if constexpr (sizeof(T) == 4) {
    return _mm512_set1_epi32(static_cast<int32_t>(value));
  } else {
    return _mm512_set1_epi64(static_cast<int64_t>(value));
  }
}

template <class T>
HISTO_PARTED int64_t part_vectors(const T* data, int64_t size, T outside, Parts& parts) {
  const Vector refused = broadcast(outside);
  uint16_t* lows = parts.lows;
  uint16_t* highs = parts.highs;
  int64_t i = 0;
  for (; i + tuning::kValuesAtOnce <= size; i += tuning::kValuesAtOnce) {
    Vector words[kVectors];
    Vector bits = _mm512_setzero_si512();
#pragma GCC unroll 4
    for (int64_t j = 0; j < kVectors; ++j) {
      words[j] = load_words(data + i + j * kWords, bits);
    }
    if (_mm512_test_epi32_mask(bits, refused) != 0) {
      break;
    }
#pragma GCC unroll 4
    for (int64_t j = 0; j < kVectors; ++j) {
      // Packed in a register: packed into memory it takes several times as long.
      const __mmask32 high = _mm512_movepi16_mask(words[j]);
      _mm512_storeu_si512(lows, _mm512_maskz_compress_epi16(~high, words[j]));
      _mm512_storeu_si512(highs, _mm512_maskz_compress_epi16(high, words[j]));
      const int64_t num_highs = __builtin_popcount(high);
      lows += kWords - num_highs;
      highs += num_highs;
    }
  }
  parts.num_lows = lows - parts.lows;
  parts.num_highs = highs - parts.highs;
  return i;
}

} // namespace

// Its instances would not have the instruction set.
template <class T>
int64_t part_values(const T* data, int64_t size, T outside, Parts& parts) {
  return part_vectors(data, size, outside, parts);
}

#else

template <class T>
int64_t part_values(const T*, int64_t, T, Parts&) {
  return 0;
}

#endif

template int64_t part_values(const uint16_t*, int64_t, uint16_t, Parts&);
template int64_t part_values(const uint32_t*, int64_t, uint32_t, Parts&);
template int64_t part_values(const uint64_t*, int64_t, uint64_t, Parts&);

} // namespace histo::cpu
