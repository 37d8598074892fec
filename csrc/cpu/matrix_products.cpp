#include "matrix_products.h"

#include <cstring>
#include <utility>

#include "intrinsics.h"
#include "tuning.h"

namespace histo::cpu {

#ifdef __x86_64__

namespace {

#define HISTO_PRODUCTS [[gnu::target("avx512f,avx512bw")]]

using Vector = __m512i;

constexpr int kHalves = 16; // values of half a byte
constexpr int64_t kLine = tuning::kLineBytes;
constexpr int64_t kMatrixBytes = kHalves * kLine;
constexpr int64_t kTurnBytes = kProducts * kLine;

/// Eight registers of 16 rows of 64 bytes, as the processor wants to be told.
struct Registers {
  alignas(kLine) uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  constexpr Registers() {
    for (int i = 0; i < 8; ++i) {
      row_bytes[i] = kLine;
      rows[i] = kHalves;
    }
  }
};

constexpr Registers kRegisters;

// In assembly: GCC's functions do not say that they read memory. Registers 0 to 3 are the sums, and
// 4 to 7 two pairs of matrices.
static_assert(kProducts == 4);

template <int kRegister>
[[gnu::always_inline]] inline void load(const void* from) {
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(kLine), "i"(kRegister)
                   : "memory");
}

template <int kRegister>
[[gnu::always_inline]] inline void store(void* to) {
  __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(kLine), "i"(kRegister)
                   : "memory");
}

/// What is multiplied in a turn.
struct Matrices {
  alignas(kLine) char of[kProducts][2][kMatrixBytes];
};

template <int kProduct>
[[gnu::always_inline]] inline void add_product(const Matrices& matrices) {
  constexpr int kUppers = 4 + kProduct % 2 * 2, kLowers = kUppers + 1;
  load<kUppers>(matrices.of[kProduct][0]);
  load<kLowers>(matrices.of[kProduct][1]);
  __asm__ volatile(
      "tdpbuud %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kProduct), "i"(kUppers), "i"(kLowers));
}

struct Constants {
  Vector low_half, one;
  Vector limits;           // n + 1, four times each
  Vector is_half[kHalves]; // a lookup of this value finds 1
};

HISTO_PRODUCTS [[gnu::always_inline]] inline Constants make_constants() {
  Constants the;
  the.low_half = _mm512_set1_epi8(15);
  the.one = _mm512_set1_epi8(1);
  alignas(kLine) uint8_t limits[kLine];
  for (int i = 0; i < kLine; ++i) {
    limits[i] = static_cast<uint8_t>(i / 4 + 1);
  }
  the.limits = _mm512_load_si512(limits);
#pragma GCC unroll 16
  for (int half = 0; half < kHalves; ++half) {
    the.is_half[half] = _mm512_maskz_set1_epi8(uint64_t{0x0001000100010001} << half, 1);
  }
  return the;
}

/// Lower halves + 1, of which make_matrices loads four at a time.
HISTO_PRODUCTS [[gnu::always_inline]] inline void make_lows(
    const Constants& the, const uint8_t* bytes, char* lows) {
  const Vector halves = _mm512_and_si512(_mm512_loadu_si512(bytes), the.low_half);
  _mm512_store_si512(lows, _mm512_add_epi8(halves, the.one));
}

/// Both matrices of 64 bytes. A row of the second is of four bytes, and has those of one n together.
HISTO_PRODUCTS [[gnu::always_inline]] inline void make_matrices(
    const Constants& the, const uint8_t* bytes, const char* lows, char (&of)[2][kMatrixBytes]) {
  const Vector upper = _mm512_srli_epi16(_mm512_loadu_si512(bytes), 4);
  const Vector halves = _mm512_and_si512(upper, the.low_half);
#pragma GCC unroll 16
  for (int row = 0; row < kHalves; ++row) {
    _mm512_store_si512(of[0] + row * kLine, _mm512_shuffle_epi8(the.is_half[row], halves));
    Vector four;
    // Loaded, or the compiler takes them out of a vector.
    __asm__("vpbroadcastd %1, %0"
            : "=v"(four)
            : "m"(*reinterpret_cast<const char (*)[4]>(lows + 4 * row)));
    _mm512_store_si512(of[1] + row * kLine, _mm512_min_epu8(four, the.limits));
  }
}

/// What a turn needs of its bytes, and of those of the next: what was just stored waits.
template <int kProduct>
HISTO_PRODUCTS [[gnu::always_inline]] inline void prepare(
    const Constants& the, const uint8_t* data, int64_t step, char* lows, Matrices& matrices) {
  data += kProduct * kLine;
  lows += kProduct * kLine;
  __builtin_prefetch(data + tuning::kAheadBytes);
  make_matrices(the, data, lows, matrices.of[kProduct]);
  make_lows(the, data + step, lows);
}

template <int... kEach>
HISTO_PRODUCTS void add_turns(
    const uint8_t* data, int64_t turns, uint32_t* sums, std::integer_sequence<int, kEach...>) {
  Matrices matrices[2];
  alignas(kLine) char lows[kTurnBytes];
  const Constants the = make_constants();
  (make_lows(the, data + kEach * kLine, lows + kEach * kLine), ...);
  (load<kEach>(sums + kEach * kSums), ...);
  for (int64_t turn = 0; turn < turns; ++turn) {
    const int64_t step = turn + 1 < turns ? kTurnBytes : 0; // or what is not used
    Matrices& made = matrices[turn % 2];
    if (turn == 0) {
      (prepare<kEach>(the, data, step, lows, made), ...);
    } else {
      // Those of the turn before, which wait no more.
      const Matrices& stored = matrices[(turn + 1) % 2];
      ((prepare<kEach>(the, data, step, lows, made), add_product<kEach>(stored)), ...);
    }
    data += step;
  }
  (add_product<kEach>(matrices[(turns + 1) % 2]), ...);
  (store<kEach>(sums + kEach * kSums), ...);
}

} // namespace

