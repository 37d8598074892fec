#include "cpu/count/matrix_products.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/problem.h"
#include "cpu/count/tiles.h"
#include "cpu/intrinsics.h"
#include "cpu/tuning.h"

namespace histo::cpu {

#ifdef __x86_64__

namespace {

#define HISTO_PRODUCTS [[HISTO_TARGET("avx512f,avx512bw,avx512vbmi")]]

constexpr uint8_t kFactor = 255;
constexpr int64_t kLine = tuning::kLineBytes;
constexpr int64_t kTurnBytes = kProducts * kLine;

static_assert(kProducts == 4 && kSums == kUppers * kLowers);

/// The matrices of the next products. They are made early: a load of bytes that were just stored
/// waits.
struct Matrices {
  struct Factors {
    alignas(kLine) char uppers[kUppers * kLine];
    char lowers[kLowers * kLine];
  };
  Factors of[kProducts];
};
constexpr int kAhead = kProducts - 1;

struct Constants {
  Vector lower_half;
  Vector columns;           // n, four times each
  Vector of_lower;          // factors by the lower six bits of byte xor n; 0 if it is not n's
  Vector of_upper[kUppers]; // factors by the upper half of a byte; 0 if it is not h's
};

HISTO_PRODUCTS [[gnu::always_inline]] inline Constants make_constants() {
  Constants the;
  the.lower_half = _mm512_set1_epi8(15);
  alignas(kLine) uint8_t columns[kLine];
  alignas(kLine) uint8_t of_lower[kLine] = {};
  for (int i = 0; i < kLine; ++i) {
    columns[i] = static_cast<uint8_t>(i / 4);
  }
  // The sixth bit belongs to h, so either value is found.
  of_lower[0] = of_lower[32] = 1;
  of_lower[16] = of_lower[48] = kFactor;
  the.columns = _mm512_load_si512(columns);
  the.of_lower = _mm512_load_si512(of_lower);
#pragma GCC unroll 8
  for (int upper = 0; upper < kUppers; ++upper) {
    constexpr uint64_t kFirsts = 0x0001000100010001; // of 16 bytes each
    the.of_upper[upper] = _mm512_mask_set1_epi8(
        _mm512_maskz_set1_epi8(kFirsts << (2 * upper), 1), kFirsts << (2 * upper + 1),
        static_cast<char>(kFactor));
  }
  return the;
}

/// Makes both matrices of 64 bytes, and calls f before their last row. A row of the second matrix
/// is of four bytes; the four entries of one n lie together.
template <class F>
HISTO_PRODUCTS [[gnu::always_inline]] inline void make_matrices(
    const Constants& the, const uint8_t* bytes, Matrices::Factors& of, const F& f) {
  const Vector upper = _mm512_srli_epi16(_mm512_loadu_si512(bytes), 4);
  const Vector halves = _mm512_and_si512(upper, the.lower_half);
  char* rows = of.uppers;
  // Without this the compiler takes bytes out of the vector, or has an address for each row.
  // Workaround gcc-12-addresses: see docs/tuning.md.
  __asm__("" : "+r"(bytes), "+r"(rows));
  static_assert(offsetof(Matrices::Factors, lowers) == kUppers * kLine);
#pragma GCC unroll 16
  for (int row = 0; row < kLowers; ++row) {
    if (row == kLowers - 1) {
      f();
    }
    if (row % 2 == 0) {
      _mm512_store_si512(
          rows + row / 2 * kLine, _mm512_shuffle_epi8(the.of_upper[row / 2], halves));
    }
    int32_t four;
    std::memcpy(&four, bytes + 4 * row, sizeof four);
    const Vector differing = _mm512_xor_si512(_mm512_set1_epi32(four), the.columns);
    _mm512_store_si512(
        rows + (kUppers + row) * kLine, _mm512_permutexvar_epi8(differing, the.of_lower));
  }
}

/// Makes the matrices of the first products.
HISTO_PRODUCTS [[gnu::always_inline]] inline void make_first(
    const Constants& the, const uint8_t* bytes, Matrices& matrices) {
#pragma GCC unroll 1
  for (int i = 0; i < kAhead; ++i) {
    make_matrices(the, bytes + i * kLine, matrices.of[i], []() __attribute__((always_inline)) {});
  }
}

/// Adds a product to a register of sums. Makes the matrices of `bytes`, the product kAhead later.
template <int kProduct, int kRegister>
HISTO_PRODUCTS [[gnu::always_inline]] inline void take_product(
    const Constants& the, const uint8_t* bytes, Matrices& matrices) {
  constexpr int kFirst = 4 + kProduct % 2 * 2, kSecond = kFirst + 1;
  const auto& made = matrices.of[kProduct];
  load_tile<kFirst>(made.uppers);
  load_tile<kSecond>(made.lowers);
  // Multiplying late is 3 % faster than at once.
  make_matrices(
      the, bytes, matrices.of[(kProduct + kAhead) % kProducts],
      []() __attribute__((always_inline)) { multiply_tiles<kRegister, kFirst, kSecond>(); });
}

/// Adds four products, of `bytes`; `next` are the bytes of the next turn. Calls f(i) before each.
template <int kFirst, int kSecond, int kThird, int kFourth, class F>
HISTO_PRODUCTS [[gnu::always_inline]] inline void take_turn(
    const Constants& the,
    const uint8_t* bytes,
    const uint8_t* next,
    Matrices& matrices,
    const F& f) {
  f(0);
  take_product<0, kFirst>(the, bytes + kAhead * kLine, matrices);
  f(1);
  take_product<1, kSecond>(the, next, matrices);
  f(2);
  take_product<2, kThird>(the, next + kLine, matrices);
  f(3);
  take_product<3, kFourth>(the, next + 2 * kLine, matrices);
}

HISTO_PRODUCTS void add_turns(const uint8_t* data, int64_t turns, uint32_t* sums) {
  Matrices matrices;
  const Constants the = make_constants();
  make_first(the, data, matrices);
  load_tile<0>(sums);
  load_tile<1>(sums + kSums);
  load_tile<2>(sums + 2 * kSums);
  load_tile<3>(sums + 3 * kSums);
  for (int64_t turn = 0; turn < turns; ++turn) {
    const uint8_t* next = data + (turn + 1 < turns ? kTurnBytes : 0); // the last are not used
    take_turn<0, 1, 2, 3>(the, data, next, matrices, [=](int i) __attribute__((always_inline)) {
      __builtin_prefetch(data + tuning::kAheadBytes + i * kLine);
    });
    data = next;
  }
  store_tile<0>(sums);
  store_tile<1>(sums + kSums);
  store_tile<2>(sums + 2 * kSums);
  store_tile<3>(sums + 3 * kSums);
}

/// Takes back the zeros that only filled up the data.
void subtract_zeros(int64_t zeros, uint32_t* sums) {
  sums[0] -= static_cast<uint32_t>(zeros);
}

// --- Columns

/// A transposed tile has pairs of columns. A pair has blocks of 64 rows, and a block has 64 bytes
/// of the first column, then those of the second.
constexpr int64_t kPairBytes = 2 * kLine;

/// Loads the same 16 bytes of four rows that lie 8 rows apart.
HISTO_PRODUCTS [[gnu::always_inline]] inline Vector four_rows(const uint8_t* data, int64_t stride) {
  const auto load16 = [=](int64_t row) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(data + row * stride));
  };
  // Loads with a mask leave the shuffles' port free.
  Vector rows = _mm512_castsi128_si512(load16(0));
  rows = _mm512_mask_broadcast_i32x4(rows, 0x00f0, load16(8));
  rows = _mm512_mask_broadcast_i32x4(rows, 0x0f00, load16(16));
  return _mm512_mask_broadcast_i32x4(rows, 0xf000, load16(24));
}

