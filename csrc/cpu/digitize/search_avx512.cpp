// Searches with AVX-512.
#ifdef __x86_64__

#include <algorithm>
#include <type_traits>

#include "cpu/digitize/search_sets.h"
#include "cpu/intrinsics.h"

#ifdef __clang__
#pragma clang attribute push( \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl")
#endif

#include "cpu/digitize/search_loops.h"

namespace histo::cpu::avx512 {
namespace {

/// 16 floats.
struct Floats {
  static constexpr int64_t kLanes = 16;
  using Values = __m512;
  using Guesses = __m512;
  using Places = __m512i;

  static Values load(const float* data) {
    return _mm512_loadu_ps(data);
  }
  static Values load(const BFloat16* data) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
  }
  static Values load(const Float16* data) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(data)));
  }
  static Guesses load_guesses(const float* guesses) {
    return _mm512_loadu_ps(guesses);
  }
  static Places load_places(const int32_t* places) {
    return _mm512_loadu_si512(places);
  }
  static void store(uint8_t* keys, Places places) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(keys), _mm512_cvtepi32_epi8(places));
  }
  static void store(uint16_t* keys, Places places) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(keys), _mm512_cvtepi32_epi16(places));
  }
  static void store(uint32_t* keys, Places places) {
    _mm512_storeu_si512(keys, places);
  }
  static Guesses all(float value) {
    return _mm512_set1_ps(value);
  }
  static Places all_places(int32_t place) {
    return _mm512_set1_epi32(place);
  }
  static Places add(Places a, Places b) {
    return _mm512_add_epi32(a, b);
  }
  static Places lesser(Places a, Places b) {
    return _mm512_min_epi32(a, b);
  }
  static Places greater(Places a, Places b) {
    return _mm512_max_epi32(a, b);
  }
  static Places inverted(Places places) {
    return _mm512_xor_si512(places, all_places(-1));
  }
  static bool any_is_negative(Places places) {
    return _mm512_movepi32_mask(places) != 0;
  }
  static Guesses line(Values values, Guesses origin, Guesses scale, Guesses lift) {
    return _mm512_add_ps(_mm512_mul_ps(_mm512_sub_ps(values, origin), scale), lift);
  }
  static Guesses clamped(Guesses line, Guesses least, Guesses most) {
    return _mm512_min_ps(_mm512_max_ps(line, least), most); // NaN: the least
  }
  static Places whole(Guesses line) {
    return _mm512_cvttps_epi32(line);
  }
  static Guesses beyond(Guesses line, Places whole) {
    return _mm512_sub_ps(line, _mm512_cvtepi32_ps(whole));
  }
  static bool any_is_below(Guesses a, Guesses b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ) != 0;
  }
  static Places bit_buckets(Values values, const BitBuckets<float>& of) {
    const __m512i bits = _mm512_castps_si512(values);
    const __m512i sign = _mm512_srai_epi32(bits, 31);
    const __m512i magnitude = _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffffff));
    const __m512i place = _mm512_sub_epi32(_mm512_xor_si512(magnitude, sign), sign);
    const __m512i first = _mm512_set1_epi32(static_cast<int32_t>(of.first));
    const __m512i beyond = _mm512_sub_epi32(_mm512_max_epi32(place, first), first);
    const __m512i buckets = _mm512_srl_epi32(beyond, _mm_cvtsi32_si128(of.shift));
    return _mm512_min_epu32(buckets, _mm512_set1_epi32(of.last));
  }
  static Places lookup(const int32_t* table, Places index) {
    return _mm512_i32gather_epi32(index, table, 4);
  }
  static Places step(
      Values values, const float* thresholds, Places index, Places places, Places width) {
    const __m512 ends = _mm512_i32gather_ps(index, thresholds, 4);
    const __mmask16 reached = _mm512_cmp_ps_mask(values, ends, _CMP_GE_OQ);
    return _mm512_mask_add_epi32(places, reached, places, width);
  }
  static Places unless_nan(Values values, Places places, Places nan) {
    return _mm512_mask_mov_epi32(places, _mm512_cmp_ps_mask(values, values, _CMP_UNORD_Q), nan);
  }
};

