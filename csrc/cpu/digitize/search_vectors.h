// Searches in vectors. Files that compile them for an instruction set include this one, behind the
// target: they name the set HISTO_SET and say with HISTO_HAS_AVX512 which one it is. The compiler's own
// vectors do the arithmetic; what they lack has a function for each set.
#pragma once

#include <cstring>
#include <type_traits>
#include <utility>

#include "cpu/digitize/search_loops.h"
#include "cpu/digitize/search_sets.h"

namespace histo::cpu::HISTO_SET {
namespace {

constexpr int64_t kVectorBytes = HISTO_HAS_AVX512 ? 64 : 32;

template <class T, int64_t kLanes>
struct VectorOf {
  typedef T Type __attribute__((vector_size(kLanes * sizeof(T))));
};

/// Comparisons, choices, gathers and conversions. `where` takes `a` where a comparison holds, else `b`.
template <class Compared>
struct Instructions;

#if HISTO_HAS_AVX512
template <>
struct Instructions<float> {
  using Mask = __mmask16;
  using Bits = __m512i;

  template <int kHow>
  static Mask compare(__m512 a, __m512 b) {
    return _mm512_cmp_ps_mask(a, b, kHow);
  }
  static bool any(Mask mask) {
    return mask != 0;
  }
  static __m512i add_where(Mask mask, __m512i integers, __m512i added) {
    return _mm512_mask_add_epi32(integers, mask, integers, added);
  }
  static __m512i where(Mask mask, __m512i a, __m512i b) {
    return _mm512_mask_mov_epi32(b, mask, a);
  }
  static bool any_is_negative(__m512i integers) {
    return _mm512_movepi32_mask(integers) != 0;
  }
  static __m512i gather(const int32_t* table, __m512i index) {
    return _mm512_i32gather_epi32(index, table, 4);
  }
  static __m512 gather(const float* table, __m512i index) {
    return _mm512_i32gather_ps(index, table, 4);
  }
  static __m512 clamped(__m512 line, __m512 least, __m512 most) {
    return _mm512_min_ps(_mm512_max_ps(line, least), most); // NaN: the least
  }
  static __m512 floats(__m512i integers) {
    return _mm512_cvtepi32_ps(integers);
  }
  static __m512 load(const Float16* data) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(data)));
  }
};
template <>
struct Instructions<double> {
  using Mask = __mmask8;
  using Bits = __m256i;

  template <int kHow>
  static Mask compare(__m512d a, __m512d b) {
    return _mm512_cmp_pd_mask(a, b, kHow);
  }
  static bool any(Mask mask) {
    return mask != 0;
  }
  static __m256i add_where(Mask mask, __m256i integers, __m256i added) {
    return _mm256_mask_add_epi32(integers, mask, integers, added);
  }
  static __m256i where(Mask mask, __m256i a, __m256i b) {
    return _mm256_mask_mov_epi32(b, mask, a);
  }
  static bool any_is_negative(__m256i integers) {
    return _mm256_movepi32_mask(integers) != 0;
  }
  static __m256i gather(const int32_t* table, __m256i index) {
    return _mm256_i32gather_epi32(table, index, 4);
  }
  static __m512d gather(const double* table, __m256i index) {
    return _mm512_i32gather_pd(index, table, 8);
  }
  static __m512d clamped(__m512d line, __m512d least, __m512d most) {
    return _mm512_min_pd(_mm512_max_pd(line, least), most); // NaN: the least
  }
  static __m512d floats(__m256i integers) {
    return _mm512_cvtepi32_pd(integers);
  }
  static __m512d in_float32(__m512d values) {
    return _mm512_cvtps_pd(_mm512_cvtpd_ps(values));
  }
};
#else
template <>
struct Instructions<float> {
  using Mask = __m256i;
  using Bits = __m256i;