/// Transposes 64 rows of `sixteens` times 16 columns to pairs that lie `step` apart. The rows come
/// in any order.
HISTO_PRODUCTS void transpose(const LineBlock& lines, int64_t sixteens, int64_t step, char* pairs) {
  for (int64_t i = 0; i < sixteens; ++i) {
    Vector rows[2][8];
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      const uint8_t* data = lines.data + 16 * i + half * 32 * lines.stride;
#pragma GCC unroll 8
      for (int j = 0; j < 8; ++j) {
        rows[half][j] = four_rows(data + j * lines.stride, lines.stride);
      }
      transpose_bytes(rows[half]);
    }
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j, pairs += step) {
      _mm512_store_si512(pairs, _mm512_unpacklo_epi64(rows[0][j], rows[1][j]));
      _mm512_store_si512(pairs + kLine, _mm512_unpackhi_epi64(rows[0][j], rows[1][j]));
    }
  }
}

/// Prefetches the next lines, four at a time. They follow each other if rows are near. Far rows
/// wait for a page each, so the lines are one of each of four rows.
struct RowsAhead {
  const char* at;
  int64_t line; // from one of four to the next
  int64_t step; // from four to the next
  int64_t width;
  int64_t skip; // behind the width
  int64_t column = 0;

  RowsAhead(const Ahead& ahead, int64_t columns) : at(ahead.line) {
    const bool far = are_far(ahead.step);
    line = far ? ahead.step : kLine;
    step = far ? kLine : kTurnBytes;
    width = ceil_div(columns, step) * step;
    skip = (far ? kProducts : 1) * ahead.step - width;
    if (!far && ahead.step < columns + kLine) {
      width = std::numeric_limits<int64_t>::max(); // nothing lies between them
    }
  }

