// The engine's numbers, each with what was measured for it (H200, 132 SMs).
#pragma once

#include <cstdint>

namespace histo::cuda {

/// How a lane reads its part of a row.
enum class Access {
  kLoose, // four bytes, put together from two words, at any address
  kWord,  // an aligned word of four bytes, or of eight where the elements are so wide
  kQuad,  // 16 aligned bytes
};

// --- Columns (columns.cu) --------------------------------------------------------

// A block is one an SM. 768 threads that have 64 bytes in flight each keep 48 KiB on
// their way: [1M, 512] uint8 is counted in 125.9 us where reading takes 122.8; 1024
// threads take 127.9, two blocks of 384 or 512 threads 129.5 and 130.6.
constexpr int kColumnThreads = 768;
constexpr int kBytesInFlight = 64; // a thread
// Lines of which a warp reads a part take twice as much room in the first-level cache, of which
// tables of 128 KiB leave 124: with 64, 56 and 48 bytes uint8 [2^20, 511] takes 133.4, 131.0 and
// 133.6 us, int16 [2^23, 64] in 4096 bins 301.7, 298.4 and 298.9. Smaller tables leave more:
// [2^20, 500] takes 126.8, 127.2 and 130.1, int16 [2^23, 64] in 1024 bins 250.1 and 251.7.
constexpr int bytes_in_flight(int64_t element_bytes, Access access, bool mixed) {
  return access == Access::kWord && element_bytes == 2 && mixed ? 56 : kBytesInFlight;
}
constexpr int64_t kLineBytes = 128; // of memory, in both caches
constexpr int64_t kQuadBytes = 16;
constexpr int64_t kQuadRow = 32 * kQuadBytes; // of a warp
// Loads in flight where a word is two loads.
constexpr int kLooseUnroll = 8;
// They may reach so many bytes beyond a row. The last rows of a block, so many, are loaded with more
// care, and so are its first ones: where all loads ask whether they stay inside, uint8 [2^18, 511] of
// rows of 1023 takes 67.3 us and not 52.8.
constexpr int64_t kMostBeyondLoose = 8;
constexpr int kRowsAtEnd = 8;

// What of a round a thread adds before it issues the loads of the next one, in loads; below 0
// where the compiler may mix them, which takes up to 9 % longer or not, as other code of the
// kernel leaves it registers.
//
// Bytes: [512, 2^20] over 1 took 129.4 us mixed, 128.3 with the loads first and 127.5 so; in
// words, 16 a round, [2^20, 500] 126 with the loads first and 138 with 4 behind. int16 [2^29]
// takes 237.5 with the loads first and 244.5 mixed; in words [2^23, 63] 363 and 357. int32
// [2^28] in 65,536 bins 306 with the loads first, 318 mixed and 323 with a quad before them, in
// 1024 bins 241.8, 241.9 and 240.6; in words [2^22, 64] 243 and 243 to 266.
constexpr int added_before_loads(int64_t element_bytes, Access access) {
  const bool quad = access == Access::kQuad;
  return access == Access::kLoose ? -1
         : element_bytes == 1     ? (quad ? 1 : 0)
         : element_bytes == 2     ? (quad ? 0 : -1)
                                  : 0;
}

// Bytes: a table of 128 columns as pairs of 16-bit counters, 64 KiB. A row of a table
// is a whole line of memory: 64 columns a table, half lines, reach 0.66 of the speed
// of reading and 32 columns 0.58.
constexpr int kByteColumns = 128;
constexpr int64_t kByteTableBytes = int64_t{256} * kByteColumns * 2;
// But where rows begin with lines, and neighbouring blocks read the two halves of each at about the
// same time, half a table is half to store and to fold (rows.cu): 64 MiB of 128, 512 and 2048
// channels take 21.1, 21.1 and 22.1 us, and in whole tables 22.5, 22.2 and 23.5; 32 MiB of 512 13.5
// and 14.8, 512 MiB of 128 as long. Their first kernel may start early (clear.h), without it they
// take .7 us more. Other rows lose: [2^20, 448] 159 and 134 us, 496 columns of 640 134.9 and 133.0.
constexpr int64_t kHalfColumns = kByteColumns / 2;
constexpr int64_t kHalfTableBytes = kByteTableBytes / 2;
constexpr int64_t kReservedBytes = 1024; // of shared memory, by CUDA, for a block

// What a counter of a pair holds. Before more rows come, counters of more than so many are
// emptied into the counts. The fewer stay, the more rows fit until the next time: 4 GiB of
// [2^23, 512] take 969 us and 973 where half of the range stays; a column has few bins that
// hold more.
constexpr int kMaxPairCount = 65535;
constexpr int kMostLeftBySpill = (1 << 13) - 1;
constexpr int kRoomAfterSpill = kMaxPairCount - kMostLeftBySpill;
// A stream begins with one row that is not whole, and ends with two.
constexpr int kRaggedRows = 3;
// Of rows in runs the last one is counted apart, where there are gaps between them.
constexpr int kRowsApart = 1;

// Rows of 512 bytes that a table of planes.cu has room for: of 16 bytes that a lane reads, one counter
// gets all, six of three channels in turn, or four of two or four.
constexpr unsigned rows_of_planes(bool paired, bool in_turn) {
  return !paired ? 0xffffffff / 16 : in_turn ? kMaxPairCount / 6 : kMaxPairCount / 4;
}

// What a warp counts of whole rows at a time (rows.cu): quads of 8 lanes a row. [2^20, 512] took
// 124.0 us so, 124.9 with one of the quads added before the next loads, and 143 where loads were
// under a condition, since ptxas then copies what they load and waits for it. Without the moves
// between rounds, by two rounds a turn, as long; with the last chunk apart, so that no load is
// chosen, as long; each quad loaded anew when it is counted, in half of the registers, 64 MiB .3 us
// more. Tables left to the fold in 8 bits, with upper bits apart where there are some: 64 MiB .65
// us less, normal data of 512 MiB 1.3 more.
constexpr unsigned rows_of_chunk(unsigned columns) {
  return kBytesInFlight / kQuadBytes * (kQuadRow / columns);
}

// Wider types: up to 32 counters a bin, one a bank; of channels side by side at least
// four, or a block reads too little of each sector. Four blocks that read 32 bytes of a line
// each, as for int16 in 4096 bins, need 276 us for what takes 241 by halves of lines or whole
// ones: the second-level cache answers so many requests and no more. Three with 22 channels
// each need 434, since their rows share no banks evenly. Two with 32 channels each, three bins a
// word (10, 11 and 11 bits) and no two lanes in a bank, need 244 for the loop alone where nobody asks
// whether a counter is full, 258 where additions return what was there, and 311 (uniform) to 540 (two
// values) where it is looked at and emptied; their tables, 23 MB, take 20 more to store and fold.
constexpr int64_t kBanks = 32;
constexpr int64_t kFewestColumns = 4;
// One channel may have more bins than a table: so many blocks then read the same data,
// mostly from the second-level cache, each for some of the bins: 256 MiB of int32 in 131,072 bins
// take 113 us in three tables, in 200,003 150 in four, in 300,000 195 in exchange.cu.
// 1 GiB in 65,536 bins takes 271 to 277 us. Where each table had a range of the bins, 299 to 304,
// 325 if all were in one range, and 373 where bits are 1 at one place in eight: bins of one table
// then, and of few banks. With branches around additions 357 to 384.
constexpr int64_t kMaxTablesOfBins = 4;
// A table is at most this part of what its block reads, so that clearing and folding
// it stay small beside counting.
constexpr int64_t kReadPerTable = 4;

// Less than this for a block costs more to clear and fold than a table saves.
constexpr int64_t kMinShareBytes = 16 * 1024;
constexpr int64_t kMinShareRows = 192;

// Words of a table that a block of the fold sums over all the tables of a unit: 256 and
// 512 threads take 3.1 us for 132 tables of 64 KiB, and 512 words or 256 threads no
// less. Fewer where that makes fewer blocks than SMs; more where a unit has few tables,
// so that a thread still has several loads in flight.
constexpr int kFewFoldWords = 64;
constexpr int kFoldWords = 256;
constexpr int kManyFoldWords = 1024;
constexpr int64_t kTablesOfManyFoldWords = 16;
constexpr int kFoldThreads = 512;
// Loads in flight a thread: 33 tables a unit are dealt to 8, at most 16 to 2.
constexpr int fold_unroll(int words) {
  return words == kManyFoldWords ? 8 : 5;
}

// The more tables lie side by side, the more rows are counted sooner in one block than
// in several whose tables are folded: [3000, 4096], 32 tables, takes 18.5 us in one
// and 31 in four. In half tables [2048, 2048], 32 of them, takes 8.4 us in one and 7.4 in four,
// [3000, 4096] 10.8 in one and 12.2 in two, [6000, 4096] 16.4 and 15.1.
constexpr int64_t rows_of_one_block_per_unit(int64_t columns) {
  return columns == kHalfColumns ? 60 : 96;
}
// Blocks that each keep to one unit must be so many of the SMs.
constexpr double kEnoughBlocks = 0.9;
// With more units than SMs, a unit of so many rows is counted in the time of a fold.
constexpr int64_t kRowsOfWholeUnits = 1500;

// Smaller inputs are counted sooner by strided.cu, in one launch (graph replay): bytes of
// 512 channels take 6.7 us there and 9.6 here at 1 MiB, 13.9 and 10.3 at 2 MiB; of 64
// channels 8.5 and 10.6 at 1.5 MiB, 13.7 and 12.1 at 3 MiB.
constexpr int64_t kMinBytesForColumns = 7 << 18;
// One channel of bytes 7.2 and 7.4 at 1 MiB, 9.7 and 7.9 at 1.5 MiB; three 7.5 and 9.4,
// 11.6 and 10.0.
constexpr int64_t kMinBytesForFewChannels = 5 << 18;
// One channel of int64 takes the same in either at 512 KiB and 1 MiB.
constexpr int64_t kMinBytesForFewWideChannels = 3 << 18;

// Up to this many channels a block sums the columns of each and adds the sums to
// the counts; with more it writes its table out.
constexpr int64_t kMaxChannelsAddedByBlock = 4;

// Where units are shorter than this, several blocks share an SM and do not wait at the same time.
// In three blocks of 256 threads uint8 [700, 2^29 / 700] over 1 takes 125.7 us, [1500, ..] 125.9
// and [8192, 2^16] 168; in one of 768 121.5, 137.5 and 248. 700 images of three channels in two
// of 384 take 132.1 us, 1000 132.7 and 1500 137.3; in one 124.1, 130.1 and 143.5.
constexpr int64_t short_unit_bytes(bool in_turn) {
  return (in_turn ? 448 : 576) * 1024;
}
constexpr int threads_of_short_units(bool in_turn) {
  return in_turn ? 384 : 256; // a round of the first is a multiple of three rows
}

// Additions are faster than memory, so a quarter of the columns may be idle; a stream of
// few channels, which costs no fold, leaves none. Every further table side by side is
// more to fold: it has to fill one column in a hundred more.
constexpr double kEnoughFill = 0.75;
constexpr double kGroupCost = 0.01;
constexpr int64_t kMaxStreamGroups = 16;
// A stream's rows are aligned, but its fold adds to counters that several columns
// share: [10000, 511], 16 tables side by side, takes 20 us as a stream and 14 as rows
// whose words are put together; [131072, 511] 36 and 64.
constexpr int64_t kMinStreamBytesPerTable = 1 << 20;

// --- Some MiB of bytes in clusters (clustered.cu) ----------------------------------------

// Bytes of 512 channels: 8 MiB take 8.3 us in 8 clusters of 8 blocks of 64 columns, and 11.9
// in the tables of columns.cu. A prototype that did nothing else took 7.4, with 1024 threads
// 7.6, in 16 clusters of 32 columns 10.2, in 8 clusters of 16 blocks 8.8, in 12 clusters of
// 128 columns 11.1. With more code the kernel takes 1.7 us longer: what runs once is waited
// for.
constexpr int kClusteredThreads = 512;
// A block reads a multiple of so many rows, but for the last one.
constexpr int64_t kClusteredRows = 512;
constexpr int64_t kMaxRowStride = (int64_t{1} << 31) - 1;
// Clusters of 8 find room on 120 of 132 SMs, and on others perhaps fewer; one cluster more
// than find room takes as long again as all of them.
constexpr double kSmsInClusters = 0.85;
// 1 MiB takes 4.8 us and 7.0 in strided.cu, of 64 channels 7.3 and 7.1.
constexpr int64_t kMinBytesForClusters = 1 << 20;
// The columns of a table are shared out to more clusters until a block reads no more than
// this. With more than one they add to zeroed counts: 8 MiB of 64 channels take 8.3 us, and
// 11.7 in columns.cu.
constexpr int64_t kEnoughBytesOfClusteredBlock = 128 * 1024;
// A block may read so much more than its share if all SMs were used. On 64 SMs 16 MiB of 512
// channels take 12.3 us and 13.8 in columns.cu, 24 MiB 16.2 and 15.8; on 112 SMs 64 MiB of 64
// channels 22.2 and 25.6.
constexpr int64_t kMaxExcessOfClusteredBlock = 170 * 1024;
// Rows of several groups are read by halves of lines: 32 MiB of 448 channels take 16.6 us and
// 18.0, 64 MiB 27.1 and 25.9.
constexpr int64_t kMaxExcessWhereItAdds = 70 * 1024;
// In half tables (rows.cu) rows that begin with lines are counted sooner where they are more: 16 MiB
// of 128, 512 and 2048 channels take 9.7, 9.8 and 10.7 us, in clusters 11.2, 10.9 and 12.5; 8 MiB of
// 512 and 1024 channels 7.7 and 8.8, in clusters 7.4 and 7.8. Of one or two groups always, since
// several clusters of a group add to the counts: of 64 channels 2 and 4 MiB take 5.5 and 6.2 us and
// in clusters 7.2 and 7.3, of 128 2 MiB 5.8 and 7.0.
constexpr int64_t kMaxBytesForClusters = 12 << 20;
constexpr int64_t kMostUnitsOfRows = 2;

// --- One channel with many bins (exchange.cu) ------------------------------------------

// int32 in 2^20 bins, 1 GiB: 720 us for uniform data, where additions in memory take 2,675;
// 610 to 1,020 for skewed data, where they take 560 to 1,805. Two blocks an SM of 512
// threads, each with half of the segments, take 12 % longer, 768 threads 9 %.
constexpr int kExchangeThreads = 1024;
// A segment is what one block leaves for another in a round. A round costs much the same
// whatever the segments hold, so a tile nearly fills them: 28 elements a thread make 224
// of 255 entries on average, and 1 in 2000 finds no room; 24 elements take 20 % longer.
constexpr int64_t kSegmentBytes = 512;
template <int kElementBytes>
constexpr int kExchangeQuads = kElementBytes == 2 ? 3 : 7; // a thread
// Where in half of the threads one of so many elements finds no room, or its bin among the block's
// own, the block counts the next tile by itself: two values take 730 us, and 2,310 where it never
// does so. Elements that find no room look among the block's own bins at once: 300 values take 740
// us, bits that are 1 at one place in eight 1,020; 870 and 1,165 where they do so after the tile.
constexpr int kCrowdedPart = 4;
// The words that the blocks count their arrivals in, alone in their line.
constexpr int64_t kBarrierBytes = 128;
// An entry of 16 bits is one of an owner's bins, and whether it stands for 16 bytes.
constexpr unsigned kMaxLogOwned = 15;
constexpr int64_t kFewestOwners = 32;
// int32 in 2^20 bins takes 46 us here and 49 in memory at 16 MiB, 90 and 175 at 64 MiB; in
// 2^22 bins 212 and 205 at 64 MiB, 392 and 756 at 256 MiB.
constexpr int64_t kMinBytesForExchange = 16 << 20;
constexpr int64_t kMinElementsPerBin = 4;

// --- Rows with gaps, and in runs (columns.cu) --------------------------------------------
//
// Of 128 MiB, if nothing else is said.

// Rows are read with what lies between them if that is no longer than they are; or in their lines, so
// many bytes from one row's begin to the next one's. uint8 of 60 channels every 120 elements takes 67
// us, and in runs 113; of 512 MiB 5 every 8 elements takes 134, and in tiles 658.
constexpr int64_t kReadWithRows = 64;
// One channel of bytes: 1-D of every 2nd, 3rd and 4th takes 64 us of 256 MiB and in tiles 176, 124 and
// 98. Further apart each has a pair of sectors of its own.
constexpr int64_t kMaxGapOfOneChannel = 4;
// Rows that begin within words, if they are no further apart than so many times their length: 511
// every 600 take 133 us of 512 MiB, and as words put together 198, 511 every 1022 133 and 125.
constexpr double kMostStrideWithGaps = 1.75;

// Rows in several runs are counted as if in one, with some instructions more for each load, where runs
// have less than so many bytes for each table of a row. So uint8 of 64 channels in runs of 64 KiB, 128
// and 512 takes 37.8, 38.0 and 38.2 us, and with a stop at each end 46.0, 39.6 and 37.4; int16 of 200
// in four tables in runs of 128 KiB, 512 and 2 MiB 48.8, 48.9 and 48.4, and 96.1, 52.1 and 45.1.
constexpr int64_t kLongRunOfRows = 128 * 1024;
// They must fill so much of their tables, or are counted by runs.cu. In runs of 251 rows, which cannot
// be joined, uint8 takes 82 to 87 us there; 48, 64 and 72 channels (quads, quads and words) take 71, 56
// and 76 here, 52 and 60 (words) 101 and 90, 43 and 130 (words put together) 170 and 120.
constexpr double enough_fill_in_runs(Access access) {
  return access == Access::kQuad ? 0.33 : access == Access::kWord ? 0.5 : 0.66;
}
// Rows are joined to fill them, and to become quads or words, which are worth so much fill: in runs of
// 16 KiB 24 channels take 44 us and not 71, 130 take 58 and not 120, in runs of 64 KiB 100 take 54 and
// not 58. A table more is more to fold.
constexpr double kWordCost = 0.15;
constexpr double kLooseCost = 0.4;
constexpr int64_t kMaxGroupsInRuns = 32;

// --- Short runs (runs.cu) --------------------------------------------------------------

// Three blocks an SM, where their tables fit: planes of 4 KiB of bytes take 82.0 us, and 98.7 in two;
// only crops of three channels side by side are slower, 54.6 and 49.5.
constexpr int kLogRunThreads = 9;
constexpr int kRunThreads = 1 << kLogRunThreads;
constexpr int kRunBlocksOfSm = 3;
// Quads in flight a thread. With two, four and eight planes of 4 KiB of bytes take 93.5, 82.0 and 111.3
// us, where they begin anywhere 149.5, 130.2 and 146.8, and 512 units of 8 channels 84.4, 82.0 and 147.4:
// eight do not fit the registers.
constexpr int kLogRunUnroll = 2;
constexpr int kRunUnroll = 1 << kLogRunUnroll;
// A block reads at least as much as its table holds and so much, or more where there are blocks for
// all SMs: a crop of one channel takes 6.5 us of 2 MiB and with 64 KiB 8.4, 9.5 of 8 MiB and 9.1.
constexpr int64_t kMinRunBytesOfBlock = 16 * 1024;
constexpr int64_t kEnoughRunBytesOfBlock = 64 * 1024;
// Blocks for each place, where units are more than places and some share one: in two, four and eight
// times as many, 512 units of 8 channels take 72, 82 and 82 us, int16 of 32 channels 75, 99 and 99.
constexpr int64_t kRunWaves = 2;
// Less is counted sooner by strided.cu, in one launch: [2048, 1024] bytes over 1 take 6.9 us there and
// 8.1 here, [4096, 1024] 13.1 and 8.3, a crop of 2 MiB 13.8 and 8.7. So are units that have few rows for
// each of their bins: [8192, 512, 32] over 1 takes 318 us there and 378 here.
constexpr int64_t kMinBytesForRuns = 7 << 18;
constexpr int64_t kMinRowsPerBinOfRuns = 4;
// Rows of one channel are read with what lies between them where the two are at most so long: so many
// bytes, and a quad that begins with the last of them, fit 64 bits. [100000, 3, 20, 20] cut out of
// [100000, 3, 24, 25] takes 63 us, and 113 row by row.
constexpr int64_t kMaxJoinedRowBytes = 64 - kQuadBytes;
// Its counters have 32 bits.
constexpr int64_t kMaxQuadsOfBlock = 1 << 27;

// Runs of so many bytes are counted sooner by columns.cu and planes.cu, which stop at each end. Bytes of
// three channels take 90 us in runs of 16 KiB there and 57 here, 52 and 57 in runs of 32 KiB; of 64
// channels in several tables 57 and 83 in 32 KiB.
constexpr int64_t kLongRun = 20 * 1024;
// 47 and 44.5 us in runs of 32 KiB, 40 and 44 in 64 KiB.
constexpr int64_t kLongRunOfOneChannel = 64 * 1024;
// int32 of one channel 44 and 39 us in runs of 64 KiB, int16 of 8 channels 66 and 59.
constexpr int64_t kLongRunOfWiderTypes = 96 * 1024;
// Where units have copies of their columns and are more than SMs, so long ones: 8 channels of bytes
// take 157 us there and 65 here in 512 KiB each, 51 and 70 in 1 MiB.
constexpr int64_t kLongUnit = 512 * 1024;
// int32 of one channel 54 and 43 us in 128 KiB each, 42 and 42.5 in 256 KiB.
constexpr int64_t kLongUnitOfOneChannel = 128 * 1024;

// --- Any strides (strided.cu) --------------------------------------------------------

constexpr int kStridedThreads = 512;
// Loads in flight a thread. With 16 of single bytes [1, 20000] takes 35 us and not 28,
// [100, 20000] with 16 bins 11 and not 9.
constexpr int kStridedUnroll = 8;
// Loads of 16 bytes in flight.
template <int kElementBytes>
constexpr int kStridedQuads = kElementBytes == 8 ? 8 : 4;
constexpr int64_t kStridedBlocksPerSm = 4;

// Slots for counters that a block counts itself where the bins are too many for a table.
constexpr unsigned kLogOwnCounters = 12;
constexpr unsigned kOwnCounters = 1 << kLogOwnCounters;

// Blocks of a cluster fold their tables among themselves: one launch. 65,536 int64 ids
// in 256 bins take 4.4 us so, and 5.2 where blocks add to zeroed counts.
constexpr int64_t kMaxCluster = 8;
constexpr int64_t kMaxClusterRounds = 4; // of kStridedUnroll loads a thread

// Where channels lie side by side a block may use only one element of each sector it
// reads: up to this many elements; for twice as many it uses two, and so on. Reading
// whole sectors for 2^18 elements is 8 MiB of traffic with the second-level cache.
constexpr int64_t kElementsPerSector = 1 << 18;
constexpr int64_t kSectorBytes = 32;

// A row of a tile is at most this long: memory hands out 64 bytes at a time, and a
// warp takes 32 elements.
constexpr int64_t kTileRowBytes = 64;
constexpr int64_t kTileRowElements = 32;

// Four blocks share what an SM has, 227 KiB on a Hopper.
constexpr int64_t kPreferredTableBytes = 48 * 1024;

} // namespace histo::cuda
