// The table for bytes in shared memory, for rows of a whole line of memory.
#pragma once

#include "cuda/count/bytes.cuh"
#include "cuda/count/counters.cuh"

namespace histo::cuda {

/// A table for bytes has 256 entries of 64 words. A word is two 16-bit counters, so the table has
/// 128 columns in 64 KiB.
///
/// Lane l reads the word of columns 4l to 4l + 3, and its four additions all go to bank l. An entry
/// has 256 bytes, so an address is one byte permutation: the value in byte 1, the column's word in
/// byte 0. The bin of a byte is looked up once for each of the 256 sums, not for every element.
struct ByteTable : ByteCounters {
  const ColumnLayout& in;
  const ByteAxis& axis;
  uint32_t* memory;
  uint32_t address;
  uint32_t offsets[4]; // from an entry's first byte to the words that this lane adds to
  bool turned[2];      // whether its words are added one later, and two later

  __device__ ByteTable(
      const ColumnLayout& columns, const ByteAxis& bytes, uint32_t* shared, int lane)
      : in(columns), axis(bytes), memory(shared), address(address_of(shared)) {
    // Eight lanes read 16 bytes each of a row, and the next eight lanes read the next row. Each
    // group of eight begins with another word of its 16 bytes.
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
        address + 4 * (byte * kByteEntryWords + word_of(column)), half_of(column) ? 0x10000 : 1);
  }

  __device__ void begin_segment(const Segment&) {
  }
  __device__ void clear() const {
    clear_words(memory, 256 * kByteEntryWords);
  }

  /// Four neighbouring lanes take neighbouring bins of one channel, so that a store fills a whole
  /// sector. More lanes would make more bank conflicts.
  __device__ void put_counts(const Segment& segment, Counts counts) const {
    constexpr int kEntries = 4;
    // A thread keeps to one word.
    constexpr int kStep = kColumnThreads / kByteEntryWords;
    static_assert(kStep % kEntries == 0);
    const int word = threadIdx.x / kEntries % kByteEntryWords;
    const int64_t low = first_column_of(in, segment) + word % kWarp * 4 + word / kWarp;
    const int64_t high = low + 2;
    const int64_t low_channel = channel_of(in, segment, low);
    const int64_t high_channel = channel_of(in, segment, high);
    const bool has_low = low < in.columns && low_channel < in.counted;
    const bool has_high = high < in.columns && high_channel < in.counted;
    Counts low_counts = &counts[in.counter(segment.batch, low_channel, 0)];
    Counts high_counts = &counts[in.counter(segment.batch, high_channel, 0)];
    const int first =
        threadIdx.x / (kEntries * kByteEntryWords) * kEntries + threadIdx.x % kEntries;
    for (int entry = first; entry < static_cast<int>(in.table_entries); entry += kStep) {
      const int64_t bin = axis.bin_of(static_cast<uint8_t>(entry));
      if (bin == kNoBin) {
        continue;
      }
      const uint32_t packed16 = memory[entry * kByteEntryWords + word];
      if (has_low) {
        put_or_add(low_counts + bin, packed16 & 0xffff, in.adds);
      }
      if (has_high) {
        put_or_add(high_counts + bin, packed16 >> 16, in.adds);
      }
    }
  }
};

} // namespace histo::cuda