  template <int kHow>
  static Mask compare(__m256 a, __m256 b) {
    return _mm256_castps_si256(_mm256_cmp_ps(a, b, kHow));
  }
  static bool any(Mask mask) {
    return any_is_negative(mask);
  }
  static __m256i add_where(Mask mask, __m256i integers, __m256i added) {
    return _mm256_add_epi32(integers, _mm256_and_si256(mask, added));
  }
  static __m256i where(Mask mask, __m256i a, __m256i b) {
    return _mm256_blendv_epi8(b, a, mask);
  }
  static bool any_is_negative(__m256i integers) {
    return _mm256_movemask_ps(_mm256_castsi256_ps(integers)) != 0;
  }
  static __m256i gather(const int32_t* table, __m256i index) {
    return _mm256_i32gather_epi32(table, index, 4);
  }
  static __m256 gather(const float* table, __m256i index) {
    return _mm256_i32gather_ps(table, index, 4);
  }
  static __m256 clamped(__m256 line, __m256 least, __m256 most) {
    return _mm256_min_ps(_mm256_max_ps(line, least), most); // NaN: the least
  }
  static __m256 floats(__m256i integers) {
    return _mm256_cvtepi32_ps(integers);
  }
  static __m256 load(const Float16* data) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(data)));
  }
  static void store(uint8_t* slots, Bits integers) {
    const __m256i low_bytes = _mm256_shuffle_epi8(integers, _mm256_set1_epi32(0x0c080400));
    const __m128i halves = _mm_unpacklo_epi32(
        _mm256_castsi256_si128(low_bytes), _mm256_extracti128_si256(low_bytes, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(slots), halves);
  }
  static void store(uint16_t* slots, Bits integers) {
    const __m256i low_words = _mm256_shuffle_epi8(integers, _mm256_set1_epi64x(0x0d0c090805040100));
    const __m128i halves = _mm_unpacklo_epi64(
        _mm256_castsi256_si128(low_words), _mm256_extracti128_si256(low_words, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(slots), halves);
  }
};
template <>
struct Instructions<double> {
  using Mask = __m128i;
  using Bits = __m128i;

  /// The masks of 64 bits become masks of 32.
  template <int kHow>
  static Mask compare(__m256d a, __m256d b) {
    const __m256 mask = _mm256_castpd_ps(_mm256_cmp_pd(a, b, kHow));
    const __m128 low = _mm256_castps256_ps128(mask), high = _mm256_extractf128_ps(mask, 1);
    return _mm_castps_si128(_mm_shuffle_ps(low, high, _MM_SHUFFLE(2, 0, 2, 0)));
  }
  static bool any(Mask mask) {
    return any_is_negative(mask);
  }
  static __m128i add_where(Mask mask, __m128i integers, __m128i added) {
    return _mm_add_epi32(integers, _mm_and_si128(mask, added));
  }
  static __m128i where(Mask mask, __m128i a, __m128i b) {
    return _mm_blendv_epi8(b, a, mask);
  }
  static bool any_is_negative(__m128i integers) {
    return _mm_movemask_ps(_mm_castsi128_ps(integers)) != 0;
  }
  static __m128i gather(const int32_t* table, __m128i index) {
    return _mm_i32gather_epi32(table, index, 4);
  }
  static __m256d gather(const double* table, __m128i index) {
    return _mm256_i32gather_pd(table, index, 8);
  }
  static __m256d clamped(__m256d line, __m256d least, __m256d most) {
    return _mm256_min_pd(_mm256_max_pd(line, least), most); // NaN: the least
  }
  static __m256d floats(__m128i integers) {
    return _mm256_cvtepi32_pd(integers);
  }
  static __m256d in_float32(__m256d values) {
    return _mm256_cvtps_pd(_mm256_cvtpd_ps(values));
  }
  static void store(uint8_t* slots, Bits integers) {
    const int low_bytes = _mm_cvtsi128_si32(_mm_shuffle_epi8(integers, _mm_set1_epi32(0x0c080400)));
    std::memcpy(slots, &low_bytes, sizeof low_bytes);
  }
  static void store(uint16_t* slots, Bits integers) {
    const __m128i low_words = _mm_shuffle_epi8(integers, _mm_set1_epi64x(0x0d0c090805040100));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(slots), low_words);
  }
};
#endif