/// 8 doubles.
struct Doubles {
  static constexpr int64_t kLanes = 8;
  using Values = __m512d;
  using Guesses = __m512d;
  using Places = __m256i;

  static Values load(const double* data) {
    return _mm512_loadu_pd(data);
  }
  static Guesses load_guesses(const double* guesses) {
    return _mm512_loadu_pd(guesses);
  }
  static Places load_places(const int32_t* places) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(places));
  }
  static void store(uint8_t* keys, Places places) {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(keys), _mm256_cvtepi32_epi8(places));
  }
  static void store(uint16_t* keys, Places places) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(keys), _mm256_cvtepi32_epi16(places));
  }
  static void store(uint32_t* keys, Places places) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(keys), places);
  }
  static Guesses all(double value) {
    return _mm512_set1_pd(value);
  }
  static Places all_places(int32_t place) {
    return _mm256_set1_epi32(place);
  }
  static Places add(Places a, Places b) {
    return _mm256_add_epi32(a, b);
  }
  static Places lesser(Places a, Places b) {
    return _mm256_min_epi32(a, b);
  }
  static Places greater(Places a, Places b) {
    return _mm256_max_epi32(a, b);
  }
  static Places inverted(Places places) {
    return _mm256_xor_si256(places, all_places(-1));
  }
  static bool any_is_negative(Places places) {
    return _mm256_movepi32_mask(places) != 0;
  }
  static Guesses line(Values values, Guesses origin, Guesses scale, Guesses lift) {
    return _mm512_add_pd(_mm512_mul_pd(_mm512_sub_pd(values, origin), scale), lift);
  }
  static Guesses clamped(Guesses line, Guesses least, Guesses most) {
    return _mm512_min_pd(_mm512_max_pd(line, least), most); // NaN: the least
  }
  static Places whole(Guesses line) {
    return _mm512_cvttpd_epi32(line);
  }
  static Guesses beyond(Guesses line, Places whole) {
    return _mm512_sub_pd(line, _mm512_cvtepi32_pd(whole));
  }
  static bool any_is_below(Guesses a, Guesses b) {
    return _mm512_cmp_pd_mask(a, b, _CMP_LT_OQ) != 0;
  }
  static Places bit_buckets(Values, const BitBuckets<double>&) {
    throw InternalError("bits of buckets: not of doubles");
  }
  static Places lookup(const int32_t* table, Places index) {
    return _mm256_i32gather_epi32(table, index, 4);
  }
  static Places step(
      Values values, const double* thresholds, Places index, Places places, Places width) {
    const __m512d ends = _mm512_i32gather_pd(index, thresholds, 8);
    const __mmask8 reached = _mm512_cmp_pd_mask(values, ends, _CMP_GE_OQ);
    return _mm256_mask_add_epi32(places, reached, places, width);
  }
  static Places unless_nan(Values values, Places places, Places nan) {
    return _mm256_mask_mov_epi32(places, _mm512_cmp_pd_mask(values, values, _CMP_UNORD_Q), nan);
  }
};

template <class T>
using Vectors = std::conditional_t<std::is_same_v<SearchKey<T>, float>, Floats, Doubles>;

} // namespace

template <class T, class Out>
void search(
    const Search<SearchKey<T>>& of, const KeyRule& rule, const T* data, int64_t size, Out* keys) {
  search_line<Vectors<T>>(of, rule, data, size, keys);
}

template <class T, class Out>
void search(
    const ColumnSearch<SearchKey<T>>& of,
    const KeyRule& rule,
    const T* data,
    int64_t size,
    Out* keys) {
  search_columns<Vectors<T>>(of, rule, data, size, keys);
}

HISTO_SEARCHES(float)
HISTO_SEARCHES(double)
HISTO_SEARCHES(Float16)
HISTO_SEARCHES(BFloat16)

} // namespace histo::cpu::avx512

#ifdef __clang__
#pragma clang attribute pop
#endif

#endif