  void fetch(int i) const {
    constexpr int kToL2 = 2;
    __builtin_prefetch(at + i * line, 0, kToL2);
  }

  void end_turn() {
    at += step;
    column += step;
    if (column >= width) {
      at += skip;
      column = 0;
    }
  }
};

/// Adds a pair of columns to the registers 2 * kSet and 2 * kSet + 1. Meanwhile the other two are
/// stored to `before` and loaded from `after`.
template <int kSet>
HISTO_PRODUCTS [[gnu::always_inline]] inline const uint8_t* take_pair(
    const Constants& the,
    const uint8_t* bytes,
    int64_t turns,
    Matrices& matrices,
    uint32_t* before,
    const uint32_t* after,
    RowsAhead& ahead) {
  constexpr int kOne = 2 * kSet, kOther = 2 - kOne;
#pragma GCC unroll 1
  for (int64_t turn = 0; turn < turns; ++turn) {
    const uint8_t* next = bytes + kTurnBytes;
    take_turn<kOne, kOne + 1, kOne, kOne + 1>(
        the, bytes, next, matrices, [&](int i) __attribute__((always_inline)) { ahead.fetch(i); });
    ahead.end_turn();
    bytes = next;
    if (turn == 0) {
      store_tile<kOther>(before);
      store_tile<kOther + 1>(before + kSums);
      load_tile<kOther>(after);
      load_tile<kOther + 1>(after + kSums);
    }
  }
  return bytes;
}

HISTO_PRODUCTS void multiply_pairs(
    const char* pairs, int64_t fours, int64_t turns, uint32_t* sums, RowsAhead& ahead) {
  constexpr int64_t kPairSums = 2 * kSums;
  Matrices matrices;
  const Constants the = make_constants();
  const auto* bytes = reinterpret_cast<const uint8_t*>(pairs);
  make_first(the, bytes, matrices);
  load_tile<0>(sums);
  load_tile<1>(sums + kSums);
  load_tile<2>(sums); // take_pair stores them unchanged
  load_tile<3>(sums + kSums);
  uint32_t* before = sums;
  for (int64_t i = 0; i < fours; ++i) {
    uint32_t* odd = sums + kPairSums;
    uint32_t* after = i + 1 < fours ? odd + kPairSums : sums;
    bytes = take_pair<0>(the, bytes, turns, matrices, before, odd, ahead);
    bytes = take_pair<1>(the, bytes, turns, matrices, sums, after, ahead);
    before = odd;
    sums = after;
  }
  store_tile<2>(before);
  store_tile<3>(before + kSums);
}

} // namespace

