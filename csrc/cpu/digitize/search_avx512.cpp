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
struct Avx512Floats {
  static constexpr int64_t kLanes = 16;
  using Values = __m512;
  using Guesses = __m512;
  using Integers = __m512i;

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
  static Integers load_integers(const int32_t* integers) {
    return _mm512_loadu_si512(integers);
  }
  static void store(uint8_t* slots, Integers integers) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(slots), _mm512_cvtepi32_epi8(integers));
  }
  static void store(uint16_t* slots, Integers integers) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(slots), _mm512_cvtepi32_epi16(integers));
  }
  static void store(uint32_t* slots, Integers integers) {
    _mm512_storeu_si512(slots, integers);
  }
  static Guesses all(float value) {
    return _mm512_set1_ps(value);
  }
  static Integers all_integers(int32_t value) {
    return _mm512_set1_epi32(value);
  }
  static Integers add(Integers a, Integers b) {
    return _mm512_add_epi32(a, b);
  }
  static Integers lesser(Integers a, Integers b) {
    return _mm512_min_epi32(a, b);
  }
  static Integers greater(Integers a, Integers b) {
    return _mm512_max_epi32(a, b);
  }
  static Integers inverted(Integers integers) {
    return _mm512_xor_si512(integers, all_integers(-1));
  }
  static bool any_is_negative(Integers integers) {
    return _mm512_movepi32_mask(integers) != 0;
  }
  static Guesses line(Values values, Guesses origin, Guesses scale, Guesses lift) {
    return _mm512_add_ps(_mm512_mul_ps(_mm512_sub_ps(values, origin), scale), lift);
  }
  static Guesses clamped(Guesses line, Guesses least, Guesses most) {
    return _mm512_min_ps(_mm512_max_ps(line, least), most); // NaN: the least
  }
  static Integers whole(Guesses line) {
    return _mm512_cvttps_epi32(line);
  }
  static Guesses beyond(Guesses line, Integers whole) {
    return _mm512_sub_ps(line, _mm512_cvtepi32_ps(whole));
  }
  static bool any_is_below(Guesses a, Guesses b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ) != 0;
  }
  static Integers bit_buckets(Values values, const BitBuckets<float>& of) {
    const __m512i bits = _mm512_castps_si512(values);
    const __m512i sign = _mm512_srai_epi32(bits, 31);
    const __m512i magnitude = _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffffff));
    const __m512i ordinal = _mm512_sub_epi32(_mm512_xor_si512(magnitude, sign), sign);
    const __m512i first = _mm512_set1_epi32(static_cast<int32_t>(of.first));
    const __m512i beyond = _mm512_sub_epi32(_mm512_max_epi32(ordinal, first), first);
    const __m512i buckets = _mm512_srl_epi32(beyond, _mm_cvtsi32_si128(of.shift));
    return _mm512_min_epu32(buckets, _mm512_set1_epi32(of.last));
  }
  static Integers lookup(const int32_t* table, Integers index) {
    return _mm512_i32gather_epi32(index, table, 4);
  }
  static Integers step(
      Values values, const float* thresholds, Integers index, Integers reached, Integers width) {
    return reach(values, _mm512_i32gather_ps(index, thresholds, 4), reached, width);
  }
  static Integers reach(Values values, Values ends, Integers reached, Integers width) {
    const __mmask16 takes_step = _mm512_cmp_ps_mask(values, ends, _CMP_GE_OQ);
    return _mm512_mask_add_epi32(reached, takes_step, reached, width);
  }
  static Values edge(Integers number, Guesses step, Guesses low) {
    return _mm512_add_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(number), step), low);
  }
  static Values in_float32(Values values) {
    return values;
  }
  static Integers unless_above(Values values, Values last, Integers slots, Integers above) {
    return _mm512_mask_mov_epi32(slots, _mm512_cmp_ps_mask(values, last, _CMP_GT_OQ), above);
  }
  static Integers unless_nan(Values values, Integers slots, Integers nan) {
    return _mm512_mask_mov_epi32(slots, _mm512_cmp_ps_mask(values, values, _CMP_UNORD_Q), nan);
  }
};

/// 8 doubles.
struct Avx512Doubles {
  static constexpr int64_t kLanes = 8;
  using Values = __m512d;
  using Guesses = __m512d;
  using Integers = __m256i;

