// The tables of types wider than a byte in shared memory.
#pragma once

#include <type_traits>

#include "bytes.cuh"
#include "counters.cuh"

namespace histo::cuda {

/// The place of the counters of wider types.
enum class Bins {
  kPlain, // rows as long as all banks
  kMixed, // several rows share the banks
  kDealt, // so they do, and a table is for some of the bins of one channel
};

/// The layout of counters in a table of wider types.
template <size_t kElementBytes, Access kAccess, Bins kBins>
using WideCounters = std::conditional_t<
    kElementBytes != 2 || kAccess == Access::kVec16,
    WordCounters,
    std::conditional_t<kBins == Bins::kMixed, PackedBins, PackedColumns>>;

/// Wider types: a row for every bin, with up to 32 words a bin. A word counts one column, or two of
/// 16 bits that a lane reads at once.
///
/// Shorter rows share the 32 banks, and their order is mixed from the higher digits of the bin
/// (counters.cuh). Columns of two bytes then have a word for two bins each. Lanes that read the
/// same columns then add the elements of a word in different orders: half of them begin with the
/// second one, so that half as many meet in a channel's banks.
///
/// One channel may have more bins than a table has rows. Two tables then have 32 of each 64 bins
/// each, and four 32 of each 128. Together these make a row of all tables, which begins anywhere in
/// them, mixed from the higher digits: all tables count as much, and no bank more than others,
/// wherever the values lie. Three tables have a range of the bins each.
template <class T, Access kAccess, Bins kBins>
struct WideTable : WideCounters<sizeof(T), kAccess, kBins> {
  using Layout = WideCounters<sizeof(T), kAccess, kBins>;
  using Word = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  static constexpr int kElements = sizeof(Word) / sizeof(T); // of a word
  static constexpr int kHalves = Layout::kHalves;
  static constexpr bool kPacked16 = kHalves == 2;
  static constexpr bool kPacksBins = Layout::kPacksBins;
  static constexpr bool kDealt = kBins == Bins::kDealt;

  const Columns& in;
  const ByteAxis& axis; // of bytes, for who asks tables of any type
  uint32_t* memory;
  uint32_t address;    // in row 0, of this lane's slot for the first element that it adds
  uint32_t second;     // and for the second of a word
  uint32_t row_bytes;  // of a bin, at most 128; where bins are dealt, of 32
  uint32_t no_rows;    // where what has no bin is counted, of both elements of a word
  uint32_t order;      // of the bytes of a word whose elements are added in turn
  uint32_t mixed_bits; // of a row, of both elements of a word
  uint32_t log_mixed;  // of four bytes and more, how many bits are mixed
  // If bins are dealt, 32 of them have words side by side:
  uint32_t first_bin = 0; // of those that the table has some of
  uint32_t log_bins = 0;  // that share a row of all tables
  uint32_t step = 0;      // from one of them to the next, where all are 2^32
  uint32_t most = 0;      // what the table has of the row ends here
  uint32_t turn = 0;      // and begins there
  uint32_t nowhere;       // the address of what has no bin, or is another table's

  __device__ WideTable(const Columns& columns, const ByteAxis& bytes, uint32_t* shared, int lane)
      : in(columns), axis(bytes), memory(shared) {
    const int slot = lane & ((1 << in.log_key_words) - 1);
    const int turned = kPacksBins ? lane >> in.log_key_words & 1 : 0;
    address = address_of(shared) + 4 * (kPacksBins ? 2 * slot + turned : slot);
    second = kPacksBins ? address ^ 4 : address;
    order = turned ? 0x1032 : 0x3210;
    row_bytes = (kDealt ? kLineBytes : 4u) << in.log_key_words;
    no_rows = min(in.table_keys, 0xffffu) * 0x10001; // all of 16 bits may have a bin
    nowhere = address_of(shared) + 4 * in.table_keys;
    log_mixed = kLogWarp - min(in.log_key_words, kLogWarp);
    mixed_bits = (kWarp >> min(in.log_key_words, kLogWarp)) - 1;
    mixed_bits |= mixed_bits << 16;
  }

  /// The row of a bin; of both bins of a word, where they are 16 bits wide.
  __device__ __forceinline__ uint32_t row_of(uint32_t bin) const {
    if constexpr (kBins == Bins::kPlain || kPacksBins) {
      return bin;
    } else if constexpr (sizeof(T) > 2) {
      return WordCounters::mixed_row(bin, log_mixed);
    } else {
      uint32_t mix = bin ^ bin >> 4 ^ bin >> 8;
      mix ^= mix >> 2;
      return (bin & ~mixed_bits) | (mix & mixed_bits);
    }
  }
  /// Words that lie side by side, for one bin or two.
  __device__ __forceinline__ int log_slots() const {
    return Layout::log_slots(in);
  }
  __device__ void clear() const {
    clear_words(memory, in.table_words());
  }
  __device__ __forceinline__ void begin_segment(const Segment& segment) {
    if constexpr (kDealt) {
      const bool shares = (in.groups & (in.groups - 1)) == 0;
      const int log_groups = shares ? __ffs(static_cast<int>(in.groups)) - 1 : 0;
      first_bin = shares ? 0 : segment.group * in.table_keys;
      log_bins = kLogWarp + log_groups;
      step = 1u << (kWarp - log_bins);
      most = 0xffffffff >> log_groups;
      turn = shares ? 0u - segment.group * (most + 1) : 0;
    }
  }
  /// By products, since it is shifts and comparisons that other additions wait for.
  __device__ __forceinline__ uint32_t address_of_dealt(Word value) const {
    const uint32_t bin = static_cast<uint32_t>(value) - first_bin;
    const uint32_t row = bin >> log_bins;
    const uint32_t place = bin * step + turn + row * kGoldenRatio;
    bool here = place <= most && row < in.table_keys / kWarp;
    if constexpr (sizeof(T) == 8) {
      here = here && value >> 32 == 0;
    }
    const uint32_t word = place >> (kWarp - 2 - log_bins) & (kLineBytes - 4);
    return here ? (row * row_bytes + address_of(memory)) | word : nowhere;
  }

