// The tables of bytes in shared memory, and which part of the input a block has.
#pragma once

#include "bytes.cuh"
#include "counts.cuh"
#include "plan.h"
#include "shared.cuh"

namespace histo::cuda {

using Counts = unsigned long long*;

constexpr unsigned kLogWarp = 5;
constexpr int kByteRowWords = kByteColumns / 2;
constexpr int kCountersOfLane = kByteColumns / kWarp;

__device__ __forceinline__ void clear_words(uint32_t* table, unsigned words) {
  for (unsigned i = threadIdx.x; i < words / 4; i += kColumnThreads) {
    reinterpret_cast<uint4*>(table)[i] = make_uint4(0, 0, 0, 0);
  }
}

/// The same of a whole table of bytes, in a loop that is known when it is compiled: in little code.
template <unsigned kThreads, unsigned kBytes>
__device__ __forceinline__ void clear_byte_table(uint32_t* table) {
  constexpr unsigned kQuads = kBytes / kQuadBytes;
#pragma unroll
  for (unsigned i = 0; i < kQuads; i += kThreads) {
    if (i + kThreads <= kQuads || i + threadIdx.x < kQuads) {
      reinterpret_cast<uint4*>(table)[i + threadIdx.x] = make_uint4(0, 0, 0, 0);
    }
  }
}

/// Copies a table to global memory, in loads of 16 bytes; all threads have counted.
///
/// One bulk copy takes 0.7 us less than stores of all threads do, and no more than several.
__device__ __forceinline__ void store_table(uint4* to, const uint32_t* table, unsigned quads) {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile(
        "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n"
        "cp.async.bulk.commit_group;\n"
        "cp.async.bulk.wait_group 0;" ::"l"(to),
        "r"(address_of(table)), "r"(16 * quads)
        : "memory");
  }
#else
  const auto* from = reinterpret_cast<const uint4*>(table);
  for (unsigned i = threadIdx.x; i < quads; i += kColumnThreads) {
    __stcg(to + i, from[i]);
  }
#endif
}

/// Which table a block works on, and whose columns are in it.
struct Unit {
  unsigned batch;
  unsigned group;
  unsigned head; // elements of a stream before its first aligned word
};

__device__ __forceinline__ int64_t first_column_of(const Columns& in, const Unit& unit) {
  return int64_t{unit.group} * in.group_columns;
}

__device__ __forceinline__ int64_t channel_of(const Columns& in, const Unit& unit, int64_t column) {
  if (in.columns == in.channels && unit.head == 0) {
    return column;
  }
  if (in.channels == 1) {
    return 0;
  }
  // A stream's rows are short, so 32 bits do.
  return static_cast<unsigned>(column + unit.head) % static_cast<unsigned>(in.channels);
}

/// Without the time of a division where there is nothing to divide.
__device__ __forceinline__ unsigned quotient(unsigned a, unsigned b) {
  return b == 1 ? a : a / b;
}

/// All batches of the first group of columns, then all of the next.
__device__ __forceinline__ Unit unit_at(const Columns& in, unsigned index) {
  const unsigned group = quotient(index, in.batches);
  return {index - group * in.batches, group, 0};
}

template <class Layout>
__device__ __forceinline__ const uint8_t* batch_of(const Layout& in, unsigned batch) {
  const auto inner = static_cast<unsigned>(in.batch[1].size);
  const unsigned outer = in.batch[0].size == 1 ? 0 : quotient(batch, inner);
  return in.data + outer * in.batch[0].stride + (batch - outer * inner) * in.batch[1].stride;
}

/// Elements of a stream before its first aligned word.
template <class Layout>
__device__ __forceinline__ unsigned head_of(
    const Layout& in, const uint8_t* run, unsigned word_bytes, unsigned element_bytes) {
  const auto beyond = static_cast<unsigned>(reinterpret_cast<uintptr_t>(run) % word_bytes);
  return in.is_stream() && beyond > 0 ? (word_bytes - beyond) / element_bytes : 0;
}

/// Bytes: 256 rows of 64 words, each word two 16-bit counters, so 128 columns in 64 KiB.
///
/// Lane l reads the word of columns 4l to 4l + 3, and its four additions all go to
/// bank l. A row of the table is 256 bytes, so an address is one byte permutation: the
/// value in byte 1, the column's word in byte 0. What the bytes mean is asked of the
/// 256 sums, not of every element.
template <class Binning>
struct ByteTable {
  static constexpr int kHalves = 2;         // counters of a word
  static constexpr bool kPairsBins = false; // they are of two columns

