// The numbers of quantiles, summaries and quantile sketches: more of policy.h.
#pragma once

#include "cuda/policy.h"

namespace histo::cuda {

// --- Quantiles (select/) -----------------------------------------------------------------

// A warp can sort so many rows. Shown by: float32 [4096, 100] over (1) median
constexpr int64_t kMostRowsOfSort = 1024;
// Static shared memory of these kernels, at most.
constexpr int64_t kDeclaredBytesOfSelect = 4096;
// A team that keeps a channel counts the digits of so many groups of so many values.
constexpr int64_t kMostStagedGroups = 2;
constexpr int64_t kMostSlotsOfStaged = 8;
constexpr int kThreadsOfSort = 256; // of a block
// A warp sorts channels of up to so many rows, in any layout. The limit doubles for elements of 4 and
// 8 bytes, if each SM has so many channels. Then columns of two bytes have the first limit: counting
// their digits is faster. Cases: medians of float32 [262144, 196] over 1 and [294, 89721], bfloat16
// [16371, 168] and [1113, 128, 192], float64 [6255, 377] over 1.
constexpr int64_t kMostRowsOfTinySort = 64;
constexpr int64_t kMostRowsToSort = 256;
constexpr int64_t kManyShortChannelsOfSm = 32;
// Other channels that are not runs are copied into runs, if they have up to so many bytes, and elements
// of 4 and 8 bytes. Cases: medians of float32 [9742, 3094] and float64 [184, 512, 192] over 1.
constexpr int64_t kMostBytesOfRowsToGather = 64 << 10;
// Small inputs are copied, too, up to so many bytes. Those of one and two bytes must not have many
// channels, and those of one byte no more than so many rows. Cases: medians of float32 [8, 13, 365]
// over (0, 1), uint8 [1598, 923] and bfloat16 [5120, 257].
constexpr int64_t kMostBytesToGather = 8 << 20;
constexpr int64_t kMostRowsOfBytesToGather = 2560;
// Bytes that are copied at a time: they fit in L2.
constexpr int64_t kBytesOfGathered = 32 << 20;
// The bits of a digit, and of one that columns or two-byte types have. Shown by: float32 [2^16, 512]
// median
constexpr unsigned kBitsOfDigit = 11;
constexpr unsigned kBitsOfColumnDigit = 8;
// Threads of a block that counts digits of streams. Shown by: float32 [2^28] nine quantiles
constexpr int threads_of_select_streams(int64_t element) {
  return element == 8 ? 768 : 896;
}
// The same of columns. Shown by: float32 [2^16, 512] median
constexpr int kThreadsOfSelectColumns = 768;
// Columns must fill this part of the lanes of their stripes. Case: five quantiles of int16
// [2850924, 22][:, :15].
constexpr double kLeastFillOfColumns = 0.5;
// Threads of a block of a cluster that has a stripe of columns. Setting it out for all passes takes
// as long as reading so many bytes. Case: bfloat16 [8192, 4096] median.
constexpr int kThreadsOfStripes = 1024;
constexpr int64_t kSetupBytesOfStripe = 512 << 10;
// Larger inputs have stripes only if their blocks fill this part of the SMs. Cases: medians of
// bfloat16 [60000, 512] and [65000, 128], float32 [8192, 1024] and [32, 128, 768] over (0, 1).
constexpr int64_t kMostBytesOfFewStripes = 8 << 20;
constexpr double enough_blocks_of_stripes(int64_t element_bytes) {
  return element_bytes == 2 ? 0.25 : 0.7;
}
// The same of a block that selects all by itself, and of the kernel between two passes. Shown by:
// float32 [512, 2^16] over (1) median
constexpr int kThreadsOfWhole = 512;
constexpr int kThreadsOfDigits = 512;
// The same of a block of a cluster that has a channel, and the blocks of an SM, which have 64 and 80
// registers a thread. Case: bfloat16 [4096, 11008] over 1 median.
constexpr int kThreadsOfSpans = 256;
constexpr int blocks_of_spans(bool keeps) {
  return keeps ? 4 : 3;
}
constexpr int kThreadsOfSample = 256;
constexpr int kThreadsOfInterpolation = 256;
// Elements that a block keeps, so that they are read once: a channel has more blocks if it has more,
// and is read for each digit if 8 blocks would keep more than the second number.
constexpr int64_t kKeptBytesOfBlock = 32 << 10;
constexpr int64_t kMostKeptBytesOfBlock = 64 << 10;
constexpr int64_t kMinRowsOfBlockOfSpans = 1 << 12;
// A block reads so many rows of a channel no later than several kernels do; and more, if there are
// blocks for all SMs, and the rows are read again from L2. Case: float32
// [512, 2^16] over (1) median
constexpr int64_t kMostRowsOfOneBlock = 1 << 14;
constexpr int64_t kMostCachedRows = 1 << 18;
// Shown by: float32 [2, 32, 96, 96, 96] over (0, 2, 3, 4) median
constexpr int64_t kLongRunOfSpans = 1 << 16;
constexpr int64_t kManyChannelsOfSm = 8;
// One q of channels with so many rows, and so many bytes together, begins with a sample of each.
// Cases: medians of float32 [2^25], [2^26] and [8, 2^22], and of bfloat16 [2^27].
constexpr int64_t kRowsToSample = 1 << 22;
constexpr int64_t kBytesToSample = 256 << 20;
constexpr int64_t kSampleSize = 1 << 14;
// The sample's values at the ends of the window are so many standard deviations, and so many
// elements, from the rank of the quantile. Cases: medians of float32 [2^28] and bfloat16 [2^29].
constexpr double kSampleDeviations = 5;
constexpr double kSampleMargin = 4;
// All blocks read a channel that lies in shorter runs than these, if it has so many rows, and all have
// so many bytes together. Case: float32 [128, 64, 56, 56] over (0, 2, 3) median.
constexpr int64_t kMostRunOfStreamedSpans = 1 << 14;
constexpr int64_t kRowsToStreamSpans = 1 << 15;
constexpr int64_t kBytesToStreamSpans = 8 << 20;
// The values near a quantile are listed for columns of so many rows, and so many bytes together. One
// in so many rows is sampled. A list has so many times the room that it is likely to need, but only
// what a block can search quickly. Cases: medians of float32 [400000, 64] and [65536, 512].
constexpr int64_t kRowsToList = 1 << 15;
constexpr int64_t kBytesToList = 12 << 20;
constexpr int64_t kRowsPerSampled = 32;
constexpr int64_t kLeastListSample = 1 << 10;
constexpr double kRoomOfList = 1.25;
constexpr int64_t kMostRoomOfList = 1 << 16;
constexpr int64_t kMostBytesOfLists = 256 << 20;
// More channels of 4-byte elements have lists of one quantile only: counting the digits of several is
// faster. Case: float32 [65536, 512], five quantiles.
constexpr int64_t kMostChannelsOfLists = 256;
// Lists of so many q's are filled together, by blocks of so many threads. A thread collects so many
// bytes of a list before it writes them.
constexpr int kMostQOfLists = 5;
constexpr int kThreadsOfLists = 512;
constexpr int blocks_of_lists(int num_q) {
  return num_q == 1 ? 2 : 1;
}
constexpr int bytes_of_list(int num_q) {
  return num_q == 1 ? 64 : 32;
}
// Counters in memory of the channels that are selected together.
constexpr int64_t kMaxBytesOfSelectCounters = 64 << 20;

// --- Summaries (summary/) ----------------------------------------------------------------

// Threads of a block of streams, such blocks of an SM, and vec16s in flight a thread. Case:
// float32 [2^28] summarize
constexpr int kThreadsOfSummary = 128;
constexpr int summary_blocks_of_sm(int64_t element) {
  return element == 8 ? 4 : 5;
}
constexpr int kSummaryInFlight = 3;
// A channel of so few rows has one warp. Case: float32 [20000, 49] over (1) summarize
constexpr int64_t kMostRowsOfWarp = 1024;
constexpr int kThreadsOfWarpSummary = 32;
// A block reads at least so much, and no more than so many rows: its digits have room for them.
constexpr int64_t kLeastBytesOfSummaryBlock = 8 << 10;
constexpr int64_t kMostRowsOfSummaryBlock = 1 << 29;
// Elements of runs of fewer bytes are read one by one.
constexpr int64_t kLeastRunOfSummary = 32;
// Runs of more elements are read in turn. Case: float32 [2, 32, 96, 96, 96] over (0, 2, 3, 4), ReLU.
constexpr int64_t kMostRunOfSummary = 1 << 15;
// Threads of a block of columns, and how long setting it out takes, in bytes that are read
// meanwhile. Case: bfloat16 [2^13, 4096] over (0) summarize
constexpr int threads_of_summary_columns(int64_t element) {
  return element == 8 ? 384 : 512;
}
constexpr unsigned kLogWordsOfSummary = 5;
constexpr int64_t kSetupOfSummaryColumns = 128 << 10;
// Rows of a column that a thread adds at a time, and such groups in flight meanwhile.
constexpr int rows_of_summary_group(int64_t element) {
  return element == 8 ? 4 : 8;
}
constexpr int kSummaryGroupsAhead = 2;

// --- Quantile sketches (sketch_streams.cu, sketch_tiles.cu) -------------------------------

// A block that has a table of one channel. Several blocks share an SM, so that one counts while
// another clears or adds its table. Case: bfloat16 [4096, 11008] over 1.
constexpr int kThreadsOfShortSketch = 256;
constexpr int kBlocksOfShortSketch = 3;
// If a channel has at least so many elements in one run for each count and block, an SM has one
// block, so that fewer tables are added. Case: float32 [2^24].
constexpr int kThreadsOfLongSketch = 768;
constexpr int64_t kElementsPerCountOfLong = 4;
// A block counts in a table if it has at least one element for so many counts, or else in the
// result. Cases: bfloat16 [8192, 2048] over 1; [2048, 4096] over 0.
constexpr int64_t kMostCountsPerElement = 12;
constexpr int64_t kMostCountsPerElementOfTile = 4;
constexpr int kThreadsOfSketchQuantile = 1024;

} // namespace histo::cuda