/// A vector of floats or doubles, and as many integers of 32 bits.
template <class Compared>
struct Vectors {
  static constexpr int64_t kLanes = kVectorBytes / static_cast<int64_t>(sizeof(Compared));
  using Values = typename VectorOf<Compared, kLanes>::Type;
  using Guesses = Values;
  using Integers = typename VectorOf<int32_t, kLanes>::Type;
  using Set = Instructions<Compared>;

  template <class T>
  static Values load(const T* data) {
    if constexpr (std::is_same_v<T, BFloat16>) {
      using Wide = typename VectorOf<uint32_t, kLanes>::Type;
      const auto halves = load_any<uint16_t>(reinterpret_cast<const uint16_t*>(data));
      return (Values)(__builtin_convertvector(halves, Wide) << 16);
    } else if constexpr (std::is_same_v<T, Float16>) {
      return Set::load(data);
    } else {
      static_assert(std::is_same_v<T, Compared>);
      return load_any<T>(data);
    }
  }
  /// Loads values at a stride, and what is between them and behind the last of them.
  template <class T>
  static Values load_every(const T* data, [[maybe_unused]] int64_t stride) {
    if constexpr (std::is_same_v<T, Compared>) {
      const auto vector = [data](int64_t i) { return load(data + i * kLanes); };
      switch (stride) {
        case 2:
          return every_second(vector(0), vector(1), kAll);
        case 3:
          return every_third(vector(0), vector(1), vector(2), kAll);
        case 4:
          return every_second(
              every_second(vector(0), vector(1), kAll), every_second(vector(2), vector(3), kAll),
              kAll);
        default:
          break;
      }
    }
    return load(data);
  }
  static Guesses load_guesses(const Compared* guesses) {
    return load_any<Compared>(guesses);
  }
  static Integers load_integers(const int32_t* integers) {
    return load_any<int32_t>(integers);
  }
  template <class Out>
  static void store(Out* slots, Integers integers) {
    if constexpr (!HISTO_HAS_AVX512 && sizeof(Out) < sizeof(int32_t)) {
      Set::store(slots, (Bits)integers); // compilers take many instructions
    } else {
      const auto out = __builtin_convertvector(integers, typename VectorOf<Out, kLanes>::Type);
      std::memcpy(slots, &out, sizeof out);
    }
  }
  static Guesses all(Compared value) {
    return value - Guesses{};
  }
  static Integers all_integers(int32_t value) {
    return value - Integers{};
  }
  static Integers add(Integers a, Integers b) {
    return a + b;
  }
  static Integers lesser(Integers a, Integers b) {
    return a < b ? a : b;
  }
  static Integers greater(Integers a, Integers b) {
    return a > b ? a : b;
  }
  static Integers inverted(Integers integers) {
    return ~integers;
  }
  static bool any_is_negative(Integers integers) {
    return Set::any_is_negative((Bits)integers);
  }
  static Guesses line(Values values, Guesses origin, Guesses scale, Guesses lift) {
    return (values - origin) * scale + lift;
  }
  static Guesses clamped(Guesses line, Guesses least, Guesses most) {
    return Set::clamped(line, least, most);
  }
  static Integers whole(Guesses line) {
    return __builtin_convertvector(line, Integers);
  }
  static Guesses beyond(Guesses line, Integers whole) {
    return line - Set::floats((Bits)whole);
  }
  static bool any_is_below(Guesses a, Guesses b) {
    return Set::any(Set::template compare<_CMP_LT_OQ>(a, b));
  }
  static Integers bit_buckets(Values values, const BitBuckets<Compared>& of) {
    if constexpr (sizeof(Compared) == 4) {
      using Positive = typename VectorOf<uint32_t, kLanes>::Type;
      const auto bits = (Integers)values;
      const Integers sign = bits >> 31;
      const Integers ordinal = ((bits & INT32_MAX) ^ sign) - sign;
      const Integers first = all_integers(static_cast<int32_t>(of.first));
      // The distance may be more than the largest int32.
      const Positive buckets = ((Positive)greater(ordinal, first) - (Positive)first) >> of.shift;
      const Positive last = static_cast<uint32_t>(of.last) - Positive{};
      return (Integers)(buckets < last ? buckets : last);
    } else {
      throw InternalError("bits of buckets: not of doubles");
    }
  }
  static Integers lookup(const int32_t* table, Integers index) {
    return (Integers)Set::gather(table, (Bits)index);
  }
  static Integers step(
      Values values, const Compared* thresholds, Integers index, Integers reached, Integers width) {
    return reach(values, Set::gather(thresholds, (Bits)index), reached, width);
  }
  static Integers reach(Values values, Values ends, Integers reached, Integers width) {
    const auto reaches = Set::template compare<_CMP_GE_OQ>(values, ends);
    return (Integers)Set::add_where(reaches, (Bits)reached, (Bits)width);
  }
  static Values edge(Integers number, Guesses step, Guesses low) {
    return Set::floats((Bits)number) * step + low;
  }
  static Values in_float32(Values values) {
    if constexpr (sizeof(Compared) == sizeof(float)) {
      return values;
    } else {
      return Set::in_float32(values);
    }
  }
  static Integers unless_above(Values values, Values last, Integers slots, Integers above) {
    return where<_CMP_GT_OQ>(values, last, above, slots);
  }
  static Integers unless_nan(Values values, Integers slots, Integers nan) {
    return where<_CMP_UNORD_Q>(values, values, nan, slots);
  }

