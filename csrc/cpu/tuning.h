// Every number the CPU engine was tuned with, beside its measurement. One Zen 5 core
// (EPYC, 3.9 GHz), 64 MiB of input unless said, G elements/s.
//
// What bounds the main loops is the store: one a cycle, two where both meet one cache
// line. So a table that is small while it is counted in (1 KiB: 16 lines) beats any that
// is read and written in a better order, and one channel counts faster than one store a
// cycle (3.9). The rest is what makes equal values wait for each other.
#pragma once

#include <cstdint>

namespace histo::cpu::tuning {

/// Two slots, [index][2], make a pair: the table of one loop. Uniform bytes by slots that
/// lie together: 1 4.6, 2 5.9, 4 5.3, 8 4.6, 16 4.2; constant ones 4.0, 5.5, 5.7, 6.5, 6.5;
/// two random values 1.2, 2.3, 3.2, 4.0, 6.2 (an addition waits for the one to the same
/// counter before it). Hence pairs where values differ, and four pairs at once, 16 slots
/// apart or more, where many agree: 4.4, 6.3 and 4.5.
///
/// Tried and slower: counters of 8 bits that carry into wider ones (a branch an element:
/// 4.0) or are emptied every 255 rows (2.9); 32 bits (5.1); words of 8 bytes taken apart by
/// shifts, instead of a load an element (5.4, and 2.9 with 64 columns at once); 64 columns
/// at once in a table of 32 KiB (3.7 at best, [R, 512] 2.9).
constexpr int64_t kSlotsPerPair = 2;
constexpr int kPairsWhereValuesAgree = 4;
/// Eight at once where some of a sample agree and not all, of one channel whose elements lie
/// side by side: runs of 64 equal bytes 3.8 instead of 3.2; constant ones would be 3.8 instead
/// of 5.4; three channels 3.0 and 4.9: four. And of whole lines of channels: two random values
/// in [R, 512] 4.05 instead of 3.9, text 4.5 instead of 4.3; [R, 100] 3.2 and 3.35: four.
constexpr int kMorePairsWhereValuesAgree = 8;

/// Elements of one turn of the loop. Constant bytes in four pairs: 16 6.3, 64 2.3 (the
/// processor foresees of fewer loads which store each one waits for); uniform ones alike.
constexpr int64_t kUnrolledElements = 16;

/// Values agree where more than this share of neighbours do, of a sample of a chunk.
/// 2 and 8 slots at a share of 0.004 give 5.9 and 4.4, at 0.013 5.7 and 4.8, at 0.14 3.1
/// and 5.1, at 0.5 2.3 and 4.5.
constexpr int64_t kSample = 128;
constexpr int64_t kMaxAgreeing = 5;

/// Counters have 16 bits up to this many bins, and 32 above: there a table is emptied too
/// seldom to matter. int16 in 4096 bins: 4.0 with 16 bits, 3.3 with 32.
constexpr int64_t kMaxBinsOf16Bits = 4096;

/// Pairs are as far apart as the table of bytes is long, or a number of pages farther: the
/// processor takes counters a multiple of 4096 bytes apart for the same ones at first.
constexpr int64_t kPairBytes = 1024;

/// What the tables of a thread may take, 1 MiB with the tile or the indices; with more bins the
/// result itself is counted in.
constexpr int64_t kMaxTableBytes = (1 << 20) - (16 << 10);

/// Of 32-bit counters there is one pair, and indices are made apart from the counting,
/// vectorized: additions that miss the first-level cache then overlap more. int32 in 65,536 bins: 1.5 in one loop, 1.6 in
/// two of portable code, 1.9 with AVX2 and with AVX-512. With fewer bins the one loop wins:
/// int64 in 256 bins 3.3 against 2.4, int32 in 1024 bins 4.0 against 3.0, int16 in 4096 bins
/// 4.0 against 3.3.
constexpr int64_t kStagedElements = 4096;

/// Rows of a tile: the lines of a strip of columns, copied together, so that each pair of
/// columns is counted from the first-level cache, whatever set the rows fall into; the next
/// tile is fetched meanwhile, a line for each line counted. [R, 512] and [R, 4096]: 128 rows
/// 4.4 and 4.1, 256 4.4 and 4.1, 512 4.3 and 4.1; counted in place 2.4; copied, but nothing
/// fetched ahead, 2.8; fetched in one burst 3.4. Four and eight strips in turns, their tables
/// in the second-level cache, so that rows are read in whole: no faster (4.3 and 4.1).
constexpr int64_t kTileRows = 256;
constexpr int64_t kLineBytes = 64;

/// Channels that lie together are counted one after another from a chunk of this size.
constexpr int64_t kChunkBytes = 16384;
/// One channel, for which a chunk is what a sample is taken of.
constexpr int64_t kChunkElements = 16384;
constexpr int64_t kMaxStreams = 32;

/// Fewer rows than this an index are counted without tables, which take as long to clear and
/// to fold as so many rows take.
constexpr int64_t kMinRowsPerIndex = 1;
/// Runs of rows shorter than this are no stream: setting out costs as much.
constexpr int64_t kMinStream = 64;

/// Tables of one channel of bytes: an allocation takes 0.7 us, twice what 1,000 bytes take.
constexpr int64_t kStackBytes = kMorePairsWhereValuesAgree * kPairBytes;

/// Results from here on are put in huge pages where the system has them. [3355, 20000], whose
/// counts are 41 MB: 20 of 46 ms went by for its pages. glibc gives no memory of this size
/// to anything else.
constexpr int64_t kMinHugeBytes = 33 << 20;

/// A second thread takes 5 us to wake up.
constexpr int64_t kMinElementsPerThread = 1 << 16;
/// Tasks are handed out one by one, so that a thread which is held up holds up no other.
constexpr int64_t kTasksPerThread = 8;
/// Below this many counters to clear or to add: 2 MiB, which one thread clears in the time
/// that another takes to wake up.
constexpr int64_t kMinCountersPerTask = 1 << 18;

} // namespace histo::cpu::tuning
