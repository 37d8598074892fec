#include "bit_planes.h"

#include <cstring>

#include "../problem.h"
#include "vectorized.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 takes the undefined vectors in its own header for a mistake (its bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace histo::cpu {

#ifdef __x86_64__

namespace {

#define HISTO_BITS [[gnu::target("avx512f,avx512bw,avx512vbmi,avx512vpopcntdq,gfni")]]
#define HISTO_INLINE HISTO_BITS [[gnu::always_inline]] inline

using Vector = __m512i;

constexpr int kBits = 8;
constexpr int kHalves = 16; // values of half a byte
constexpr int64_t kLine = tuning::kLineBytes;
constexpr int64_t kBlockRows = 64; // bits of a word
constexpr int64_t kGroups = kLine / kPlaneColumns;
constexpr int64_t kBlocks = tuning::kPlaneRows / kBlockRows;

/// Of each 16 bytes of eight vectors: bytes to words.
HISTO_INLINE void transpose_bytes(Vector (&v)[8]) {
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

/// Which column has to stand where, so that make_planes puts column c into word c % 8 of group
/// c / 8.
struct Order {
  alignas(kLine) uint8_t column_at[kLine];

  constexpr Order() : column_at() {
    for (int c = 0; c < kLine; ++c) {
      const int group = c / 8, word = c % 8;
      const int at = word / 2 * 16 + (group / 2 * 2 + word % 2) * 2 + group % 2;
      column_at[at] = static_cast<uint8_t>(c);
    }
  }
};

constexpr Order kOrder;

/// 64 rows to planes [group][bit], in words of 64 rows of a column, the rows in any order. Groups
/// are kBlocks blocks apart. Of what comes next a line of each page is fetched: with its page at
/// hand, count_group fetches the others.
HISTO_BITS void make_planes(
    const uint8_t* data, int64_t stride, uint64_t columns, const Ahead& next, Vector* planes) {
  const Vector order = _mm512_load_si512(kOrder.column_at);
  const Vector identity = _mm512_set1_epi64(static_cast<int64_t>(0x8040201008040201));
  Vector bits[8][8];
  for (int64_t i = 0; i < 8; ++i) {
    Vector v[8];
#pragma GCC unroll 8
    for (int64_t j = 0; j < 8; ++j) {
      const Vector line = _mm512_maskz_loadu_epi8(columns, data + (8 * i + j) * stride);
      v[j] = _mm512_permutexvar_epi8(order, line);
    }
    __builtin_prefetch(next.line + 8 * i * next.step);
    __builtin_prefetch(next.line + (8 * i + 4) * next.step);
    transpose_bytes(v);
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {
      // The bits of eight rows, transposed.
      bits[i][j] = _mm512_gf2p8affine_epi64_epi8(identity, v[j], 0);
    }
  }
  for (int64_t j = 0; j < 8; j += 2) {
    Vector v[8], w[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      v[i] = bits[i][j];
      w[i] = bits[i][j + 1];
    }
    transpose_bytes(v);
    transpose_bytes(w);
#pragma GCC unroll 8
    for (int64_t i = 0; i < 8; ++i) {
      Vector* pair = planes + (j + i / 4) * kBlocks * kBits + i % 4 * 2;
      pair[0] = _mm512_unpacklo_epi64(v[i], w[i]);
      pair[1] = _mm512_unpackhi_epi64(v[i], w[i]);
    }
  }
}

/// Where two bits have each value.
HISTO_INLINE void find_two(Vector low, Vector high, Vector (&found)[4]) {
  found[0] = _mm512_ternarylogic_epi64(low, low, high, 0x11);
  found[1] = _mm512_andnot_si512(high, low);
  found[2] = _mm512_andnot_si512(low, high);
  found[3] = _mm512_and_si512(low, high);
}

/// Where four bits have each value.
HISTO_INLINE void find_values(const Vector* bits, Vector* found) {
  Vector low[4], high[4];
  find_two(bits[0], bits[1], low);
  find_two(bits[2], bits[3], high);
#pragma GCC unroll 16
  for (int i = 0; i < kHalves; ++i) {
    found[i] = _mm512_and_si512(low[i % 4], high[i / 4]);
  }
}

/// Eight columns of `blocks` blocks. For one block of `fetching` a line is fetched, too.
HISTO_BITS void count_group(
    const Vector* planes,
    int64_t blocks,
    int64_t fetching,
    Ahead& ahead,
    Vector (*halves)[2][kHalves],
    Vector* table) {
  for (int64_t block = 0; block < blocks; ++block) {
    find_values(planes + block * kBits, halves[block][0]);
    find_values(planes + block * kBits + kBits / 2, halves[block][1]);
  }
  for (int high = 0; high < kHalves; ++high) {
    Vector counts[kHalves];
#pragma GCC unroll 16
    for (int low = 0; low < kHalves; ++low) {
      counts[low] = table[high * kHalves + low];
    }
#pragma GCC unroll 1
    for (int64_t block = 0; block < blocks; ++block) {
      if (block % fetching == 0) {
        ahead.fetch();
      }
      const Vector those = halves[block][1][high];
#pragma GCC unroll 16
      for (int low = 0; low < kHalves; ++low) {
        const Vector both = _mm512_and_si512(those, halves[block][0][low]);
        counts[low] = _mm512_add_epi64(counts[low], _mm512_popcnt_epi64(both));
      }
    }
#pragma GCC unroll 16
    for (int low = 0; low < kHalves; ++low) {
      table[high * kHalves + low] = counts[low];
    }
  }
}

HISTO_BITS void count_tile(
    const ByteColumns& tile, Ahead& ahead, char* scratch, int64_t* tables, int64_t table_size) {
  auto* planes = reinterpret_cast<Vector*>(scratch);
  auto* halves = reinterpret_cast<Vector(*)[2][kHalves]>(planes + kGroups * kBlocks * kBits);
  const uint64_t columns = ~uint64_t{0} >> (kLine - tile.columns);
  const int64_t groups = ceil_div(tile.columns, kPlaneColumns);
  const int64_t blocks = ceil_div(tile.rows, kBlockRows);
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t row = block * kBlockRows;
    const uint8_t* data = tile.data + row * tile.stride;
    int64_t stride = tile.stride;
    alignas(kLine) uint8_t filled[kBlockRows * kLine];
    if (const int64_t left = tile.rows - row; left < kBlockRows) {
      std::memset(filled, 0, sizeof filled);
      for (int64_t i = 0; i < left; ++i) {
        std::memcpy(filled + i * kLine, data + i * stride, static_cast<size_t>(tile.columns));
      }
      data = filled;
      stride = kLine;
    }
    const Ahead next{ahead.line + row * ahead.step, ahead.step};
    make_planes(data, stride, columns, next, planes + block * kBits);
  }
  // Not far from a line for each row: 16 turns of each group, 64 rows a block.
  const int64_t fetching = groups > kGroups / 2 ? 2 : 1;
  const int64_t zeros = blocks * kBlockRows - tile.rows; // that filled the last block
  for (int64_t group = 0; group < groups; ++group) {
    auto* table = reinterpret_cast<Vector*>(tables + group * table_size);
    count_group(planes + group * kBlocks * kBits, blocks, fetching, ahead, halves, table);
    table[0] = _mm512_sub_epi64(table[0], _mm512_set1_epi64(zeros));
  }
}

} // namespace

bool has_bit_planes() {
  static const bool found = has_avx512() && __builtin_cpu_supports("avx512vbmi") &&
                            __builtin_cpu_supports("avx512vpopcntdq") &&
                            __builtin_cpu_supports("gfni");
  return found;
}

void count_bit_planes(
    const ByteColumns& tile, Ahead& ahead, char* scratch, int64_t* tables, int64_t table_size) {
  count_tile(tile, ahead, scratch, tables, table_size);
}

#else

bool has_bit_planes() {
  return false;
}

void count_bit_planes(const ByteColumns&, Ahead&, char*, int64_t*, int64_t) {
}

#endif

} // namespace histo::cpu
