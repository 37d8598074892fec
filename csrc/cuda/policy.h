// The engine's numbers on CUDA. A comment says what a number is. After "case" stands the input that
// chose it, and after "shown by" a case of benchmarks/cases.py that it matters to. A number without
// either follows from the hardware or from another number, or was set by reasoning. The other
// choices, and what they took, are in docs/tuning.md.
#pragma once

#include <cstdint>

namespace histo::cuda {

/// The load of a lane.
enum class Access {
  kLoose, // four bytes, put together from two words, at any address
  kWord,  // an aligned word of four bytes, or of eight where the elements are so wide
  kVec16, // 16 aligned bytes
};

// --- Memory ------------------------------------------------------------------------------

constexpr int64_t kLineBytes = 128; // of memory, in both caches
constexpr int64_t kVec16Bytes = 16;
constexpr int64_t kWarpBytes = 32 * kVec16Bytes; // of a warp
constexpr int64_t kSectorBytes = 32;
constexpr int64_t kBanks = 32;
constexpr int64_t kReservedBytes = 1024; // of shared memory, by CUDA, for a block
constexpr int64_t kDeclaredBytes = 2048; // of static shared memory, at most, in most kernels
// Bytes that L2 fetches for a block while the block finds the bins between edges.
// Case: float32 [64, 3, 1176, 1176] over (2, 3) in (0, 1).
constexpr int64_t kFetchedAhead = 128 << 10;

// --- Columns (interleaved.cu, rows.cu, planar.cu) --------------------------------------------

// An SM has one block, which keeps 48 KiB of loads in flight. Case: uint8 [2^20, 512].
constexpr int kColumnThreads = 768;
constexpr int kBytesInFlight = 64; // a thread
// Fewer leave L1 room for lines of which a warp reads a part. Case: int16
// [2^23, 64] in 4096 bins.
constexpr int bytes_in_flight(int64_t element_bytes, Access access, bool mixed) {
  return access == Access::kWord && element_bytes == 2 && mixed ? 56 : kBytesInFlight;
}
// Loads in flight if a word is two loads. Shown by: uint8 [2^20, 511]
constexpr int kLooseUnroll = 8;
// A loose word may reach kMostBeyondLoose bytes beyond a row. The last kRowsAtEnd rows of a block
// are loaded with more care, and so is its first round. Case: uint8 [2^18, 511] of rows of 1023.
constexpr int64_t kMostBeyondLoose = 8;
constexpr int kRowsAtEnd = 8;

// Whether a thread issues all loads of the next round before it adds those of this one. If not, the
// compiler mixes them. Workaround nvcc-13.0-loads-apart: see docs/tuning.md. Cases: uint8 [512, 2^20]
// over 1, int16 [2^29], int16 [2^23, 63], int32 [2^28] in 65,536 bins, int32 [2^22, 64].
constexpr bool loads_apart(int64_t element_bytes, Access access) {
  return access == Access::kVec16 || (access == Access::kWord && element_bytes != 2);
}

// Bytes: a table of 128 columns, a whole line of memory, with two 16-bit counters in a word
// (packed16): 64 KiB. Case: uint8 [2^20, 512].
constexpr int kByteColumns = 128;
constexpr int64_t kByteTableBytes = int64_t{256} * kByteColumns * 2;
// Half a table. If rows begin with lines, neighbouring blocks read the two halves of each line at
// about the same time. Case: uint8 [2^17, 512].
constexpr int64_t kHalfColumns = kByteColumns / 2;
constexpr int64_t kHalfTableBytes = kByteTableBytes / 2;

// The most that a packed16 counter holds. Before more rows come, counters of more than
// kMostLeftBySpill are emptied into the counts. Case: uint8 [2^23, 512].
constexpr int kMaxPacked16 = 65535;
constexpr int kMostLeftBySpill = (1 << 13) - 1;
constexpr int kRoomAfterSpill = kMaxPacked16 - kMostLeftBySpill;
// A stream begins with one row that is not whole, and ends with two.
constexpr int kRaggedRows = 3;
// If rows in runs have gaps, the last row is counted apart: nothing may lie behind it.
constexpr int kRowsApart = 1;

// Rows of 512 bytes that a table of planar.cu has room for. A counter gets all of the 16 bytes that
// a lane reads of one channel, six if three channels lie in turn, or four if two or four do.
constexpr unsigned rows_of_planar(bool packed16, bool in_turn) {
  return !packed16 ? 0xffffffff / 16 : in_turn ? kMaxPacked16 / 6 : kMaxPacked16 / 4;
}
// Whole rows that a warp counts at a time (rows.cu). Case: uint8 [2^20, 512].
constexpr unsigned rows_of_chunk(unsigned columns) {
  return kBytesInFlight / kVec16Bytes * (kWarpBytes / columns);
}

// Wider types have up to 32 counters a bin, one a bank. Channels side by side have at least four,
// or a block reads too little of each sector. Case: int16 [2^23, 64] in 4096 bins.
constexpr int64_t kFewestColumns = 4;
// One channel may have more bins than a table. At most this many blocks then read the same data,
// each for some of the bins. Cases: int32 [2^26] in 131,072, 200,003 and 300,000 bins.
constexpr int64_t kMaxTablesOfBins = 4;
// A table is at most this part of what its block reads, so that to clear and reduce it stays small
// beside counting.
constexpr int64_t kReadPerTable = 4;
// With less for a block, a table costs more to clear and to reduce than it saves.
constexpr int64_t kMinShareBytes = 16 * 1024;
constexpr int64_t kMinShareRows = 192;

// Words of a table that a block of the reduction sums over all tables of a segment. They are fewer
// if there would be fewer blocks than SMs, and more if a segment has few tables. Case: uint8
// [2^20, 512].
constexpr int kFewReduceWords = 64;
constexpr int kReduceWords = 256;
constexpr int kManyReduceWords = 1024;
constexpr int64_t kTablesOfManyReduceWords = 16;
constexpr int kReduceThreads = 512;
// Loads in flight a thread. 33 tables of a segment are dealt to 8 threads, up to 16 to 2 threads.
// Shown by: uint8 [2^17, 512]
constexpr int reduce_unroll(int words) {
  return words == kManyReduceWords ? 8 : 5;
}

// Segments of up to this many rows are counted sooner in one block than in several whose tables are
// reduced. Cases: uint8 [3000, 4096], [2048, 2048], [6000, 4096].
constexpr int64_t rows_of_one_block_per_segment(int64_t columns) {
  return columns == kHalfColumns ? 60 : 96;
}
// If each block keeps to one segment, there must be blocks for at least this part of the SMs.
constexpr double kEnoughBlocks = 0.9;
// With more segments than SMs, a segment of this many rows is counted in the time of a reduction.
constexpr int64_t kRowsOfWholeSegments = 1500;

// Smaller inputs are counted sooner by generic.cu, in one launch. Cases: uint8 of 512 and of 64
// channels; of one and of three channels; int64 of one channel; 1 to 3 MiB.
constexpr int64_t kMinBytesForColumns = 7 << 18;
constexpr int64_t kMinBytesForFewChannels = 5 << 18;
constexpr int64_t kMinBytesForFewWideChannels = 3 << 18;

// Up to this many channels a block sums the columns of each and adds the sums to the counts. With
// more it writes its table out. Shown by: uint8 [64, 1664, 1664, 3] over (1, 2)
constexpr int64_t kMaxChannelsAddedByBlock = 4;

// If segments are shorter than this, several blocks share an SM and do not wait at the same time.
// Cases: uint8 [700, 2^29 / 700] and [1500, 2^29 / 1500] over 1; 700, 1000 and 1500 images of three
// channels.
constexpr int64_t short_segment_bytes(bool in_turn) {
  return (in_turn ? 448 : 576) * 1024;
}
constexpr int threads_of_short_segments(bool in_turn) {
  return in_turn ? 384 : 256; // a round of the first is a multiple of three rows
}

// Additions are faster than memory, so a quarter of the columns may be idle. Each further table
// must fill one column in a hundred more, because it has to be reduced, too. Shown by: uint8
// [2^20, 500]
constexpr double kEnoughFill = 0.75;
constexpr double kGroupCost = 0.01;
constexpr int64_t kMaxStreamGroups = 16;
// A stream's rows are aligned, but its reduction adds to counters that several columns share.
// Cases: uint8 [10000, 511], [131072, 511].
constexpr int64_t kMinStreamBytesPerTable = 1 << 20;

// --- Rows with gaps, and in runs (interleaved.cu) --------------------------------------------

// Gaps are read with the rows if they are no longer than the rows. Up to three times as long ones
// are read if rows begin at most this many bytes apart. Cases: uint8 of 60 channels every 120
// elements, 5 every 8.
constexpr int64_t kReadWithRows = 64;
// One channel of bytes. Cases: uint8 [2^28] of every 2nd, 3rd and 4th.
constexpr int64_t kMaxGapOfOneChannel = 4;
// Gaps between rows that begin within words are read if a row and its gap are at most this many
// times as long as the row. Cases: uint8 of 511 every 600, 511 every 1022.
constexpr double kMostStrideWithGaps = 1.75;

// Rows in several runs are counted as rows of one, if runs have fewer bytes than this for each
// table of a row. Cases: 128 MiB of uint8 of 64 channels, of int16 of 200.
constexpr int64_t kLongRunOfRows = 128 * 1024;
// Rows in runs must fill this part of their tables. If not, runs.cu counts them. Cases: uint8 of 43
// to 72 channels in runs of 251 rows.
constexpr double enough_fill_in_runs(Access access) {
  return access == Access::kVec16 ? 0.33 : access == Access::kWord ? 0.5 : 0.66;
}
// Rows are joined to fill tables, and to become vec16s or words. The costs are the part of a table
// that rows in words, or in loose words, must fill more than rows in vec16s. Cases: uint8 of 24,
// 100 and 130 channels in runs of 16 and 64 KiB.
constexpr double kWordCost = 0.15;
constexpr double kLooseCost = 0.4;
constexpr int64_t kMaxGroupsInRuns = 32;

// --- Some MiB of bytes in clusters (clustered.cu) ----------------------------------------

// Case: uint8 [2^14, 512], in 8 clusters of 8 blocks of 64 columns.
constexpr int kClusteredThreads = 512;
// Every block but the last one reads a multiple of this many rows.
constexpr int64_t kClusteredRows = 512;
constexpr int64_t kMaxRowStride = (int64_t{1} << 31) - 1;
// Clusters of 8 find room on 120 of 132 SMs, and perhaps on fewer. A single cluster that finds no
// room at first makes the kernel take twice as long.
constexpr double kSmsInClusters = 0.85;
// Cases: uint8 [2048, 512], [2^14, 64].
constexpr int64_t kMinBytesForClusters = 1 << 20;
// The columns of a table are shared out to more clusters until a block reads no more than this.
// With more than one they add to zeroed counts. Case: uint8 [2^17, 64].
constexpr int64_t kEnoughBytesOfClusteredBlock = 128 * 1024;
// A block may read this much more than its share would be if all SMs were used. Cases: 16 and 24
// MiB of 512 channels on 64 SMs, 64 MiB of 64 channels on 112.
constexpr int64_t kMaxExcessOfClusteredBlock = 170 * 1024;
// The same if rows of several groups are read by halves of lines. Cases: 32 and 64 MiB of 448
// channels.
constexpr int64_t kMaxExcessWhereItAdds = 70 * 1024;
// More rows that begin with lines are counted sooner in half tables (rows.cu), and so are rows of
// one or two groups. Cases: uint8 of 64, 128, 512 and 2048 channels, 2 to 16 MiB.
constexpr int64_t kMaxBytesForClusters = 10 << 20;
constexpr int64_t kMostSegmentsOfRows = 2;

// --- One channel with many bins (partitioned.cu) --------------------------------------------

// Case: int32 [2^28] in 2^20 bins, uniform and skewed.
constexpr int kPartitionedThreads = 1024;
// A bucket is what one block leaves for another in a round. A round costs much the same whatever
// the buckets hold, so a tile nearly fills them: 224 of 255 items on average. Shown by: int32
// [2^28], 2^20 bins
constexpr int64_t kBucketBytes = 512;
template <int kElementBytes>
constexpr int kPartitionedVec16s = kElementBytes == 2 ? 3 : 7; // a thread
// A block counts the next tile by itself if, in half of its threads, one element in this many finds
// no room in a bucket, or has a counter in the block. Cases: 2 and 300 values, sparse bits.
constexpr int kOverflowPart = 4;
// The words that the blocks count their arrivals in, alone in their line.
constexpr int64_t kBarrierBytes = 128;
// An item of a bucket has 16 bits: the number of the owner's bin, and whether it stands for 16
// bytes.
constexpr unsigned kMaxLogOwned = 15;
constexpr int64_t kFewestOwners = 32;
// Cases: 16 to 256 MiB of int32 in 2^20 and 2^22 bins.
constexpr int64_t kMinBytesForPartitioned = 16 << 20;
constexpr int64_t kMinElementsPerBin = 4;

// --- Short runs (runs.cu) ----------------------------------------------------------------

// An SM has three blocks, if their tables fit. Case: uint8 planes of 4 KiB.
constexpr int kLogRunThreads = 9;
constexpr int kRunThreads = 1 << kLogRunThreads;
constexpr int kRunBlocksOfSm = 3;
// Vec16s in flight a thread. Cases: planes of 4 KiB, 512 segments of 8 channels.
constexpr int kLogRunUnroll = 2;
constexpr int kRunUnroll = 1 << kLogRunUnroll;
// A block reads at least as much as its table holds, and at least the first number of bytes; the
// second, if there are blocks for all SMs. Cases: crops of one channel, 2 and 8 MiB.
constexpr int64_t kMinRunBytesOfBlock = 16 * 1024;
constexpr int64_t kEnoughRunBytesOfBlock = 64 * 1024;
// If there are more segments than resident blocks, the grid has at least this many times the
// resident blocks. Cases: 512 segments of 8 channels, int16 of 32 channels.
constexpr int64_t kRunWaves = 2;
// Smaller inputs are counted sooner by generic.cu, in one launch. So are segments that have few
// rows for each of their bins. Cases: uint8 [2048, 1024], [4096, 1024] and [8192, 512, 32] over 1.
constexpr int64_t kMinBytesForRuns = 7 << 18;
constexpr int64_t kMinRowsPerBinOfRuns = 4;
// Rows of one channel are read with the gaps between them if a row and its gap are at most this
// long. A vec16 that begins with the last of these bytes then ends within 64 bytes, so that 64 bits
// have one for each. Case: uint8 [100000, 3, 20, 20] cut out of [100000, 3, 24, 25].
constexpr int64_t kMaxJoinedRowBytes = 64 - kVec16Bytes;
// The counters of a block have 32 bits.
constexpr int64_t kMaxVec16sOfBlock = 1 << 27;

// From this number of bytes on, runs are counted sooner by interleaved.cu and planar.cu, which stop
// at each end. Cases: uint8 of three channels, of 64; of one; int32 of one channel, int16 of 8.
constexpr int64_t kLongRun = 20 * 1024;
constexpr int64_t kLongRunOfOneChannel = 64 * 1024;
constexpr int64_t kLongRunOfWiderTypes = 96 * 1024;
// The same for segments whose columns have copies, if there are more segments than SMs. Cases:
// uint8 of 8 channels, int32 of one.
constexpr int64_t kLongSegment = 512 * 1024;
constexpr int64_t kLongSegmentOfOneChannel = 128 * 1024;

// --- Channels of any numbers (plan/channels.cpp) ---------------------------------------------

// The most bytes that a lane reads of a row of columns. Cases: bfloat16 [2^20, 512] and float32
// [2^19, 512], own ranges.
constexpr int64_t kMostBytesOfWord = 8;
// Setting a block out takes as long as reading so many bytes. Shown by: float32 [2^24] in (-3.7, 4.1)
constexpr int64_t kSetupBytes = 64 << 10;
// Blocks run in waves. A few more waves than needed are tried, to find full ones. Shown by:
// float32 [64, 3, 1176, 1176] over (2, 3) in (0, 1)
constexpr int64_t kMoreWaves = 3;
// Shorter runs are read row by row: a run takes a block as long as a thousand rows do.
constexpr int64_t kShortestRun = 1024;
// Stripes of columns that the joined rows of a dense input have at most. Shown by: float32
// [64, 1176, 1176, 3] over (1, 2) in (0, 1)
constexpr int64_t kMaxStripes = 256;

// Items of a place: a thread begins a new item in the time of so many rows. Case: bfloat16
// [4, 32, 2048, 128] over (0, 2).
constexpr int64_t kRowsToSetUpItem = 8;
constexpr int64_t kMostStepsOfColumns = 64;
// A block reads all places.
constexpr int64_t kMostPlacesOfColumns = 8192;
// Inputs of so many bytes, at least and at most, whose channels lie side by side with gaps between them
// are copied into runs first, by blocks of so many threads. Case: float16 [3109, 13072][:, ::2].
constexpr int64_t kLeastBytesToCopy = 8 << 20;
constexpr int64_t kMostBytesToCopy = 256 << 20;
constexpr int kThreadsOfGather = 256;

// --- Any strides (generic.cu) ------------------------------------------------------------

// Shown by: int32 [4096, 8], 128 bins
constexpr int kGenericThreads = 512;
// Loads in flight a thread. Cases: uint8 [1, 20000], [100, 20000] with 16 bins.
constexpr int kGenericUnroll = 8;
// Loads of 16 bytes in flight. Shown by: int64 [2^16]
template <int kElementBytes>
constexpr int kGenericVec16s = kElementBytes == 8 ? 8 : 4;
constexpr int64_t kGenericBlocksPerSm = 4;

// Slots for the hot bins of a block, if the bins are too many for a table.
constexpr unsigned kLogHotBins = 12;
constexpr unsigned kHotBins = 1 << kLogHotBins;

// Blocks of a cluster reduce their tables among themselves: one launch. Case: int64 [65536].
constexpr int64_t kMaxCluster = 8;
constexpr int64_t kMaxClusterRounds = 4; // of kGenericUnroll loads a thread

// If channels lie side by side, a block may use only one element of each sector that it reads. This
// is for inputs of up to this many elements; with twice as many a block must use two, and so on.
// Whole sectors for 2^18 elements are 8 MiB of traffic with L2.
constexpr int64_t kElementsPerSector = 1 << 18;

// A row of a tile is at most this long: memory hands out 64 bytes at a time, and a warp takes 32
// elements.
constexpr int64_t kTileRowBytes = 64;
constexpr int64_t kTileRowElements = 32;
constexpr int64_t kMostTileChannels = kTileRowBytes; // elements of one byte
static_assert(kTileRowElements <= kMostTileChannels);

// Four blocks share the shared memory of an SM, 227 KiB on a Hopper.
constexpr int64_t kPreferredTableBytes = 48 * 1024;

} // namespace histo::cuda
