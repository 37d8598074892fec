// The layouts of counters in the words of a table. The tables that kernels count in and the
// reduction that sums them share this, so that there is one reduce a layout, whatever was counted.
#pragma once

#include "tables.cuh"

namespace histo::cuda {

/// Pairs of 16-bit counters, of two columns. Word w of a row counts columns c and c + 2, so that
/// the four bytes that a lane reads at once are counted in one bank.
struct ByteCounters {
  static constexpr int kElementBytes = 1;
  static constexpr int kHalves = 2;         // counters of a word
  static constexpr bool kPacksBins = false; // they are of two bins, and not of two columns

  static __device__ __forceinline__ int column_of_word(const Columns&, int word, int half) {
    return word % kWarp * 4 + word % kByteKeyWords / kWarp + 2 * half;
  }
  static __device__ __forceinline__ int key_of_word(const Columns&, int word, int /*half*/) {
    return word / kByteKeyWords;
  }
  static __device__ __forceinline__ uint32_t count_of(uint32_t word, int half) {
    return half == 0 ? word & 0xffff : word >> 16;
  }
  /// The row that counts the bin; rows are bytes here, and so are in order.
  static __device__ __forceinline__ int place_of_row(const Columns&, int row) {
    return row;
  }
  static __device__ __forceinline__ int64_t
  bin_of_key(const Columns&, const ByteAxis& axis, int row) {
    return axis.bin_of(static_cast<uint8_t>(row));
  }
};

/// A row for each bin, whose number is the bin's.
struct BinKeys {
  static constexpr bool kPacksBins = false;

  static __device__ __forceinline__ int64_t
  bin_of_key(const Columns& in, const ByteAxis&, int row) {
    return row < num_bins(in) ? row : kNoBin;
  }
  /// The bins that have a row; the others stay as they were cleared.
  static __device__ __forceinline__ int num_bins(const Columns& in) {
    return static_cast<int>(min(in.num_bins, int64_t{in.table_keys}));
  }
};

/// Pairs of 16-bit counters, of the two columns that a lane reads at once.
struct PackedColumns : BinKeys {
  static constexpr int kElementBytes = 2;
  static constexpr int kHalves = 2;

  static __device__ __forceinline__ int log_slots(const Columns& in) { // words of a row
    return static_cast<int>(in.log_key_words);
  }
  static __device__ __forceinline__ int column_of_word(const Columns& in, int word, int half) {
    return (word & ((1 << log_slots(in)) - 1)) * 2 + half;
  }
  static __device__ __forceinline__ int key_of_word(const Columns& in, int word, int /*half*/) {
    return word >> log_slots(in);
  }
  static __device__ __forceinline__ uint32_t count_of(uint32_t word, int half) {
    return half == 0 ? word & 0xffff : word >> 16;
  }
  static __device__ __forceinline__ int place_of_row(const Columns&, int row) {
    return row;
  }
};

/// Pairs of 16-bit counters, of one column: the lower one counts an even bin and the odd one behind
/// it, the upper one the odd bin alone.
struct PackedBins : BinKeys {
  static constexpr bool kPacksBins = true;
  static constexpr int kElementBytes = 2;
  static constexpr int kHalves = 2;

  static __device__ __forceinline__ int log_slots(const Columns& in) { // words of two rows
    return static_cast<int>(in.log_key_words) + 1;
  }
  static __device__ __forceinline__ int column_of_word(const Columns& in, int word, int /*half*/) {
    return word & ((1 << log_slots(in)) - 1);
  }
  static __device__ __forceinline__ int key_of_word(const Columns& in, int word, int half) {
    return 2 * (word >> log_slots(in)) + half;
  }
  static __device__ __forceinline__ uint32_t count_of(uint32_t word, int half) {
    return half == 0 ? (word & 0xffff) - (word >> 16) : word >> 16;
  }
  static __device__ __forceinline__ int place_of_row(const Columns&, int row) {
    return row;
  }
};

/// 32-bit counters, of one column each. If rows are shorter than all banks, the order of the rows
/// that share the banks is mixed from all higher digits of the bin (Fibonacci hashing): bins that
/// differ in few bits do not meet in the same banks.
struct WordCounters : BinKeys {
  static constexpr int kElementBytes = 4; // or more
  static constexpr int kHalves = 1;

  static __device__ __forceinline__ int log_slots(const Columns& in) {
    return static_cast<int>(in.log_key_words);
  }
  static __device__ __forceinline__ int column_of_word(const Columns& in, int word, int /*half*/) {
    return word & ((1 << log_slots(in)) - 1);
  }
  static __device__ __forceinline__ int key_of_word(const Columns& in, int word, int /*half*/) {
    return word >> log_slots(in);
  }
  static __device__ __forceinline__ uint32_t count_of(uint32_t word, int /*half*/) {
    return word;
  }
  static __device__ __forceinline__ uint32_t mixed_row(uint32_t bin, uint32_t log_mixed) {
    return bin ^ (bin >> log_mixed) * kGoldenRatio >> (kWarp - log_mixed);
  }
  static __device__ __forceinline__ int place_of_row(const Columns& in, int row) {
    const uint32_t log_mixed = kLogWarp - min(in.log_key_words, kLogWarp);
    return log_mixed == 0 ? row
                          : static_cast<int>(mixed_row(static_cast<uint32_t>(row), log_mixed));
  }
};

/// The counter of a column of the segment's table; kNoBin for none.
template <class AnyTable>
__device__ __forceinline__ int64_t
counter_of(const AnyTable& table, const Segment& segment, int column_of_table, int64_t bin) {
  const int64_t column = first_column_of(table.in, segment) + column_of_table;
  const int64_t channel = channel_of(table.in, segment, column);
  return column < table.in.columns && channel < table.in.counted && bin != kNoBin
             ? table.in.counter(segment.batch, channel, bin)
             : kNoBin;
}

/// Puts what a word counts; `word` is its place where rows lie in the order of their bins.
template <bool kAdd, class AnyTable>
__device__ __forceinline__ void put_word(
    const AnyTable& table, const Segment& segment, Counts counts, int word, uint32_t value) {
#pragma unroll
  for (int half = 0; half < AnyTable::kHalves; ++half) {
    const int64_t counter = counter_of(
        table, segment, AnyTable::column_of_word(table.in, word, half),
        AnyTable::bin_of_key(table.in, table.axis, AnyTable::key_of_word(table.in, word, half)));
    if (counter != kNoBin) {
      put<kAdd>(&counts[counter], AnyTable::count_of(value, half));
    }
  }
}

} // namespace histo::cuda
