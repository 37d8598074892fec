// The tables of types wider than a byte in shared memory.
#pragma once

#include <type_traits>

#include "cuda/count/bytes.cuh"
#include "cuda/count/counters.cuh"

namespace histo::cuda {

/// How the counters of a bin lie in the banks.
enum class Bins {
  kPlain, // the counters of a bin fill all banks
  kMixed, // several bins share the banks
  kDealt, // the same, and a table has only some of the bins of one channel
};

/// The layout of counters in a table of wider types.
template <size_t kElementBytes, Access kAccess, Bins kBins>
using WideCounters = std::conditional_t<
    kElementBytes != 2 || kAccess == Access::kVec16,
    WordCounters,
    std::conditional_t<kBins == Bins::kMixed, PackedBins, PackedColumns>>;

/// The table of a wider type has up to 32 words for each bin. A word counts one column, or two
/// columns of 16 bits that a lane reads at once.
///
/// Bins of fewer words share the 32 banks. Their order is then mixed from the higher digits of the
/// bin (counters.cuh). In that case a word of a 16-bit type counts two bins. Lanes that read the
/// same columns add the elements of a word in different orders, and half of them begin with the
/// second one. This halves the bank conflicts in a channel.
///
/// One channel may have more bins than a table holds. Its bins then form sets, and each table holds
/// 32 bins of every set: two tables share sets of 64 bins, four share sets of 128. The first bin of
/// a set is mixed from the higher digits. So all tables count about as much, and all banks too,
/// wherever the values lie. Three tables hold one range of the bins each.
template <class T, Access kAccess, Bins kBins>
struct WideTable : WideCounters<sizeof(T), kAccess, kBins> {
  using Layout = WideCounters<sizeof(T), kAccess, kBins>;
  using Word = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  static constexpr int kElements = sizeof(Word) / sizeof(T); // of a word
  static constexpr int kHalves = Layout::kHalves;
  static constexpr bool kPacked16 = kHalves == 2;
  static constexpr bool kPacksBins = Layout::kPacksBins;
  static constexpr bool kDealt = kBins == Bins::kDealt;

  const ColumnLayout& in;
  const ByteAxis& axis; // unused here; code for any table asks for it
  uint32_t* memory;
  uint32_t address;     // of this lane's word of bin 0, for the first element that it adds
  uint32_t second;      // the same for the second element of a word
  uint32_t entry_bytes; // bytes of a bin, at most 128; of 32 bins if bins are dealt
  uint32_t no_entry;    // the entry that counts values without a bin, for both elements of a word
  uint32_t order;       // of the bytes of a word, for __byte_perm
  uint32_t mixed_bits;  // the bits of an entry that are mixed, for both elements of a word
  uint32_t log_mixed;   // how many bits are mixed, for elements of four bytes and more
  // The next five are for dealt bins. Positions in a set are fractions of it, times 2^32.
  uint32_t first_bin = 0; // the first bin that the table may have
  uint32_t log_bins = 0;  // log2 of the bins of a set
  uint32_t step = 0;      // from one bin of a set to the next
  uint32_t most = 0;      // the last position in a set that the table has
  uint32_t turn = 0;      // what turns the table's first position to 0
  uint32_t sink;          // the address that counts values without a bin, or of another table

  __device__ WideTable(
      const ColumnLayout& columns, const ByteAxis& bytes, uint32_t* shared, int lane)
      : in(columns), axis(bytes), memory(shared) {
    const int word = lane & ((1 << in.log_entry_words) - 1);
    const int turned = kPacksBins ? lane >> in.log_entry_words & 1 : 0;
    address = address_of(shared) + 4 * (kPacksBins ? 2 * word + turned : word);
    second = kPacksBins ? address ^ 4 : address;
    order = turned ? 0x1032 : 0x3210;
    entry_bytes = (kDealt ? kLineBytes : 4u) << in.log_entry_words;
    no_entry = min(in.table_entries, 0xffffu) * 0x10001; // all of 16 bits may have a bin
    sink = address_of(shared) + 4 * in.table_entries;
    log_mixed = kLogWarp - min(in.log_entry_words, kLogWarp);
    mixed_bits = (kWarp >> min(in.log_entry_words, kLogWarp)) - 1;
    mixed_bits |= mixed_bits << 16;
  }

