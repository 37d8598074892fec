#include "cpu/count/bit_planes.h"

#include <algorithm>
#include <cstring>

#include "core/problem.h"
#include "cpu/intrinsics.h"
#include "cpu/processor.h"

namespace histo::cpu {

#ifdef __x86_64__

namespace {

#define HISTO_BITS [[HISTO_TARGET("avx512f,avx512bw,avx512vbmi,avx512vpopcntdq,gfni")]]
#define HISTO_INLINE HISTO_BITS [[gnu::always_inline]] inline

constexpr int kBits = 8;
constexpr int kHalves = 16; // values of half a byte
constexpr int64_t kLine = tuning::kLineBytes;
constexpr int64_t kGroupsOfLine = kLine / kPlaneColumns;
constexpr int64_t kBlocks = tuning::kPlaneRows / kPlaneBlockRows;

/// The order of columns that makes make_planes put column c into word c % 8 of group c / 8.
struct ColumnOrder {
  alignas(kLine) uint8_t column_at[kLine];

  constexpr ColumnOrder() : column_at() {
    for (int c = 0; c < kLine; ++c) {
      const int group = c / 8, word = c % 8;
      const int at = word / 2 * 16 + (group / 2 * 2 + word % 2) * 2 + group % 2;
      column_at[at] = static_cast<uint8_t>(c);
    }
  }
};

constexpr ColumnOrder kColumnOrder;

/// Turns 64 rows into planes [group][bit]. A word has one bit of 64 rows of a column; the rows come
/// in any order. Groups are kBlocks blocks apart. Calls fetch(i) after each eighth of the rows.
template <class Fetch>
HISTO_BITS void make_planes(
    const uint8_t* data, int64_t stride, Vector* planes, const Fetch& fetch) {
  const Vector order = _mm512_load_si512(kColumnOrder.column_at);
  const Vector identity = _mm512_set1_epi64(static_cast<int64_t>(0x8040201008040201));
  Vector bits[8][8];
  for (int64_t i = 0; i < 8; ++i) {
    Vector v[8];
#pragma GCC unroll 8
    for (int64_t j = 0; j < 8; ++j) {
      const Vector line = _mm512_loadu_si512(data + (8 * i + j) * stride);
      v[j] = _mm512_permutexvar_epi8(order, line);
    }
    fetch(i);
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

/// Finds the positions at which two bits have each value.
HISTO_INLINE void find_two(Vector low, Vector high, Vector (&found)[4]) {
  found[0] = _mm512_ternarylogic_epi64(low, low, high, 0x11);
  found[1] = _mm512_andnot_si512(high, low);
  found[2] = _mm512_andnot_si512(low, high);
  found[3] = _mm512_and_si512(low, high);
}

/// Finds the positions at which four bits have each value.
HISTO_INLINE void find_values(const Vector* bits, Vector* found) {
  Vector low[4], high[4];
  find_two(bits[0], bits[1], low);
  find_two(bits[2], bits[3], high);
#pragma GCC unroll 16
  for (int i = 0; i < kHalves; ++i) {
    found[i] = _mm512_and_si512(low[i % 4], high[i / 4]);
  }
}

/// Counts eight columns of `blocks` blocks. Prefetches a line for each block whose number has all
/// bits of `fetching`.
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
      if ((block & fetching) == fetching) {
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

/// Makes the planes of one block: the rows of a tile from `row` on.
HISTO_BITS void make_block(
    const ByteColumns& tile, int64_t row, const Ahead& ahead, Vector* planes) {
  const uint8_t* rows = tile.data + row * tile.stride;
  const int64_t left = tile.rows - row;
  const auto* next_tile = reinterpret_cast<const uint8_t*>(ahead.line);
  // Prefetches a line of each page of near rows. The page is then known when count_group fetches
  // the other lines.
  const auto fetch_pages = [&](int64_t eighth) __attribute__((always_inline)) {
    const uint8_t* next = next_tile + (row + 8 * eighth) * ahead.step;
    __builtin_prefetch(next);
    __builtin_prefetch(next + 4 * ahead.step);
  };
  // Prefetches all of the next block of far rows.
  const auto fetch_rows = [&](int64_t eighth) __attribute__((always_inline)) {
    const uint8_t* next = left > kPlaneBlockRows ? rows + kPlaneBlockRows * tile.stride : next_tile;
    next += 8 * eighth * tile.stride;
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i, next += tile.stride) {
#pragma GCC unroll 8
      for (int64_t at = 0; at < tuning::kFarLines * kLine; at += kLine) {
        __builtin_prefetch(next + at);
      }
      __builtin_prefetch(next + tile.columns - 1);
    }
  };
  for (int64_t column = 0; column < tile.columns; column += kLine) {
    alignas(kLine) FilledLines filled;
    const auto [data, stride] = line_block_of(tile, row, column, filled);
    Vector* to = planes + column / kPlaneColumns * kBlocks * kBits;
    if (!are_far(tile.stride)) {
      make_planes(data, stride, to, fetch_pages);
    } else if (column == 0) {
      make_planes(data, stride, to, fetch_rows);
    } else {
      make_planes(data, stride, to, [](int64_t) {});
    }
  }
}

HISTO_BITS void count_tile(
    const ByteColumns& tile, Ahead& ahead, char* scratch, int64_t* tables, int64_t table_size) {
  auto* halves = reinterpret_cast<Vector(*)[2][kHalves]>(scratch);
  auto* planes = reinterpret_cast<Vector*>(halves + kBlocks);
  const int64_t groups = ceil_div(tile.columns, kPlaneColumns);
  const int64_t blocks = ceil_div(tile.rows, kPlaneBlockRows);
  for (int64_t block = 0; block < blocks; ++block) {
    make_block(tile, block * kPlaneBlockRows, ahead, planes + block * kBits);
  }
  // Prefetches about one line for each row: a block has 64 rows, and takes 16 turns in each group.
  const int64_t fetching = are_far(tile.stride) ? kBlocks : groups > kGroupsOfLine / 2 ? 1 : 0;
  const int64_t zeros = blocks * kPlaneBlockRows - tile.rows; // they fill the last block
  for (int64_t group = 0; group < groups; ++group) {
    auto* table = reinterpret_cast<Vector*>(tables + group * table_size);
    count_group(planes + group * kBlocks * kBits, blocks, fetching, ahead, halves, table);
    table[0] = _mm512_sub_epi64(table[0], _mm512_set1_epi64(zeros));
  }
}

/// Transposes eight vectors of eight words.
HISTO_INLINE void transpose_words(Vector (&v)[8]) {
  Vector a[8], b[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; i += 2) {
    a[i] = _mm512_unpacklo_epi64(v[i], v[i + 1]);
    a[i + 1] = _mm512_unpackhi_epi64(v[i], v[i + 1]);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 4; ++i) {
    const int from = i / 2 * 4 + i % 2;
    b[i] = _mm512_shuffle_i64x2(a[from], a[from + 2], 0x88);
    b[i + 4] = _mm512_shuffle_i64x2(a[from], a[from + 2], 0xdd);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; i += 4) {
    for (int j = 0; j < 2; ++j) {
      const int to = i / 2 + j;
      v[to] = _mm512_shuffle_i64x2(b[i + j], b[i + j + 2], 0x88);
      v[to + 4] = _mm512_shuffle_i64x2(b[i + j], b[i + j + 2], 0xdd);
    }
  }
}

HISTO_BITS void put_group(const int64_t* table, const Histograms& to) {
  const bool past_caches = to.are_lines();
  for (int64_t value = 0; value < to.values; value += 8) {
    Vector v[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      v[i] = _mm512_load_si512(table + (value + i) * kPlaneColumns);
    }
    transpose_words(v);
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      if (i < to.columns) {
        int64_t* first = to.counts + i * to.num_bins + value;
        put_eight(v[i], first, to.values - value, to.add, past_caches);
      }
    }
  }
  if (past_caches) {
    _mm_sfence(); // ends the stores before another thread learns of them
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

void put_bit_planes(const int64_t* table, const Histograms& to) {
  put_group(table, to);
}

#else

bool has_bit_planes() {
  return false;
}

void count_bit_planes(const ByteColumns&, Ahead&, char*, int64_t*, int64_t) {
}

void put_bit_planes(const int64_t*, const Histograms&) {
}

#endif

} // namespace histo::cpu
