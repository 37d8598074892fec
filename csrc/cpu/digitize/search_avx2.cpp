// Searches with AVX2. All processors that have it convert 16-bit floats, too.
#ifdef __x86_64__

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "cpu/digitize/search_sets.h"
#include "cpu/intrinsics.h"

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,f16c"))), apply_to = function)
#else
#pragma GCC target("avx2,f16c")
#endif

#include "cpu/digitize/search_loops.h"

namespace histo::cpu::avx2 {
namespace {

/// 8 floats.
struct Avx2Floats {
  static constexpr int64_t kLanes = 8;
  using Values = __m256;
  using Guesses = __m256;
  using Integers = __m256i;

  static Values load(const float* data) {
    return _mm256_loadu_ps(data);
  }
  static Values load(const BFloat16* data) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(data));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
  static Values load(const Float16* data) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(data)));
  }
  static Guesses load_guesses(const float* guesses) {
    return _mm256_loadu_ps(guesses);
  }
  static Integers load_integers(const int32_t* integers) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(integers));
  }
  static void store(uint8_t* slots, Integers integers) {
    const __m256i low_bytes = _mm256_shuffle_epi8(integers, _mm256_set1_epi32(0x0c080400));
    const __m128i halves = _mm_unpacklo_epi32(
        _mm256_castsi256_si128(low_bytes), _mm256_extracti128_si256(low_bytes, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(slots), halves);
  }
  static void store(uint16_t* slots, Integers integers) {
    const __m256i low_words = _mm256_shuffle_epi8(integers, _mm256_set1_epi64x(0x0d0c090805040100));
    const __m128i halves = _mm_unpacklo_epi64(
        _mm256_castsi256_si128(low_words), _mm256_extracti128_si256(low_words, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(slots), halves);
  }
  static void store(uint32_t* slots, Integers integers) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(slots), integers);
  }
  static Guesses all(float value) {
    return _mm256_set1_ps(value);
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
    return _mm256_movemask_ps(_mm256_castsi256_ps(integers)) != 0;
  }
  static Guesses line(Values values, Guesses origin, Guesses scale, Guesses lift) {
    return _mm256_add_ps(_mm256_mul_ps(_mm256_sub_ps(values, origin), scale), lift);
  }
  static Guesses clamped(Guesses line, Guesses least, Guesses most) {
    return _mm256_min_ps(_mm256_max_ps(line, least), most); // NaN: the least
  }
  static Integers whole(Guesses line) {
    return _mm256_cvttps_epi32(line);
  }
  static Guesses beyond(Guesses line, Integers whole) {
    return _mm256_sub_ps(line, _mm256_cvtepi32_ps(whole));
  }
  static bool any_is_below(Guesses a, Guesses b) {
    return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_LT_OQ)) != 0;
  }
  static Integers bit_buckets(Values values, const BitBuckets<float>& of) {
    const __m256i bits = _mm256_castps_si256(values);
    const __m256i sign = _mm256_srai_epi32(bits, 31);
    const __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff));
    const __m256i ordinal = _mm256_sub_epi32(_mm256_xor_si256(magnitude, sign), sign);
    const __m256i first = _mm256_set1_epi32(static_cast<int32_t>(of.first));
    const __m256i beyond = _mm256_sub_epi32(_mm256_max_epi32(ordinal, first), first);
    const __m256i buckets = _mm256_srl_epi32(beyond, _mm_cvtsi32_si128(of.shift));
    return _mm256_min_epu32(buckets, _mm256_set1_epi32(of.last));
  }
  static Integers lookup(const int32_t* table, Integers index) {
    return _mm256_i32gather_epi32(table, index, 4);
  }
  static Integers step(
      Values values, const float* thresholds, Integers index, Integers reached, Integers width) {
    return reach(values, _mm256_i32gather_ps(thresholds, index, 4), reached, width);
  }
  static Integers reach(Values values, Values ends, Integers reached, Integers width) {
    const __m256i takes_step = _mm256_castps_si256(_mm256_cmp_ps(values, ends, _CMP_GE_OQ));
    return _mm256_add_epi32(reached, _mm256_and_si256(takes_step, width));
  }
  static Values edge(Integers number, Guesses step, Guesses low) {
    return _mm256_add_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(number), step), low);
  }
  static Values in_float32(Values values) {
    return values;
  }
  static Integers unless_above(Values values, Values last, Integers slots, Integers above) {
    const __m256i is_above = _mm256_castps_si256(_mm256_cmp_ps(values, last, _CMP_GT_OQ));
    return _mm256_blendv_epi8(slots, above, is_above);
  }
  static Integers unless_nan(Values values, Integers slots, Integers nan) {
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(values, values, _CMP_UNORD_Q));
    return _mm256_blendv_epi8(slots, nan, is_nan);
  }
};

/// 4 doubles.
struct Avx2Doubles {
  static constexpr int64_t kLanes = 4;
  using Values = __m256d;
  using Guesses = __m256d;
  using Integers = __m128i;

