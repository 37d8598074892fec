#include "cpu/select/brackets.h"

#include <array>

#include "cpu/intrinsics.h"
#include "cpu/run_widest.h"

namespace histo::cpu {
namespace {

template <class Key>
int64_t compare_any(
    const Key* keys,
    int64_t size,
    const std::vector<Bracket<Key>>& brackets,
    int64_t* from,
    Key* out) {
  constexpr int64_t kGroup = tuning::kComparedKeys;
  std::array<Key, tuning::kKeysPerTile> flags;
  int64_t copied = 0;
  run_widest([&]() __attribute__((always_inline)) {
    Key* inside = flags.data();
    std::fill_n(inside, size, Key{0});
    for (size_t i = 0; i < brackets.size(); ++i) {
      const Key low = brackets[i].low, width = brackets[i].high - low;
      Key from_low = 0;
      for (int64_t j = 0; j < size; ++j) {
        from_low += keys[j] >= low ? 1 : 0;
      }
      for (int64_t j = 0; width > 0 && j < size; ++j) {
        inside[j] |= keys[j] - low < width ? 1 : 0;
      }
      from[i] += static_cast<int64_t>(from_low);
    }
    int64_t kept = 0;
    for (int64_t begin = 0; begin < size; begin += kGroup) {
      const int64_t end = std::min(begin + kGroup, size);
      Key any = 0;
      for (int64_t j = begin; j < end; ++j) {
        any |= inside[j];
      }
      for (int64_t j = begin; any != 0 && j < end; ++j) {
        out[kept] = keys[j];
        kept += static_cast<int64_t>(inside[j]);
      }
    }
    copied = kept;
  });
  return copied;
}

#ifdef __x86_64__

#define HISTO_LANES gnu::target("avx512f,popcnt"), gnu::always_inline

template <class Key>
struct Lanes;

template <>
struct Lanes<uint32_t> {
  [[HISTO_LANES]] static __m512i all(uint32_t key) {
    return _mm512_set1_epi32(static_cast<int>(key));
  }
  [[HISTO_LANES]] static uint64_t at_least(__m512i keys, __m512i low) {
    return _mm512_cmpge_epu32_mask(keys, low);
  }
  [[HISTO_LANES]] static uint64_t below(uint64_t some, __m512i keys, __m512i high) {
    return _mm512_mask_cmplt_epu32_mask(static_cast<__mmask16>(some), keys, high);
  }
  [[HISTO_LANES]] static __m512i packed(uint64_t some, __m512i keys) {
    return _mm512_maskz_compress_epi32(static_cast<__mmask16>(some), keys);
  }
};

template <>
struct Lanes<uint64_t> {
  [[HISTO_LANES]] static __m512i all(uint64_t key) {
    return _mm512_set1_epi64(static_cast<int64_t>(key));
  }
  [[HISTO_LANES]] static uint64_t at_least(__m512i keys, __m512i low) {
    return _mm512_cmpge_epu64_mask(keys, low);
  }
  [[HISTO_LANES]] static uint64_t below(uint64_t some, __m512i keys, __m512i high) {
    return _mm512_mask_cmplt_epu64_mask(static_cast<__mmask8>(some), keys, high);
  }
  [[HISTO_LANES]] static __m512i packed(uint64_t some, __m512i keys) {
    return _mm512_maskz_compress_epi64(static_cast<__mmask8>(some), keys);
  }
};

/// Compares the keys of four vectors at once, and returns how many keys are left.
template <class Key>
[[gnu::target("avx512f,popcnt")]] int64_t compare_avx512(
    const Key* keys,
    int64_t size,
    const std::vector<Bracket<Key>>& brackets,
    int64_t* from,
    Key* out) {
  using L = Lanes<Key>;
  constexpr int kVectors = 4;
  constexpr int64_t kLanes = 64 / sizeof(Key);
  int64_t kept = 0, i = 0;
  for (; i + kVectors * kLanes <= size; i += kVectors * kLanes) {
    __m512i v[kVectors];
    uint64_t inside[kVectors] = {};
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      v[j] = _mm512_loadu_si512(keys + i + j * kLanes);
    }
    for (size_t b = 0; b < brackets.size(); ++b) {
      const __m512i low = L::all(brackets[b].low), high = L::all(brackets[b].high);
      uint64_t some[kVectors];
      int64_t from_low = 0;
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) {
        some[j] = L::at_least(v[j], low);
        from_low += _mm_popcnt_u64(some[j]);
      }
      from[b] += from_low;
      if (brackets[b].low == brackets[b].high) {
        continue;
      }
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) {
        inside[j] |= L::below(some[j], v[j], high);
      }
    }
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      _mm512_storeu_si512(out + kept, L::packed(inside[j], v[j]));
      kept += _mm_popcnt_u64(inside[j]);
    }
  }
  return kept + compare_any(keys + i, size - i, brackets, from, out + kept);
}

#endif

} // namespace

template <class Key>
int64_t compare(
    const Key* keys,
    int64_t size,
    const std::vector<Bracket<Key>>& brackets,
    int64_t* from,
    Key* out) {
#ifdef __x86_64__
  if (has_avx512()) {
    return compare_avx512(keys, size, brackets, from, out);
  }
#endif
  return compare_any(keys, size, brackets, from, out);
}
template int64_t compare(
    const uint32_t*, int64_t, const std::vector<Bracket<uint32_t>>&, int64_t*, uint32_t*);
template int64_t compare(
    const uint64_t*, int64_t, const std::vector<Bracket<uint64_t>>&, int64_t*, uint64_t*);

} // namespace histo::cpu