  static Values load(const double* data) {
    return _mm512_loadu_pd(data);
  }
  static Guesses load_guesses(const double* guesses) {
    return _mm512_loadu_pd(guesses);
  }
  static Integers load_integers(const int32_t* integers) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(integers));
  }
  static void store(uint8_t* slots, Integers integers) {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(slots), _mm256_cvtepi32_epi8(integers));
  }
  static void store(uint16_t* slots, Integers integers) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(slots), _mm256_cvtepi32_epi16(integers));
  }
  static void store(uint32_t* slots, Integers integers) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(slots), integers);
  }
  static Guesses all(double value) {
    return _mm512_set1_pd(value);
  }
  static Integers all_integers(int32_t value) {
    return _mm256_set1_epi32(value);
  }
  static Integers add(Integers a, Integers b) {
    return _mm256_add_epi32(a, b);
  }
  static Integers lesser(Integers a, Integers b) {
    return _mm256_min_epi32(a, b);
  }
  static Integers greater(Integers a, Integers b) {
    return _mm256_max_epi32(a, b);
  }
  static Integers inverted(Integers integers) {
    return _mm256_xor_si256(integers, all_integers(-1));
  }
  static bool any_is_negative(Integers integers) {
    return _mm256_movepi32_mask(integers) != 0;
  }
  static Guesses line(Values values, Guesses origin, Guesses scale, Guesses lift) {
    return _mm512_add_pd(_mm512_mul_pd(_mm512_sub_pd(values, origin), scale), lift);
  }
  static Guesses clamped(Guesses line, Guesses least, Guesses most) {
    return _mm512_min_pd(_mm512_max_pd(line, least), most); // NaN: the least
  }
  static Integers whole(Guesses line) {
    return _mm512_cvttpd_epi32(line);
  }
  static Guesses beyond(Guesses line, Integers whole) {
    return _mm512_sub_pd(line, _mm512_cvtepi32_pd(whole));
  }
  static bool any_is_below(Guesses a, Guesses b) {
    return _mm512_cmp_pd_mask(a, b, _CMP_LT_OQ) != 0;
  }
  static Integers bit_buckets(Values, const BitBuckets<double>&) {
    throw InternalError("bits of buckets: not of doubles");
  }
  static Integers lookup(const int32_t* table, Integers index) {
    return _mm256_i32gather_epi32(table, index, 4);
  }
  static Integers step(
      Values values, const double* thresholds, Integers index, Integers reached, Integers width) {
    return reach(values, _mm512_i32gather_pd(index, thresholds, 8), reached, width);
  }
  static Integers reach(Values values, Values ends, Integers reached, Integers width) {
    const __mmask8 takes_step = _mm512_cmp_pd_mask(values, ends, _CMP_GE_OQ);
    return _mm256_mask_add_epi32(reached, takes_step, reached, width);
  }
  static Values edge(Integers number, Guesses step, Guesses low) {
    return _mm512_add_pd(_mm512_mul_pd(_mm512_cvtepi32_pd(number), step), low);
  }
  static Values in_float32(Values values) {
    return _mm512_cvtps_pd(_mm512_cvtpd_ps(values));
  }
  static Integers unless_above(Values values, Values last, Integers slots, Integers above) {
    return _mm256_mask_mov_epi32(slots, _mm512_cmp_pd_mask(values, last, _CMP_GT_OQ), above);
  }
  static Integers unless_nan(Values values, Integers slots, Integers nan) {
    return _mm256_mask_mov_epi32(slots, _mm512_cmp_pd_mask(values, values, _CMP_UNORD_Q), nan);
  }
};

template <class T>
using Avx512Vectors =
    std::conditional_t<std::is_same_v<ComparedAs<T>, float>, Avx512Floats, Avx512Doubles>;

} // namespace

template <class T, class Out>
void search(
    const ChannelSearch<ComparedAs<T>>& of,
    const SlotRule& rule,
    const T* data,
    int64_t size,
    Out* slots) {
  search_line<Avx512Vectors<T>>(of, rule, data, size, slots);
}

template <class T, class Out>
void search(
    const ColumnSearch<ComparedAs<T>>& of,
    const SlotRule& rule,
    const T* data,
    int64_t size,
    Out* slots) {
  search_columns<Avx512Vectors<T>>(of, rule, data, size, slots);
}

template <class T, class Out>
void search(
    const UniformSearch<ComparedAs<T>>& of,
    const SlotRule& rule,
    const T* data,
    int64_t size,
    Out* slots) {
  search_uniform<Avx512Vectors<T>>(of, rule, data, size, slots);
}

template <class T, class Out>
void search(
    const UniformColumnSearch<ComparedAs<T>>& of,
    const SlotRule& rule,
    const T* data,
    int64_t size,
    Out* slots) {
  search_uniform_columns<Avx512Vectors<T>>(of, rule, data, size, slots);
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