  static Values load(const double* data) {
    return _mm256_loadu_pd(data);
  }
  static Guesses load_guesses(const double* guesses) {
    return _mm256_loadu_pd(guesses);
  }
  static Integers load_integers(const int32_t* integers) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(integers));
  }
  static void store(uint8_t* slots, Integers integers) {
    const int low_bytes = _mm_cvtsi128_si32(_mm_shuffle_epi8(integers, _mm_set1_epi32(0x0c080400)));
    std::memcpy(slots, &low_bytes, sizeof low_bytes);
  }
  static void store(uint16_t* slots, Integers integers) {
    const __m128i low_words = _mm_shuffle_epi8(integers, _mm_set1_epi64x(0x0d0c090805040100));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(slots), low_words);
  }
  static void store(uint32_t* slots, Integers integers) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(slots), integers);
  }
  static Guesses all(double value) {
    return _mm256_set1_pd(value);
  }
  static Integers all_integers(int32_t value) {
    return _mm_set1_epi32(value);
  }
  static Integers add(Integers a, Integers b) {
    return _mm_add_epi32(a, b);
  }
  static Integers lesser(Integers a, Integers b) {
    return _mm_min_epi32(a, b);
  }
  static Integers greater(Integers a, Integers b) {
    return _mm_max_epi32(a, b);
  }
  static Integers inverted(Integers integers) {
    return _mm_xor_si128(integers, all_integers(-1));
  }
  static bool any_is_negative(Integers integers) {
    return _mm_movemask_ps(_mm_castsi128_ps(integers)) != 0;
  }
  static Guesses line(Values values, Guesses origin, Guesses scale, Guesses lift) {
    return _mm256_add_pd(_mm256_mul_pd(_mm256_sub_pd(values, origin), scale), lift);
  }
  static Guesses clamped(Guesses line, Guesses least, Guesses most) {
    return _mm256_min_pd(_mm256_max_pd(line, least), most); // NaN: the least
  }
  static Integers whole(Guesses line) {
    return _mm256_cvttpd_epi32(line);
  }
  static Guesses beyond(Guesses line, Integers whole) {
    return _mm256_sub_pd(line, _mm256_cvtepi32_pd(whole));
  }
  static bool any_is_below(Guesses a, Guesses b) {
    return _mm256_movemask_pd(_mm256_cmp_pd(a, b, _CMP_LT_OQ)) != 0;
  }
  static Integers bit_buckets(Values, const BitBuckets<double>&) {
    throw InternalError("bits of buckets: not of doubles");
  }
  static Integers lookup(const int32_t* table, Integers index) {
    return _mm_i32gather_epi32(table, index, 4);
  }
  static Integers step(
      Values values, const double* thresholds, Integers index, Integers reached, Integers width) {
    return reach(values, _mm256_i32gather_pd(thresholds, index, 8), reached, width);
  }
  static Integers reach(Values values, Values ends, Integers reached, Integers width) {
    const __m128i takes_step = of_doubles(_mm256_cmp_pd(values, ends, _CMP_GE_OQ));
    return _mm_add_epi32(reached, _mm_and_si128(takes_step, width));
  }
  static Values edge(Integers number, Guesses step, Guesses low) {
    return _mm256_add_pd(_mm256_mul_pd(_mm256_cvtepi32_pd(number), step), low);
  }
  static Values in_float32(Values values) {
    return _mm256_cvtps_pd(_mm256_cvtpd_ps(values));
  }
  static Integers unless_above(Values values, Values last, Integers slots, Integers above) {
    const __m128i is_above = of_doubles(_mm256_cmp_pd(values, last, _CMP_GT_OQ));
    return _mm_blendv_epi8(slots, above, is_above);
  }
  static Integers unless_nan(Values values, Integers slots, Integers nan) {
    const __m128i is_nan = of_doubles(_mm256_cmp_pd(values, values, _CMP_UNORD_Q));
    return _mm_blendv_epi8(slots, nan, is_nan);
  }

 private:
  /// A mask of 64 bits in each lane as one of 32.
  static __m128i of_doubles(__m256d mask) {
    const __m128 low = _mm256_castps256_ps128(_mm256_castpd_ps(mask));
    const __m128 high = _mm256_extractf128_ps(_mm256_castpd_ps(mask), 1);
    return _mm_castps_si128(_mm_shuffle_ps(low, high, _MM_SHUFFLE(2, 0, 2, 0)));
  }
};

template <class T>
using Avx2Vectors =
    std::conditional_t<std::is_same_v<ComparedAs<T>, float>, Avx2Floats, Avx2Doubles>;

} // namespace

template <class T, class Out>
void search(
    const ChannelSearch<ComparedAs<T>>& of,
    const SlotRule& rule,
    const T* data,
    int64_t size,
    Out* slots) {
  search_line<Avx2Vectors<T>>(of, rule, data, size, slots);
}

template <class T, class Out>
void search(
    const ColumnSearch<ComparedAs<T>>& of,
    const SlotRule& rule,
    const T* data,
    int64_t size,
    Out* slots) {
  search_columns<Avx2Vectors<T>>(of, rule, data, size, slots);
}

template <class T, class Out>
void search(
    const UniformSearch<ComparedAs<T>>& of,
    const SlotRule& rule,
    const T* data,
    int64_t size,
    Out* slots) {
  search_uniform<Avx2Vectors<T>>(of, rule, data, size, slots);
}

template <class T, class Out>
void search(
    const UniformColumnSearch<ComparedAs<T>>& of,
    const SlotRule& rule,
    const T* data,
    int64_t size,
    Out* slots) {
  search_uniform_columns<Avx2Vectors<T>>(of, rule, data, size, slots);
}

HISTO_SEARCHES(float)
HISTO_SEARCHES(double)
HISTO_SEARCHES(Float16)
HISTO_SEARCHES(BFloat16)

} // namespace histo::cpu::avx2

#ifdef __clang__
#pragma clang attribute pop
#endif

#endif
