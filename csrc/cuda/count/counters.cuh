// The layouts of counters in the words of a table. The tables that kernels count in share them with
// the reduction that sums these tables, so that there is one reduction per layout.
//
// A table has an entry for each value of bytes, or for each bin of wider types. An entry is some
// words of counters.
#pragma once

#include "cuda/count/tables.cuh"

namespace histo::cuda {

/// Two 16-bit counters in a word, of two columns. Word w of an entry counts columns c and c + 2, so
/// that the four bytes that a lane reads at once are counted in one bank.
struct ByteCounters {
  static constexpr int kElementBytes = 1;
  static constexpr int kHalves = 2;         // counters of a word
  static constexpr bool kPacksBins = false; // whether these are of two bins, not of two columns

  static __device__ __forceinline__ int column_of_word(const ColumnLayout&, int word, int half) {
    return word % kWarp * 4 + word % kByteEntryWords / kWarp + 2 * half;
  }
  static __device__ __forceinline__ int entry_of_word(const ColumnLayout&, int word, int /*half*/) {
    return word / kByteEntryWords;
  }
  static __device__ __forceinline__ uint32_t count_of(uint32_t word, int half) {
    return half == 0 ? word & 0xffff : word >> 16;
  }
  /// The index of an entry in the table: bytes lie in order.
  static __device__ __forceinline__ int index_of_entry(const ColumnLayout&, int entry) {
    return entry;
  }
  static __device__ __forceinline__ int64_t
  bin_of_entry(const ColumnLayout&, const ByteAxis& axis, int entry) {
    return axis.bin_of(static_cast<uint8_t>(entry));
  }
};

/// An entry for each bin, with the number of the bin.
struct BinEntries {
  static constexpr bool kPacksBins = false;

  static __device__ __forceinline__ int64_t
  bin_of_entry(const ColumnLayout& in, const ByteAxis&, int entry) {
    return entry < num_bins(in) ? entry : kNoBin;
  }
  /// The bins that have an entry. The counts of the others stay zero.
  static __device__ __forceinline__ int num_bins(const ColumnLayout& in) {
    return static_cast<int>(min(in.num_bins, int64_t{in.table_entries}));
  }
};

/// Two 16-bit counters in a word, of the two columns that a lane reads at once.
struct PackedColumns : BinEntries {
  static constexpr int kElementBytes = 2;
  static constexpr int kHalves = 2;

  static __device__ __forceinline__ int log_words(const ColumnLayout& in) { // words of an entry
    return static_cast<int>(in.log_entry_words);
  }
  static __device__ __forceinline__ int column_of_word(const ColumnLayout& in, int word, int half) {
    return (word & ((1 << log_words(in)) - 1)) * 2 + half;
  }
  static __device__ __forceinline__ int entry_of_word(
      const ColumnLayout& in, int word, int /*half*/) {
    return word >> log_words(in);
  }
  static __device__ __forceinline__ uint32_t count_of(uint32_t word, int half) {
    return half == 0 ? word & 0xffff : word >> 16;
  }
  static __device__ __forceinline__ int index_of_entry(const ColumnLayout&, int entry) {
    return entry;
  }
};

/// Two 16-bit counters in a word, of one column. The lower one counts an even bin together with the
/// odd bin behind it, the upper one counts the odd bin alone.
struct PackedBins : BinEntries {
  static constexpr bool kPacksBins = true;
  static constexpr int kElementBytes = 2;
  static constexpr int kHalves = 2;

  static __device__ __forceinline__ int log_words(const ColumnLayout& in) { // words of two entries
    return static_cast<int>(in.log_entry_words) + 1;
  }
  static __device__ __forceinline__ int column_of_word(
      const ColumnLayout& in, int word, int /*half*/) {
    return word & ((1 << log_words(in)) - 1);
  }
  static __device__ __forceinline__ int entry_of_word(const ColumnLayout& in, int word, int half) {
    return 2 * (word >> log_words(in)) + half;
  }
  static __device__ __forceinline__ uint32_t count_of(uint32_t word, int half) {
    return half == 0 ? (word & 0xffff) - (word >> 16) : word >> 16;
  }
  static __device__ __forceinline__ int index_of_entry(const ColumnLayout&, int entry) {
    return entry;
  }
};

/// 32-bit counters, of one column each. If an entry has fewer words than there are banks, entries
/// share the banks. Their order is then mixed from all higher digits of the bin (Fibonacci hashing),
/// so that bins that differ in few bits lie in different banks.
struct WordCounters : BinEntries {
  static constexpr int kElementBytes = 4; // or more
  static constexpr int kHalves = 1;

  static __device__ __forceinline__ int log_words(const ColumnLayout& in) {
    return static_cast<int>(in.log_entry_words);
  }
  static __device__ __forceinline__ int column_of_word(
      const ColumnLayout& in, int word, int /*half*/) {
    return word & ((1 << log_words(in)) - 1);
  }
  static __device__ __forceinline__ int entry_of_word(
      const ColumnLayout& in, int word, int /*half*/) {
    return word >> log_words(in);
  }
  static __device__ __forceinline__ uint32_t count_of(uint32_t word, int /*half*/) {
    return word;
  }
  static __device__ __forceinline__ uint32_t mixed_entry(uint32_t bin, uint32_t log_mixed) {
    return bin ^ (bin >> log_mixed) * kGoldenRatio >> (kWarp - log_mixed);
  }
  static __device__ __forceinline__ int index_of_entry(const ColumnLayout& in, int entry) {
    const uint32_t log_mixed = kLogWarp - min(in.log_entry_words, kLogWarp);
    return log_mixed == 0 ? entry
                          : static_cast<int>(mixed_entry(static_cast<uint32_t>(entry), log_mixed));
  }
};

/// The counter of a column of the segment's table, or kNoBin if there is none.
template <class AnyTable>
__device__ __forceinline__ int64_t
counter_of(const AnyTable& table, const Segment& segment, int column_of_table, int64_t bin) {
  const int64_t column = first_column_of(table.in, segment) + column_of_table;
  const int64_t channel = channel_of(table.in, segment, column);
  return column < table.in.columns && channel < table.in.counted && bin != kNoBin
             ? table.in.counter(segment.batch, channel, bin)
             : kNoBin;
}

/// Puts the counts of a word. `word` is its index in a table with entries in the order of bins.
template <bool kAdd, class AnyTable>
__device__ __forceinline__ void put_word(
    const AnyTable& table, const Segment& segment, Counts counts, int word, uint32_t value) {
#pragma unroll
  for (int half = 0; half < AnyTable::kHalves; ++half) {
    const int64_t counter = counter_of(
        table, segment, AnyTable::column_of_word(table.in, word, half),
        AnyTable::bin_of_entry(
            table.in, table.axis, AnyTable::entry_of_word(table.in, word, half)));
    if (counter != kNoBin) {
      put<kAdd>(&counts[counter], AnyTable::count_of(value, half));
    }
  }
}

} // namespace histo::cuda