 private:
  using Bits = typename Set::Bits;
  using Index = std::conditional_t<sizeof(Compared) == 4, int32_t, int64_t>;
  static constexpr std::make_integer_sequence<Index, kLanes> kAll{};

  /// The lanes of a, followed by those of b, that the numbers tell.
  template <Index... kLane>
  static Values shuffled(Values a, Values b) {
#ifdef __clang__
    return __builtin_shufflevector(a, b, kLane...);
#else
    return __builtin_shuffle(a, b, typename VectorOf<Index, kLanes>::Type{kLane...});
#endif
  }
  template <Index... i>
  static Values every_second(Values a, Values b, std::integer_sequence<Index, i...>) {
    return shuffled<2 * i...>(a, b);
  }
  template <Index... i>
  static Values every_third(Values a, Values b, Values c, std::integer_sequence<Index, i...>) {
    constexpr Index kTwo = 2 * kLanes; // lanes of a and b
    const Values of_two = shuffled<(3 * i < kTwo ? 3 * i : 0)...>(a, b);
    return shuffled<(3 * i < kTwo ? i : 3 * i - kLanes)...>(of_two, c);
  }
  template <class T>
  static auto load_any(const T* data) {
    typename VectorOf<T, kLanes>::Type values;
    std::memcpy(&values, data, sizeof values);
    return values;
  }
  template <int kHow>
  static Integers where(Values a, Values b, Integers then, Integers otherwise) {
    return (Integers)Set::where(Set::template compare<kHow>(a, b), (Bits)then, (Bits)otherwise);
  }
};

} // namespace

template <class Search, class T, class Out>
void search(const Search& of, const SlotRule& rule, const Searched<T>& values, Out* slots) {
  search_with<Vectors<ComparedAs<T>>>(of, rule, values, slots);
}

HISTO_SEARCHES(float)
HISTO_SEARCHES(double)
HISTO_SEARCHES(Float16)
HISTO_SEARCHES(BFloat16)

} // namespace histo::cpu::HISTO_SET