  const Columns& in;
  const Binning& binning;
  uint32_t* table;
  uint32_t address;
  uint32_t offsets[4]; // in a row of the table, of the words that this lane adds to
  bool turned[2];      // whether its words come one later, and two later

  __device__ ByteTable(const Columns& columns, const Binning& bins, uint32_t* shared, int lane)
      : in(columns), binning(bins), table(shared), address(address_of(shared)) {
    // Eight lanes read 16 bytes each of a row, and the next eight of the next row: each
    // eight begins with another word of its 16 bytes.
    const int row = in.log_lanes == kLogWarp ? 0 : lane >> in.log_lanes;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int word = lane % 8 * 4 + (i + row) % 4;
      offsets[i] = 4 * (in.log_lanes == kLogWarp ? lane : word);
    }
    turned[0] = row & 1;
    turned[1] = row & 2;
  }

  __device__ __forceinline__ void add_word(uint32_t bytes, uint32_t offset) const {
    const uint32_t odd = offset + 4 * kWarp;
    add_shared(address + __byte_perm(bytes, offset, 0x5504), 1);
    add_shared(address + __byte_perm(bytes, odd, 0x5514), 1);
    add_shared(address + __byte_perm(bytes, offset, 0x5524), 0x10000);
    add_shared(address + __byte_perm(bytes, odd, 0x5534), 0x10000);
  }
  __device__ __forceinline__ void add(uint32_t bytes) const {
    add_word(bytes, offsets[0]);
  }
  __device__ __forceinline__ void add(const LooseWord& word) const {
    add(word.bytes());
  }
  __device__ __forceinline__ void add(uint4 v) const {
    add_turned(*this, v, turned, offsets);
  }

  static __device__ int word_of(int column) {
    return column / 4 + column % 2 * kWarp;
  }
  static __device__ int half_of(int column) {
    return column / 2 % 2;
  }

  __device__ void add_one(int column, uint8_t byte) const {
    column %= kByteColumns; // one channel may have longer rows
    add_shared(
        address + 4 * (byte * kByteRowWords + word_of(column)), half_of(column) ? 0x10000 : 1);
  }

  __device__ __forceinline__ int64_t channel_of_column(const Unit& unit, int64_t column) const {
    return channel_of(in, unit, column);
  }
  static __device__ int column_of_word(int word, int half) {
    return word % kWarp * 4 + word % kByteRowWords / kWarp + 2 * half;
  }
  static __device__ int row_of_word(int word, int /*half*/) {
    return word / kByteRowWords;
  }
  static __device__ __forceinline__ uint32_t count_of(uint32_t word, int half) {
    return half == 0 ? word & 0xffff : word >> 16;
  }
  static __device__ int place_of_row(int row) {
    return row;
  }

  __device__ __forceinline__ int64_t bin_of_row(int row) const {
    return row < static_cast<int>(in.table_rows)
               ? bin_of_byte(in.type, binning, static_cast<uint8_t>(row))
               : kNoBin;
  }

  __device__ void begin_unit(const Unit&) {
  }
  __device__ void clear() const {
    clear_words(table, 256 * kByteRowWords);
  }

  /// Neighbouring lanes take neighbouring bins of one channel, so that a store fills
  /// whole sectors, and few of them, so that a load meets few in its bank.
  __device__ void put_counts(const Unit& unit, Counts counts) const {
    constexpr int kRows = 4;
    // A thread keeps to one word.
    constexpr int kStep = kColumnThreads / kByteRowWords;
    static_assert(kStep % kRows == 0);
    const int word = threadIdx.x / kRows % kByteRowWords;
    const int64_t low = first_column_of(in, unit) + word % kWarp * 4 + word / kWarp;
    const int64_t high = low + 2;
    const int64_t low_channel = channel_of(in, unit, low);
    const int64_t high_channel = channel_of(in, unit, high);
    const bool has_low = low < in.columns && low_channel < in.counted;
    const bool has_high = high < in.columns && high_channel < in.counted;
    Counts low_counts = &counts[in.counter(unit.batch, low_channel, 0)];
    Counts high_counts = &counts[in.counter(unit.batch, high_channel, 0)];
    const int first = threadIdx.x / (kRows * kByteRowWords) * kRows + threadIdx.x % kRows;
    for (int row = first; row < static_cast<int>(in.table_rows); row += kStep) {
      const int64_t bin = bin_of_row(row);
      if (bin == kNoBin) {
        continue;
      }
      const uint32_t pair = table[row * kByteRowWords + word];
      if (has_low) {
        put_or_add(low_counts + bin, pair & 0xffff, in.adds);
      }
      if (has_high) {
        put_or_add(high_counts + bin, pair >> 16, in.adds);
      }
    }
  }
};
} // namespace histo::cuda