void add_products(const uint8_t* data, int64_t size, uint32_t* sums) {
  // Nobody keeps anything in these registers from call to call.
  __asm__ volatile("ldtilecfg %0" ::"m"(kRegisters));
  constexpr std::make_integer_sequence<int, kProducts> kEach;
  const int64_t turns = size / kTurnBytes;
  if (turns > 0) {
    add_turns(data, turns, sums, kEach);
  }
  if (const int64_t left = size - turns * kTurnBytes; left > 0) {
    alignas(kLine) uint8_t filled[kTurnBytes] = {};
    std::memcpy(filled, data + turns * kTurnBytes, static_cast<size_t>(left));
    add_turns(filled, 1, sums, kEach);
    // Zeros that were not there were added to the first row, as 1 to each sum.
    for (int n = 0; n < kHalves; ++n) {
      sums[n] -= static_cast<uint32_t>(kTurnBytes - left);
    }
  }
  __asm__ volatile("tilerelease");
}

void counts_of_products(const uint32_t* sums, uint32_t* counts) {
  for (int upper = 0; upper < kHalves; ++upper) {
    // at[n + 1]: the sum for n. One is added to it by each lower half of n and more, besides.
    uint32_t at[kHalves + 2] = {};
    for (int64_t i = 0; i < kProducts; ++i) {
      for (int n = 0; n < kHalves; ++n) {
        at[n + 1] += sums[i * kSums + upper * kHalves + n];
      }
    }
    at[kHalves + 1] = at[kHalves];
    for (int lower = 0; lower < kHalves; ++lower) {
      counts[upper * kHalves + lower] = 2 * at[lower + 1] - at[lower] - at[lower + 2];
    }
  }
}

#else

void add_products(const uint8_t*, int64_t, uint32_t*) {
}

void counts_of_products(const uint32_t*, uint32_t*) {
}

#endif

} // namespace histo::cpu