  /// A value without a bin has a row that nobody reads, perhaps the one behind the last:
  /// branches around them would cost more than all the rest.
  __device__ __forceinline__ void add(Word word) const {
    if constexpr (kPacksBins) {
      const uint32_t bins = __byte_perm(__vminu2(word, no_rows), 0, order);
      const uint32_t rows = bins & 0xfffefffe;
      add_shared(__dp2a_lo(rows, row_bytes, address), (bins * 0x10000 & 0x10000) | 1);
      add_shared(__dp2a_lo(rows, row_bytes << 8, second), (bins & 0x10000) | 1);
    } else if constexpr (sizeof(T) == 2) {
      // Both at once, in five instructions: types of two bytes wait for these.
      const uint32_t rows = __vminu2(row_of(word), no_rows);
      add_shared(__dp2a_lo(rows, row_bytes, address), 1);
      add_shared(__dp2a_lo(rows, row_bytes << 8, address), kPacked16 ? 0x10000 : 1);
    } else if constexpr (kDealt) {
      add_shared(address_of_dealt(word), 1);
    } else {
      uint32_t row = row_of(static_cast<uint32_t>(word));
      if constexpr (sizeof(T) == 8) {
        row = word >> 32 != 0 ? 0xffffffff : row;
      }
      add_shared(address + min(row, in.table_keys) * row_bytes, 1);
    }
  }

  __device__ __forceinline__ void add(const LooseWord& word) const {
    add(word.bytes());
  }
  __device__ __forceinline__ void add(const uint4& v) const {
    if constexpr (sizeof(T) == 8) {
      add(uint64_t{v.y} << 32 | v.x);
      add(uint64_t{v.w} << 32 | v.z);
    } else {
      add(v.x);
      add(v.y);
      add(v.z);
      add(v.w);
    }
  }

  __device__ void add_one(int column, T value) const {
    if constexpr (kDealt) {
      add_shared(address_of_dealt(value), 1);
    } else if (value < in.table_keys) {
      const uint32_t row = row_of(static_cast<uint32_t>(value));
      const int slot = (kPacksBins ? column : column / kElements) & ((1 << log_slots()) - 1);
      const uint32_t upper = (kPacksBins ? row : column) % kHalves * 0x10000;
      atomicAdd(&begin_of_key(row)[slot], kPacksBins || upper == 0 ? upper | 1 : upper);
    }
  }
  __device__ uint32_t* begin_of_key(uint32_t row) const {
    return memory + ((kPacksBins ? row & ~1u : row) << in.log_key_words);
  }

  /// Thread after thread takes word after word, in the order of the bins. Neighbours take
  /// neighbouring bins of a column, to fill the sectors of its counts.
  template <class Use>
  __device__ __forceinline__ void for_words(const Use& use) const {
    constexpr int kRows = 4;
    const int rows = (Layout::num_bins(in) + kPacksBins) >> kPacksBins;
    const int padded = (rows + kRows - 1) / kRows * kRows;
    for (int i = threadIdx.x; i < padded << log_slots(); i += kColumnThreads) {
      const int row = (i / kRows >> log_slots()) * kRows + i % kRows;
      const int slot = i / kRows & ((1 << log_slots()) - 1);
      if (row < rows) {
        use((row << log_slots()) + slot, begin_of_key(row_of(row << kPacksBins))[slot]);
      }
    }
  }
  __device__ void put_counts(const Segment& segment, Counts counts) const {
    for_words([&](int word, uint32_t value) {
      in.adds ? put_word<true>(*this, segment, counts, word, value)
              : put_word<false>(*this, segment, counts, word, value);
    });
  }

  /// Adds the sums of one channel to the counts, and clears the table if more rows come.
  __device__ void add_channels(const Segment& segment, Counts counts, bool more) const {
    if constexpr (kDealt) {
      add_dealt(segment, counts);
    } else {
      static_assert(kAccess == Access::kVec16);
      add_one_channel(segment, counts);
    }
    if (!more) {
      return;
    }
    __syncthreads();
    clear();
    __syncthreads();
  }
  __device__ void add_dealt(const Segment& segment, Counts counts) const {
    for (unsigned i = threadIdx.x; i < in.table_keys; i += kColumnThreads) {
      const uint32_t row = i / kWarp;
      const uint32_t begin = (turn + row * kGoldenRatio) >> (kWarp - log_bins);
      const uint32_t of_row = (i % kWarp - begin) & ((1u << log_bins) - 1);
      const int64_t bin = int64_t{first_bin} + (row << log_bins | of_row);
      if (bin < in.num_bins) {
        put<true>(&counts[in.counter(segment.batch, 0, bin)], memory[i]);
      }
    }
  }
  /// Thread after thread takes bin after bin, starting in different slots.
  __device__ void add_one_channel(const Segment& segment, Counts counts) const {
    const int slots = 1 << in.log_key_words;
    for (int bin = threadIdx.x; bin < Layout::num_bins(in); bin += kColumnThreads) {
      const uint32_t* row = begin_of_key(row_of(bin));
      uint32_t sum = 0;
#pragma unroll 8
      for (int i = 0; i < slots; ++i) {
        sum += row[(i + threadIdx.x) & (slots - 1)];
      }
      put<true>(&counts[in.counter(segment.batch, 0, bin)], sum);
    }
  }
};

} // namespace histo::cuda