void add_products(const uint8_t* data, int64_t size, uint32_t* sums) {
  const TilesInUse in_use;
  const int64_t turns = size / kTurnBytes;
  if (turns > 0) {
    add_turns(data, turns, sums);
  }
  if (const int64_t left = size - turns * kTurnBytes; left > 0) {
    alignas(kLine) uint8_t filled[kTurnBytes] = {};
    std::memcpy(filled, data + turns * kTurnBytes, static_cast<size_t>(left));
    add_turns(filled, 1, sums);
    for (int64_t i = 0; i < kProducts; ++i, sums += kSums) {
      subtract_zeros(std::clamp<int64_t>((i + 1) * kLine - left, 0, kLine), sums);
    }
  }
}

void add_column_products(
    const ByteColumns& tile, const Ahead& ahead, char* scratch, uint32_t* sums) {
  const TilesInUse in_use;
  RowsAhead rows_ahead(ahead, tile.columns);
  const int64_t turns = ceil_div(tile.rows, kProductTurnRows);
  const int64_t rows = turns * kProductTurnRows;
  for (int64_t column = 0; column < tile.columns; column += kLine) {
    const int64_t width = std::min(kLine, tile.columns - column);
    for (int64_t row = 0; row < rows; row += kLine) {
      alignas(kLine) FilledLines filled;
      transpose(
          line_block_of(tile, row, column, filled), ceil_div(width, 16), turns * kTurnBytes,
          scratch + row / kLine * kPairBytes);
    }
    multiply_pairs(
        scratch, ceil_div(width, kProductColumns), turns, sums + column * kSums, rows_ahead);
  }
  for (int64_t column = 0; column < tile.columns && rows > tile.rows; ++column) {
    subtract_zeros(rows - tile.rows, sums + column * kSums);
  }
}

HISTO_PRODUCTS void counts_of_products(const uint32_t* sums, int64_t size, uint32_t* counts) {
  constexpr uint32_t kSecond = kFactor * kFactor;
  static_assert(kMaxProductBytes < kSecond);
  std::fill_n(counts, 2 * kSums, 0);
  for (int64_t i = 0; i < size; ++i, sums += kSums) {
    for (int upper = 0; upper < kUppers; ++upper) {
      uint32_t* firsts = counts + 2 * upper * kLowers;
      for (int lower = 0; lower < kLowers; ++lower) {
        const uint32_t sum = sums[upper * kLowers + lower];
        firsts[lower] += sum % kSecond;
        firsts[kLowers + lower] += sum / kSecond;
      }
    }
  }
}

HISTO_PRODUCTS void put_column_products(const uint32_t* sums, const Histograms& to) {
  const bool past_caches = to.are_lines();
  int64_t* histogram = to.counts;
  for (int64_t i = 0; i < to.columns; ++i, sums += kSums, histogram += to.num_bins) {
    alignas(kLine) uint32_t counts[2 * kSums];
    counts_of_products(sums, 1, counts);
    for (int64_t value = 0; value < to.values; value += 8) {
      const auto* eight = reinterpret_cast<const __m256i*>(counts + value);
      const Vector added = _mm512_cvtepu32_epi64(_mm256_load_si256(eight));
      put_eight(added, histogram + value, to.values - value, to.add, past_caches);
    }
  }
  if (past_caches) {
    _mm_sfence(); // ends the stores before another thread learns of them
  }
}

#else

void add_products(const uint8_t*, int64_t, uint32_t*) {
}

void add_column_products(const ByteColumns&, const Ahead&, char*, uint32_t*) {
}

void counts_of_products(const uint32_t*, int64_t, uint32_t*) {
}

void put_column_products(const uint32_t*, const Histograms&) {
}

#endif

} // namespace histo::cpu