  /// The entry of a bin, or of both bins of a word of 16-bit elements.
  __device__ __forceinline__ uint32_t entry_of(uint32_t bin) const {
    if constexpr (kBins == Bins::kPlain || kPacksBins) {
      return bin;
    } else if constexpr (sizeof(T) > 2) {
      return WordCounters::mixed_entry(bin, log_mixed);
    } else {
      uint32_t mix = bin ^ bin >> 4 ^ bin >> 8;
      mix ^= mix >> 2;
      return (bin & ~mixed_bits) | (mix & mixed_bits);
    }
  }
  /// log2 of the words that lie side by side for one bin, or for two.
  __device__ __forceinline__ int log_words() const {
    return Layout::log_words(in);
  }
  __device__ void clear() const {
    clear_words(memory, in.table_words());
  }
  __device__ __forceinline__ void begin_segment(const Segment& segment) {
    if constexpr (kDealt) {
      const bool shares = (in.groups & (in.groups - 1)) == 0;
      const int log_groups = shares ? __ffs(static_cast<int>(in.groups)) - 1 : 0;
      first_bin = shares ? 0 : segment.group * in.table_entries;
      log_bins = kLogWarp + log_groups;
      step = 1u << (kWarp - log_bins);
      most = 0xffffffff >> log_groups;
      turn = shares ? 0u - segment.group * (most + 1) : 0;
    }
  }
  /// Uses products, because shifts and comparisons are busy with other additions.
  __device__ __forceinline__ uint32_t address_of_dealt(Word value) const {
    const uint32_t bin = static_cast<uint32_t>(value) - first_bin;
    const uint32_t set = bin >> log_bins;
    const uint32_t position = bin * step + turn + set * kGoldenRatio;
    bool here = position <= most && set < in.table_entries / kWarp;
    if constexpr (sizeof(T) == 8) {
      here = here && value >> 32 == 0;
    }
    const uint32_t word = position >> (kWarp - 2 - log_bins) & (kLineBytes - 4);
    return here ? (set * entry_bytes + address_of(memory)) | word : sink;
  }

  /// A value without a bin is counted in an entry that nobody reads, which may be behind the last.
  /// Branches around these additions would cost more than the additions.
  __device__ __forceinline__ void add(Word word) const {
    if constexpr (kPacksBins) {
      const uint32_t bins = __byte_perm(__vminu2(word, no_entry), 0, order);
      const uint32_t entries = bins & 0xfffefffe;
      add_shared(__dp2a_lo(entries, entry_bytes, address), (bins * 0x10000 & 0x10000) | 1);
      add_shared(__dp2a_lo(entries, entry_bytes << 8, second), (bins & 0x10000) | 1);
    } else if constexpr (sizeof(T) == 2) {
      // Both elements take five instructions together. 16-bit types are bound by these.
      const uint32_t entries = __vminu2(entry_of(word), no_entry);
      add_shared(__dp2a_lo(entries, entry_bytes, address), 1);
      add_shared(__dp2a_lo(entries, entry_bytes << 8, address), kPacked16 ? 0x10000 : 1);
    } else if constexpr (kDealt) {
      add_shared(address_of_dealt(word), 1);
    } else {
      uint32_t entry = entry_of(static_cast<uint32_t>(word));
      if constexpr (sizeof(T) == 8) {
        entry = word >> 32 != 0 ? 0xffffffff : entry;
      }
      add_shared(address + min(entry, in.table_entries) * entry_bytes, 1);
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
    } else if (value < in.table_entries) {
      const uint32_t entry = entry_of(static_cast<uint32_t>(value));
      const int word = (kPacksBins ? column : column / kElements) & ((1 << log_words()) - 1);
      const uint32_t upper = (kPacksBins ? entry : column) % kHalves * 0x10000;
      atomicAdd(&begin_of_entry(entry)[word], kPacksBins || upper == 0 ? upper | 1 : upper);
    }
  }
  __device__ uint32_t* begin_of_entry(uint32_t entry) const {
    return memory + ((kPacksBins ? entry & ~1u : entry) << in.log_entry_words);
  }

  /// Calls use(word, value) for all words, in the order of the bins. Neighbouring threads take
  /// neighbouring bins of a column, so that they fill the sectors of its counts.
  template <class Use>
  __device__ __forceinline__ void for_words(const Use& use) const {
    constexpr int kEntries = 4;
    const int entries = (Layout::num_bins(in) + kPacksBins) >> kPacksBins;
    const int padded = (entries + kEntries - 1) / kEntries * kEntries;
    for (int i = threadIdx.x; i < padded << log_words(); i += kColumnThreads) {
      const int entry = (i / kEntries >> log_words()) * kEntries + i % kEntries;
      const int word = i / kEntries & ((1 << log_words()) - 1);
      if (entry < entries) {
        use((entry << log_words()) + word, begin_of_entry(entry_of(entry << kPacksBins))[word]);
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
    for (unsigned i = threadIdx.x; i < in.table_entries; i += kColumnThreads) {
      const uint32_t set = i / kWarp;
      const uint32_t begin = (turn + set * kGoldenRatio) >> (kWarp - log_bins);
      const uint32_t of_set = (i % kWarp - begin) & ((1u << log_bins) - 1);
      const int64_t bin = int64_t{first_bin} + (set << log_bins | of_set);
      if (bin < in.num_bins) {
        put<true>(&counts[in.counter(segment.batch, 0, bin)], memory[i]);
      }
    }
  }
  /// A thread sums the words of a bin. Neighbouring threads start in different words, so that no
  /// two lanes meet in a bank.
  __device__ void add_one_channel(const Segment& segment, Counts counts) const {
    const int words = 1 << in.log_entry_words;
    for (int bin = threadIdx.x; bin < Layout::num_bins(in); bin += kColumnThreads) {
      const uint32_t* entry = begin_of_entry(entry_of(bin));
      uint32_t sum = 0;
#pragma unroll 8
      for (int i = 0; i < words; ++i) {
        sum += entry[(i + threadIdx.x) & (words - 1)];
      }
      put<true>(&counts[in.counter(segment.batch, 0, bin)], sum);
    }
  }
};

} // namespace histo::cuda
