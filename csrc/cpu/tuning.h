// The numbers the CPU engine was tuned with. A row is a number and the benchmark case that gave it,
// with the distribution of its values, on one thread of a Zen 5 or the processor that is named; or
// the case that it is "shown by", because it matters there. All are in benchmarks/cases.py. A
// number without a case was set by reasoning. docs/tuning.md tells what else was tried.
#pragma once

#include <cstddef>
#include <cstdint>

namespace histo::cpu::tuning {

// --- What memory is like

constexpr int64_t kLineBytes = 64;
/// From one table to the next: the processor takes counters a multiple of 4096 bytes apart for the
/// same ones at first, so there is a line more.
constexpr int64_t kTableStep = 1024 + 64;         // uint8 [2^17, 512], two values
constexpr int64_t kTableStepOf32Bits = 2048 + 64; // uint8 [2^17, 512], two values
/// Between the tables of two threads: the processor fetches to the end of a page.
constexpr int64_t kScratchGap = 4096; // uint8 [2^17, 512], uniform, two threads
/// The tables of a thread take at most this, and 1 MiB with the tile. With more bins, threads count
/// in the result itself.
constexpr int64_t kMaxTableBytes = (1 << 20) - (16 << 10);

// --- Which values agree

/// Elements of a sample of a chunk, and how many of them may equal another at a distance before
/// values are said to agree, rarely or often.
constexpr int64_t kSample = 128;        // uint8 [2^26], text
constexpr int64_t kMaxAgreeing = 3;     // uint8 [2^26], text
constexpr int64_t kMaxFrequent = 32;    // uint8 [2^17, 512], text
constexpr int64_t kSampledDistance = 2; // uint8 [2^26], alternating

// --- Streams

/// Channels that lie together are counted in turns from a chunk of this many bytes.
constexpr int64_t kChunkBytes = 16384;
/// A chunk of one channel. A sample is taken of each chunk.
constexpr int64_t kChunkElements = 16384; // uint8 [2^26], text
/// One channel is prefetched this far ahead.
constexpr int64_t kAheadBytes = 48 << 10; // int32 [2^24], 1024 bins, uniform
constexpr int64_t kMaxStreams = 32;
/// Shorter runs take as long to set up as to count.
constexpr int64_t kMinStream = 64;
/// With more bins, each has one counter and not several.
constexpr int64_t kMaxBinsOfSmallTables = 4096; // int16 [2^25], 4096 bins, uniform
/// Elements of one turn of a loop.
constexpr int64_t kUnrolledElements = 16; // uint8 [2^17, 512], constant

/// 16-bit counters, if values are distinct: the tables, and the neighbours that each gets in turn.
constexpr int kTablesIfDistinct = 4;        // uint8 [2^26], normal
constexpr int kRunIfDistinct = 4;           // uint8 [2^26], normal
constexpr int64_t kUnrolledIfDistinct = 32; // uint8 [2^26], normal
/// 16-bit counters, if values are repeated: the counters of a value, and how many of them lie
/// together.
constexpr int kCountersIfRepeated = 16; // uint8 [2^26], constant
constexpr int kLanesOfBytes = 16;       // uint8 [2^26], two values
constexpr int kLanesOfIndices = 4;      // int16 [2^25], 4096 bins, run-length
/// One element in 16 has its counters prefetched this far ahead, unless a sample has no new value.
constexpr int64_t kElementsFetched = 32;  // int16 [2^25], 4096 bins, run-length
constexpr int64_t kUnfetchedSample = 512; // int16 [2^25], 4096 bins, constant
/// 32-bit counters: the tables that elements go to in turns.
constexpr int kTablesOf32Bits = 8;           // uint8 [2^26], constant, Zen 3
constexpr int64_t kUnrolledOf32Bits = 32;    // uint8 [2^26], run-length, Zen 3
constexpr int kTablesOf32BitsIfDistinct = 2; // int16 [2^25], 4096 bins, uniform, Zen 3

// --- Streams of bytes

/// A joint table has a counter for any two neighbours. It pays from this number of elements on.
constexpr int64_t kJointIndices = 1 << 16;
constexpr int64_t kMinJointElements = 1 << 17; // uint8 [2^17], normal
/// This part of a chunk tells whether two values take turns.
constexpr int64_t kPartOfAlternating = 8; // uint8 [2^26], alternating
/// Pairs of neighbours in any order: the tables that they go to in turns, and the least sizes.
constexpr int kTablesOfPairs = 5;             // uint8 [2^26], constant, Zen 3
constexpr int64_t kMinPairElements = 1 << 18; // uint8 [2^18], constant, Zen 3
constexpr int64_t kMinPairRun = 2048;         // uint8 [2^15, 2048] over (1), uniform, Zen 3

// --- Bins between edges

/// Elements that are digitized before their slots are counted.
constexpr int64_t kDigitizedElements = 1 << 15; // shown by float32 [2^24], 255 bins in (-3.7, 4.1)
/// The same of joint slots: all coordinates of so many points stay in the cache. `--suite joint`
/// shows it, by points of two and three float64 in one tensor.
constexpr int64_t kJointElements = 4096;
/// Values that are searched at once, where they are converted first, or have bins of their own.
constexpr int64_t kSearched = 512; // shown by float32 [2^17, 64], 255 bins own ranges
/// The buckets of a channel, with fewer and with at least kMinValuesOfManyBuckets values between
/// its edges. Most of the many buckets have no threshold, but they take longer to fill.
constexpr int32_t kFewBuckets = 4096;
constexpr int32_t kManyBuckets = 16384; // shown by float32 [2^22], 255 bins by random edges
constexpr int64_t kMinValuesOfManyBuckets = 1 << 18;
/// Lines that values are fetched ahead of a search.
constexpr int64_t kSearchedAhead = 64; // shown by float32 [2^24], 255 bins in (-3.7, 4.1)
/// Values of one or two bytes: with fewer rows the bins of all patterns take longer to find than
/// those of the values.
constexpr int64_t kMinRowsOfOneByte = 1 << 10;  // shown by uint8 [2^17, 512], 10 bins in (0, 255)
constexpr int64_t kMinRowsOfTwoBytes = 1 << 20; // shown by bfloat16 [2^24], 255 bins in (-4, 4)
/// Patterns whose bins a thread finds before it takes others.
constexpr int64_t kPatternsPerTask = 1 << 16;
/// With fewer values for each edge of a range that all channels share, edges are computed: checking
/// all of them takes longer.
constexpr int64_t kMinValuesPerSharedEdge = 48; // float32 [1000] in (-4.1, 4.3)
/// Channels whose thresholds are found together, where no table says how many.
constexpr int64_t kDigitizedChannels = 64;
/// Counts of channels that are cleared, digitized and counted together.
constexpr int64_t kDigitizedCounts = 1 << 14; // float32 [20000, 49] over (1) in (-4.1, 4.3)

// --- More than kMaxBinsOfSmallTables bins

/// Indices that are made together, and the elements that a sample is taken of.
constexpr int64_t kIndexedElements = 4096;   // int32 [2^24], 2^16 bins, text
constexpr int64_t kWideChunkElements = 8192; // int32 [2^24], 2^16 bins, text
/// Ends of runs that are found at once, without a branch for each.
constexpr int64_t kEndsAtOnce = 4; // int32 [2^24], 2^16 bins, run-length
/// A block of two values only is counted by comparing.
constexpr int64_t kComparedElements = 256; // int32 [2^24], 2^16 bins, two values

// --- Counters of 8 bits, which may wrap

constexpr int64_t kMaxByteValues = 1 << 16;
/// Values whose bits are checked together, and how far ahead they are prefetched.
constexpr int64_t kValuesAtOnce = 64;        // int32 [2^24], 2^16 bins, uniform
constexpr int64_t kValuesAheadBytes = 16384; // int64 [2^24], 2^16 bins, uniform
/// All counters are summed up after at most this many elements. With fewer the sum costs too much.
constexpr int64_t kByteChunkElements = 1 << 17; // int32 [2^24], 2^16 bins, uniform
constexpr int64_t kMinByteElements = 1 << 16;
/// Values for each counter, on average: counts are moved after the first number. Counters that wrap
/// before the second one are not used again.
constexpr int64_t kMaxPerByteCounter = 176; // int32 [2^24], 2^16 bins, uniform, Granite Rapids
constexpr int64_t kMinPerByteCounter = 4;
/// One sample of kWideChunkElements is taken in this many elements.
constexpr int64_t kBytesSampledEach = 1 << 15; // int32 [2^24], 2^16 bins, uniform, Granite Rapids
/// Chunks that are counted in another way, after neighbours agreed, and after counters wrapped or
/// were missing. With 16 for both, an input is 4 % slower if one value in 10,000 has no counter.
constexpr int64_t kPauseOfAgreeing = 16;
constexpr int64_t kPauseOfUncounted = 64;

// --- Columns in tables

/// Rows of a tile, which is counted from the L1 cache.
constexpr int64_t kTileRows = 256; // uint8 [2^17, 512], uniform
/// Counters of 16 bits: two columns are a pair and share a table.
constexpr int64_t kLanesPerPair = 2;
/// Pairs that are counted at once, and the rows of each in a turn.
constexpr int kPairsIfDistinct = 2;      // uint8 [2^17, 512], normal
constexpr int kRowsIfDistinct = 8;       // uint8 [2^17, 512], normal
constexpr int kPairsIfRepeated = 4;      // uint8 [2^17, 512], alternating
constexpr int kMorePairsIfRepeated = 8;  // uint8 [2^17, 512], two values
constexpr int kMostPairsIfRepeated = 16; // uint8 [3355, 20000], run-length

// --- Quantiles

/// Keys of a tile.
constexpr int64_t kKeysPerTile = 2048; // shown by float32 [2^24] median
/// How far ahead values are fetched.
constexpr int64_t kKeysAheadBytes = 16384; // shown by float32 [2^24] median
/// Channels side by side: so many rows are copied before their keys are made, and the rows so far
/// ahead are fetched.
constexpr int64_t kKeyRows = 128;     // bfloat16 [2048, 4096] median
constexpr int64_t kKeyRowsAhead = 16; // bfloat16 [2048, 4096] median
/// Channels of at most so many rows are sorted together: fewer channels than a line has keys, or one
/// quantile of 64-bit keys; one quantile, or bytes; several quantiles.
constexpr int64_t kMaxSortedRows = 128;          // shown by float32 [4096, 100] over (1) median
constexpr int64_t kMaxSortedRowsOfMany = 320;    // shown by float16 [32, 197, 768] over (1) median
constexpr int64_t kMaxSortedRowsOfSeveral = 640; // shown by float32 [64, 577, 64] over (1) summary
/// Channels of at most these many bytes are copied: with few quantiles, and with many. Channels of
/// two-byte types are copied up to kCopiedBytesOfTwo, unless threads share them: counting more values
/// is faster.
constexpr int64_t kCopiedBytes = 512 << 10; // shown by float32 [64, 2^16] over (1) median
constexpr int64_t kCopiedBytesOfMany = 8 << 20;
constexpr int64_t kCopiedBytesOfTwo = 96 << 10; // bfloat16 [8, 256, 1024] over (1, 2) median
constexpr int64_t kManyQuantiles = 64;
constexpr int64_t copied_bytes(size_t key_bytes, int64_t num_q, bool threads_share) {
  if (key_bytes == 2) {
    return threads_share ? kCopiedBytes : kCopiedBytesOfTwo;
  }
  return num_q < kManyQuantiles ? kCopiedBytes : kCopiedBytesOfMany;
}
/// Keys of larger channels are copied once they fit here.
constexpr int64_t kGatheredBytes = 16 << 20; // float64 [2^23] nine quantiles, uniform, Zen 4
/// Prefixes that are looked for at once, those of them whose digits are counted, and those that are
/// found by comparing.
constexpr int64_t kMaxPrefixes = 255;
constexpr int64_t kMaxCountedPrefixes = 8;
constexpr int64_t kMaxComparedPrefixes = 4;
constexpr int64_t kComparedKeys = 32;
/// A sample of n keys for q quantiles has (n * q)^(2/3) keys times the first number, but not more
/// than one in the second. Fewer keys than the third are not sampled.
constexpr double kShareOfSample = 0.6;        // float64 [2^23] nine quantiles, uniform, Zen 4
constexpr int64_t kMinKeysPerSampled = 16;    // shown by float32 [2^24] nine quantiles
constexpr int64_t kMinKeysOfSample = 1 << 14; // shown by float32 [64, 2^16] over (1) median
/// Brackets: the part of keys in memory that may be expected in them, and how many there may be.
constexpr double kMaxShareOfBrackets = 0.4; // float64 [2^23] nine quantiles, uniform, Zen 4
constexpr size_t kMaxBrackets = 64;
/// A thread reads at least this many sampled keys.
constexpr int64_t kMinSampledPerThread = 4096; // shown by float32 [2^24] median, two threads
/// In memory: keys of so many bytes are compared with each other.
constexpr int64_t kRankedBytes = 256; // shown by float32 [4096, 1024] over (1) summary

// --- Sketches

/// Elements of one channel that are looked at before they are counted.
constexpr int64_t kSketchElements = 512;
/// The same of channels side by side, whose counts stay in the cache of the second level.
constexpr int64_t kSketchChannels = 16;
constexpr int64_t kSketchRows = 256;
/// Rows that are fetched ahead.
constexpr int64_t kSketchRowsAhead = 16;

// --- Weights

/// The tables of a thread take at most this. Few of their cells are used: those of the exponents
/// that weights have.
constexpr int64_t kMaxWeightTableBytes = 4 << 20;
/// Channels that lie side by side and are added together: weights of float32 [2^15, 512].
constexpr int64_t kWeightStrip = 64;
/// With more cells for each weight of a channel tables take longer to clear and to carry than
/// weights to add to the result itself.
constexpr int64_t kCellsPerWeight = 2;

// --- The result

/// Results of at least this size are put in huge pages, if the system has them.
constexpr int64_t kMinHugeBytes = 32 << 20; // uint8 [3355, 2^14], uniform

// --- Threads

/// A second thread takes 5 us to wake up.
constexpr int64_t kMinElementsPerThread = 1 << 16;
/// Up to this many counters are cleared or added by one thread.
constexpr int64_t kMinCountersPerTask = 1 << 18;
/// Tasks are handed out one by one: a thread that is held up holds up no other.
constexpr int64_t kTasksPerThread = 32; // uint8 [2^17, 512], uniform, two threads
/// The tasks of a result of at least this size are whole strips, if each thread has at least so
/// many of them.
constexpr int64_t kMinCountsOfWholeStrips = 1 << 21; // uint8 [3355, 8192], uniform, Granite Rapids
constexpr int64_t kMinWholeStrips = 2;               // uint8 [6710, 10000], uniform, two threads
/// Each thread begins with a range of tasks that follow each other. More threads share ranges.
constexpr int64_t kMaxRanges = 64; // uint8 [3355, 20000], uniform, two threads
/// Tables of one channel of bytes are on the stack: an allocation takes 0.7 us.
constexpr int64_t kStackBytes = kTablesOf32Bits * kTableStepOf32Bits; // uint8 [1000], uniform

} // namespace histo::cpu::tuning
