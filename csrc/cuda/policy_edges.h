// The numbers of histograms between edges: more of policy.h.
#pragma once

#include "cuda/policy.h"

namespace histo::cuda {

// --- Between edges (fill/) ---------------------------------------------------------------

// Threads of a block of each layout. `element` is the size of an element in bytes. Shown by: float32
// [2^28] in (-3.7, 4.1)
constexpr int threads_of_streams(int64_t element) {
  return element == 8 ? 768 : 896;
}
// Shown by: bfloat16 [2^20, 512] own ranges
constexpr int threads_of_columns(int64_t element, bool is_float) {
  return element == 2 && is_float ? 896 : 768;
}
// Columns in small tables: the threads of a block at most, and the blocks of a multiprocessor that
// have so many.
constexpr int kMostThreadsOfStripes = 384;
constexpr int kStripesOfSm = 2;
// Loads in flight of a thread. The bins of integers and doubles take twice the registers. Those of
// two small floats in a word do, too, the more if each channel has its own. Case: bfloat16
// [8192, 4096], a range and range=None.
constexpr int stripe_loads(int64_t element, bool is_float, bool own) {
  return element == 8 || (element == 2 && (own || !is_float)) ? 8 : element == 2 ? 12 : 16;
}
// The same at most if rows lie in several loops, whose steps take registers. Loose words are two
// or four each, and are counted in groups. Case: bfloat16 [4, 32, 2048, 128] over (0, 2).
constexpr int kMostGeneralLoads = 8;
constexpr int kLooseLoads = 4;
constexpr int kLooseGroup = 2;
// The words of a stripe. The blocks beside it read the rest of each line.
constexpr unsigned kLogWordsOfStripe = 3;
// Blocks that would have more elements are counted sooner in wide stripes (edge_columns.cu). Cases:
// bfloat16 [8192, 4096] and [2^17, 512], float32 [1000003, 30], range=None.
constexpr int64_t kMostElementsOfStripe = 160 << 10;
static_assert(
    kMostElementsOfStripe / (2 << kLogWordsOfStripe) < kMaxPacked16 &&
        kMostPlacesOfColumns <= kMostElementsOfStripe / (2 << kLogWordsOfStripe),
    "columns of 16 bits share words");
// The same, in bytes, if stripes are more than blocks at a time and share their edges. Case: float32
// [4096, 4096] in (-4.1, 4.3).
constexpr int64_t kMostBytesOfLaterStripes = 64 << 10;
// Rows of each thread that L2 fetches while bins are found, and while a stripe is written.
constexpr int kRowsFetchedFirst = 16;
constexpr int kRowsFetchedNext = 16;
// Buckets that find the thresholds that all columns share, where no line does.
constexpr int32_t kBucketsOfStripes = 1024;
// Fewer rows take less time without tables of columns. Cases: a range of int16 [16, 7090] and of
// float32 [20, 6722].
constexpr int64_t kMinRowsOfColumns = 32;
constexpr int kFewestThreadsOfStripes = 96;
// Threads are fewer until each loads at least so many words.
constexpr int64_t kEnoughLoadsOfStripes = 8;
// Their static shared memory, at most. Setting up a block costs as much as reading kSetupOfStripes
// bytes, besides its table.
constexpr int64_t kDeclaredBytesOfStripes = 4096;
constexpr int64_t kSetupOfStripes = 64 << 10;
// Clearing and summing a table takes as long as reading so many times its bytes; adding it to counts
// that others add to takes so many times more.
constexpr int64_t kReadsOfStripeTable = 2;
constexpr int64_t kReadsOfAddedTable = 4;
// With fewer rows for each slot, copies of columns in a table cost more than they save.
constexpr int64_t kRowsPerSlotOfLanes = 4;
// Extremes: threads of a block and blocks of an SM, and loads that a thread has in flight; a warp
// takes channels of up to so many loads a lane.
constexpr int kThreadsOfExtremes = 256;
constexpr int kBlocksOfExtremes = 4;
constexpr int kLoadsOfExtremes = 4;
constexpr int64_t kMostLoadsOfWarp = 8;
// A warp reduces so many parts of a channel, a block more of them.
constexpr int64_t kMostPartsOfWarp = 128;
// Extremes of columns are read by strides if columns cost so many fifths as much. Case: bfloat16
// [550, 43] over 0.
constexpr int64_t kFifthsOfStrided = 7;
// Channels with more bins than these have a block each, if their bytes are counted. Case: uint8
// [1280, 577] over 1, 2048 bins of all values.
constexpr int64_t kMostBinsOfByteWarp = 512;
// The bytes of so many channels that are no runs are counted sooner than compared. Cases: extremes of
// int8 [26912, 1860] and of bool [1767, 3, 56, 56] over (0, 2, 3), channels last.
constexpr int64_t kMostChannelsToCount = 4096;
constexpr int kThreadsOfColumnExtremes = 768;
// The kernel that finds the bins of columns: its threads, and the edges of each at most. Case:
// bfloat16 [2^20, 512], 128 bins of own ranges.
constexpr unsigned kThreadsOfFoundColumns = 256;
constexpr unsigned kEdgesOfThread = 4;
// With fewer rows the result itself is counted in.
constexpr int64_t kMinRowsOfStream = 256;
constexpr int64_t kMinRowsOfByteTable = 512;
// A channel's bins are counted in at most so many parts, for each of which the rows are read. Shown
// by: float32 [2^28], 2^16 bins in (-4, 4)
constexpr int64_t kMaxParts = 16;
// Buckets that find thresholds where no line does. The number doubles while a block reads
// kMinBytesOfBucket for each bucket, and while all its shared memory is at most
// kMostSharedWithBuckets: the rest is L1, which loads need. Shown by: float32 [2^28], 1548 bins by
// TensorBoard's edges
constexpr int32_t kFewestBuckets = 4096;
constexpr int32_t kMostBuckets = 16384;
constexpr int64_t kMinBytesOfBucket = 32;
constexpr int64_t kMostSharedWithBuckets = 130 << 10;
// A block that reads so many times the bytes of its table has one for wide words of columns. Cases:
// float32 [2^15, 512] and [64, 1176, 1176, 3] over (1, 2).
constexpr int64_t kMinReadsOfWide = 32;

// --- Short channels between edges (fill/own_ranges.cu, fill/short_channels.cu) ----------------

// Threads of a block, and vec16s of a channel that each reads. Case: bfloat16 [4096, 11008] over 1,
// own ranges.
constexpr int kFewestThreadsOfShort = 128;
constexpr int kMostThreadsOfShort = 512;
constexpr int kBlocksOfShort = 2; // of most threads
constexpr int64_t kThreadsOfSmOfShort = 1024;
constexpr int64_t kVec16sOfThread = 12;
// The most bytes of a channel, and of one that a warp takes.
constexpr int64_t kMostBytesOfShort = 64 << 10;
constexpr int64_t kMostBytesOfWarp = 4 << 10;
// One-byte types that have so many elements in all: it is faster to count raw bytes, and to map their
// sums to bins, if a channel has more rows than these, with shared edges and with a range of its own.
// Cases: int8 [14355, 433] and [764, 50176] over 1, uint8 [1440, 9016] over 1.
constexpr int64_t kLeastBytesToMap = 4 << 20;
constexpr int64_t kMostShortRowsOfBytes = 2 << 10;
constexpr int64_t kMostShortRowsOfBytesWithRanges = 32 << 10;
constexpr int64_t kMostPlacesPerByte = 4; // of the vec16s that a channel is read by
// Warps take channels if there are so many of them for each SM, with no more bins than these.
constexpr int64_t kWarpsOfSmToFill = 8;
constexpr int64_t kMostBinsOfWarp = 2048;
// Bins that a table may have, if channels have ranges of their own, or share edges that each block
// prepares.
constexpr int64_t kMostBinsOfShort = 1 << 16;
constexpr int64_t kMostSharedBinsOfShort = 4096;
constexpr int32_t kBucketsOfShort = 1024;

// --- Teams of warps (fill/edge_teams.cu, fill/own_teams.cu) ------------------------------

// An SM has one block, whose teams have so many warps together.
constexpr int64_t kWarpsOfTeams = 24;
constexpr int kThreadsOfTeams = kWarpsOfTeams * 32;
constexpr int64_t kMinWarpsOfTeams = 16;
// An SM with this many warps reads at full speed.
constexpr int64_t kBusyWarps = 20;
// Shared memory of a block: the rest is L1, which loads need.
constexpr int64_t kMostSharedOfTeams = 160 << 10;
// An item takes as long to begin and to end as reading so many bytes, and parts, which add to
// cleared counts, take as much longer.
constexpr int64_t kSetupBytesOfItem = 16 << 10;
constexpr int64_t kSetupBytesOfParts = 48 << 10;
// Shorter segments are read element by element.
constexpr int64_t kMinBytesOfSegment = 32;
// Loads of a thread in flight.
constexpr int kTeamVec16s = 4;
// A few long channels are counted sooner by blocks of one channel: with such runs, if an SM reads so
// many bytes; and if the range of each must be found, too. Cases: float32 [2^28], bfloat16
// [8, 1792, 4096] over (1, 2).
constexpr int64_t kMinLongRunOfStream = 128 << 10;
constexpr int64_t kMinBytesOfLongStreams = 384 << 10;
constexpr int64_t kMinBytesOfLongOwnStreams = 2 << 20;

} // namespace histo::cuda
