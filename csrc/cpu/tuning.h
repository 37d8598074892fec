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

/// One channel where values differ: four tables [index], and of neighbours four to each (stores
/// that follow each other then meet in fewer lines). Uniform, normal, text, runs of about 64 and
/// constant bytes, by tables and by neighbours to each: 4 of 4 5.8, 5.8, 4.9, 2.8 and 2.3; 4 of 1
/// 4.9, 5.9, 5.0, 3.0 and 2.3; 8 of 4 5.7, 5.7, 5.1, 3.7 and 3.3; 2 of 1 5.9, 5.7, 4.1, 1.9 and
/// 1.2; one table 5.8, 5.4, 2.7, 1.0 and 0.6 (an addition waits for the one to the same counter
/// before it).
constexpr int kTablesWhereValuesDiffer = 4;
constexpr int kRunWhereValuesDiffer = 4;
/// Elements of one turn of the loop. A table [index][2] with 16: uniform 5.7, normal 5.3; with 32
/// 5.9 and 5.7; with 64 as with 32.
constexpr int64_t kUnrolledWhereValuesDiffer = 32;

/// A long channel of bytes: two neighbours make one index of a joint table, which is folded into
/// the counts of both, and one store counts two. Where values differ, 1-D uniform, normal and text:
/// 6.1, 6.7 and 5.6 for 5.4, 5.0 and 5.3 of the four tables in the same minutes (and 6.3, 7.1 and
/// 6.3 where the loop adds no step). Of it 7 % go by for finding the bound of all counts. Counters
/// of 32 bits: 6 % and 14 % slower with uniform and normal data; two tables in turns 13 % and 10 %;
/// the counters fetched ahead 27 %; the bits of all counts gathered in the loop, for their bound,
/// 30 %.
constexpr int64_t kJointIndices = 1 << 16;
/// One channel of 2^16, 2^17, 2^18 normal bytes: -2, +13 and +20 %, uniform -9, 0 and +5 %.
constexpr int64_t kMinJointElements = 1 << 17;
/// Constant and alternating bytes take the joint table, too, where this part of a chunk shows no
/// others: the processor foresees which store each addition waits for. 5.9 and 6.1 for 5.4 and 5.6
/// in 16 counters; runs of 64 would be 1.8.
constexpr int64_t kPartOfAlternating = 8;

/// And where they agree: 16 counters of a value, so that none is met again before 16 elements.
/// Of bytes they lie together, [index][16]: two random values 6.2, runs 6.1, constant 6.2,
/// uniform 4.4. 8 together 4.5, 3.7, 6.2 and 4.8; 32 together 5.3, 6.0, 6.0 and 4.1; 16 in 4
/// tables 3.8, 3.9, 4.1 and 4.5; 8 tables of 2 3.8, 3.8, 4.1 and 4.3.
constexpr int kCountersWhereValuesAgree = 16;
constexpr int kSlotsOfBytes = 16;
/// Of wider types in four tables of four slots, whose index is scaled by the addition itself.
/// int16 in 4096 bins, constant and runs: 4.5 and 3.7; 16 together 3.7 and 3.5.
constexpr int kSlotsOfIndices = 4;
/// The counters of one element of 16 are fetched so many elements ahead. Runs of int16 in 4096
/// bins 3.7, without 2.5: what is loaded for a new value waits for the stores of the old one.
constexpr int64_t kElementsFetched = 32;
/// Not where so many elements of a chunk show no new value: sorted, constant and alternating data
/// are 4 to 13 % faster without.
constexpr int64_t kUnfetchedSample = 512;

/// All that was measured on Zen 5, which stores a counter of 16 bits as fast as one of 32. Zen 3
/// stores 8 and 16 bits half as fast, and neither it nor Zen 4 nor Emerald Rapids foresees which store
/// an addition to the joint table waits for. There counters have 32 bits, but Zen 4's and Intel's for
/// columns of bytes (kPlaneRows), and elements take eight tables in turns, or columns one each: no way
/// has to be chosen by what the values are like. A core of Zen 4 (2.6 GHz), uniform, constant, normal
/// and run-length: 1-D 3.4, 3.9, 4.5 and 3.2 for 3.5, 1.0, 4.6 and 3.1 of 16 bits; [R, 512] 3.0, 3.0,
/// 2.3 and 2.9 in pairs of 16 bits, 2.85, 2.85, 2.3 and 2.1 with 32, 2.6, 2.35, 2.2 and 2.15 by planes.
/// A core of Zen 3 (3.2 GHz), uniform, constant, normal and run-length: 1-D 2.9, 2.7, 2.9 and 2.7 for
/// 2.3, 0.9, 2.5 and 2.5 of 16 bits, [R, 512] 2.35, 2.4, 2.4 and 2.3 for 1.35, 2.5, 1.35 and 2.25;
/// Emerald Rapids, constant and run-length, 1-D 2.2 and 2.3 for 0.7 and 2.5. On Zen 3, in the
/// cache: 4 tables 3.0, 1.9, 3.2 and 1.95; 8 3.05, 2.95, 3.1 and 2.95; 16 2.55, 2.6, 2.55 and 2.6;
/// one with 8 counters of an index 3.1, 2.9, 3.1 and 2.9; a joint table of 32 bits 2.9, 1.0, 3.1
/// and 1.35. Turns of 16 elements: constant 3.0, run-length 2.0. Columns by pairs: [R, 512] within
/// 4 %; tiles of 128 rows 1 to 7 % slower, of 512 and 1024 as of 256. Two columns in the halves of a
/// word, and so half as many lines of counters: [R, 512] +5 %, [R, 20000] +2 to +12, int16 of 64
/// channels in 4096 bins -3 to +23, but [R, 100] -2 to -6 and int64 -20, whose turns of 16 columns
/// are not full.
constexpr int kTablesOf32Bits = 8;
constexpr int64_t kUnrolledOf32Bits = 32;
/// A long channel of bytes where values agree: two neighbours make one index, whichever comes first,
/// and pairs take five tables in turns, so that one store counts two. Of bytes one by one, and of
/// pairs in four, five and six tables, constant, two values, run-length and text: Zen 3, loops
/// alone, 2.9, 2.95, 2.95 and 3.1; 3.6, 4.55, 3.5 and 4.6; 4.2, 4.7, 3.65 and 4.6; 4.8, 5.0, 3.9
/// and 4.4. Emerald Rapids 2.5, 2.6, 2.25 and 2.25; 3.3, 4.2, 3.5 and 3.8; 3.85, 4.7, 3.75 and
/// 3.45; 4.2, 3.8, 3.5 and 3.45. But bytes of which six in ten are 0 and the others random 3.05 one
/// by one, 2.6 in four tables and 2.25 in six, and uniform ones 2.1 in four, so a sample chooses.
/// Indices made together with the counting: 3.4 for 4.8.
/// Such counters of 8 bits where values differ, in 33 KB for 64, added to as words of 32 bits
/// because Zen 3 stores those faster: uniform 3.3 for 3.2, normal 3.55 for 3.65, and both a tenth
/// slower where another guest shares the core; on Emerald Rapids, as bytes, +20 and -10 %.
constexpr int kTablesOfPairs = 5;
/// They take as long to clear and to fold as so many bytes gain: one channel of 2^18, 2^19 and 2^20
/// equal bytes 0, +11 and +17 %.
constexpr int64_t kMinPairElements = 1 << 18;
/// The sample of each run takes its time: runs of 500, 1000 and 2000 bytes, constant +2, +13 and +15
/// %, uniform -13, -7 and -2 %.
constexpr int64_t kMinPairRun = 2048;
/// Where the processor multiplies matrices of bytes (AMX), a channel takes nothing else. Granite Rapids
/// (4.05 GHz), any data 6.2; in the cache 35 cycles for 64 bytes, 27 of them for making and storing their
/// matrices (24 stores, 24 shuffles), the rest for loading these, 24 rows. In pairs and counters of 8
/// bits, uniform, constant, two values, normal, sorted, run-length and text: 5.0, 4.4, 6.3, 6.3, 4.6, 5.4
/// and 3.5 to 5.0; in channels of 1 MiB, but text, 5.3, 4.3, 5.7, 6.6, 4.3 and 5.0. Matrices of the upper
/// half, and of the greater of n and the lower half, whose sums' differences are counts (32 stores): 5.5.
/// No faster: an addition, which only one port takes, for the exclusive or, of bytes that are masked and
/// stored first (37 cycles); matrices of five, six and eight products kept, made four and five before
/// (36). Constants loaded for each product: 7 % slower.
/// One channel of 2^13, 2^14, 2^15, 2^16 and 2^17 bytes, in tables and by products: 1.75 and 1.5, 2.4 and
/// 2.4, 2.8 and 3.7, 3.2 and 4.6, 3.4 and 5.4.
constexpr int64_t kMinProductElements = 1 << 15;
/// Setting out takes 500 cycles. Runs of 500, 1000 and 2048 uniform bytes: 2.0 for 3.0, 3.1 for 3.3, 4.5
/// for 3.2.
constexpr int64_t kMinProductRun = 2048;
/// Columns are transposed first, 64 rows at a time. Any data, and uniform ones in pairs of 16 bits: [R,
/// 512] 4.7 and 3.2, [R, 64] 4.9 and 3.6, [R, 100] 4.6 and 3.4, [R, 2048] 3.4 and 3.0, [R, 20000] 2.3 and
/// 1.95; in the cache 49 cycles for 64 bytes, 35 for products, the rest for transposing and for sums of
/// two columns that go out while others come in. Rows of a tile, 384, 512, 640, 768, 896 and 1024: [R,
/// 512] 4.35, 4.4, 4.55, 4.55, 4.4 and 4.2. With differences of sums, 768 rows: [R, 512] 4.2 in all,
/// transposed by three steps of bytes and three of words, from whole lines, 3.9, and by four of halves of
/// lines 3.9: with the same 16 bytes of four rows loaded together half of the shuffles are left.
/// Transposing the next columns meanwhile, so that shuffles cost nothing: no faster, the first-level cache
/// has no room.
///
/// The next tile is fetched meanwhile, to the second-level cache, as it lies in memory, and of far rows
/// four at once (with differences): [R, 512] 4.2, to the first level 3.9, nothing 3.6, all at first 3.7,
/// column by column 3.0; four at once 3.9, but [R, 20000] 2.1 for 1.75. That one: pairs of lines of two
/// rows 1.9, only while others are transposed 1.95, nothing 2.1. Columns of a strip, 128, 256, 512 and
/// 768: [R, 512] 3.4, 3.95, 4.25 and the same, [R, 1000] 3.7 with 256, 3.75 and 3.8.
constexpr int64_t kProductRows = 768;
constexpr int64_t kMaxProductColumns = 512;
/// Of far rows, which wait for a page each. Columns of a strip and rows of a tile, 512 and 768, 768 and
/// 480, 1024 and 384, 1024 and 480, 1280 and 384, 1536 and 384: [R, 20000] 31.3 ms, 30.7, 28.7, 29.9,
/// 29.7 and 31; [R, 2048] 22.2, 1024 and 384 21.1, 1024 and 480 22.2.
constexpr int64_t kFarProductRows = 384;
constexpr int64_t kMaxFarProductColumns = 1024;
/// 512, 700 and 1024 rows of 512, one after the other and by products: 2.1 and 2.2, 2.3 and 2.4, 2.2 and
/// 2.9; of 64 2.0 and 1.8, 2.3 and 2.1, 2.3 and 2.5.
constexpr int64_t kMinProductRows = 1024;
/// 4, 5, 6, 7 and 8 channels: 3.1, 2.6, 3.1, 3.5 and 4.0, one after the other 3.35, 3.3, 3.25, 3.25 and 3.3.
constexpr int64_t kMinProductColumns = 7;
/// Fewer rows than this are no strip that threads share, as each clears and folds a table of it (these
/// with differences): two threads, 2048, 4096, 8192, 16384 and 32768 rows of 512, 320 us for 516, 545 for
/// 670, 910 for 1070, 1750 for 1920, the same. Nor is a task smaller than a tile: 516 for 566, 670 for
/// 776, 1070 for 1210, 1920 for 1800.
constexpr int64_t kMinSharedProductRows = 1 << 15;
/// Of indices where values differ, for the first-level cache: int16 in 4096 bins by 1, 2, 4 and 8
/// tables uniform 2.3, 2.3, 1.8 and 1.55, two random values 0.9, 1.4, 1.9 and 2.1.
constexpr int kFewTablesOf32Bits = 2;

/// Columns are counted by two, in a pair: a table [index][2]. Where values differ, two pairs at
/// once, of eight rows each: equal values of a column then wait for each other less often, and
/// stores that follow each other still meet in few lines. A tile of uniform and of normal bytes
/// that is in the cache, by pairs and rows: 1 of 16 5.4 and 5.1, 2 of 4 5.25 and 5.4, 2 of 8 5.45
/// and 5.35, 4 of 4 5.2 and 5.5, 4 of 8 5.45 and 5.4 (but up to seven channels are wasted), 8 of 4
/// 5.25 and 5.6. Tables of one column each, eight at once of four rows: 5.4 and 5.4, and constant
/// bytes 5.2 for 6.1. Where values agree, four pairs at once, and where whole lines of columns do,
/// but not nearly all, eight, or sixteen if more than kMaxFrequent agree. 4, 8, 16 and 32: runs of
/// 13 rows in [R, 20000] 2.4, 3.45, 3.9 and 3.75, two random values in [R, 512] 3.95, 4.9, 4.85 and
/// 4.6, text 4.6, 4.9, 4.85 and 4.55. Two values in columns that take turns 4.9 with four, 3.5 with
/// eight.
constexpr int64_t kSlotsPerPair = 2;
constexpr int kPairsWhereValuesDiffer = 2;
constexpr int kRowsWhereValuesDiffer = 8;
constexpr int kPairsWhereValuesAgree = 4;
constexpr int kMorePairsWhereValuesAgree = 8;
constexpr int kMostPairsWhereValuesAgree = 16;

/// Tried and slower: counters of 8 bits that carry into wider ones (a branch an element: 4.0) or
/// are emptied every 255 rows (2.9); 32 bits (5.1); words of 2, 4 and 8 bytes taken apart by
/// shifts, instead of a load an element (5.4, 5.5 and 5.6, normal data 5.1, 5.6 and 5.8, and 2.9
/// with 64 columns at once); 64 columns at once in a table of 32 KiB (3.7 at best, [R, 512] 2.9).
/// For columns also 8 bits with a look at all counters every 120 rows, so that none overflows: [R,
/// 512] 4.5 for 4.75 (6.0 for 5.45 without the look and the copying).
///
/// And for indices: a minimum of the value and the number of bins (int16 in 4096 bins 3.1 for 3.9,
/// int64 in 256 bins 3.6 for 4.4).

/// Elements of one turn of the other loops. Constant bytes in four pairs: 16 6.3, 64 2.3 (the
/// processor foresees of fewer loads which store each one waits for).
constexpr int64_t kUnrolledElements = 16;

/// Values agree where more than this share of a sample of a chunk equal the next but one (values
/// that take turns wait as long as equal ones). Few and many counters at a share of 0.004 give
/// 5.8 and 4.4, at 0.013 5.8 and 5.1, at 0.06 4.9 and 6.0. More than 2, 3 and 5 of 128: text 5.7,
/// 5.5 and 5.0, normal 5.3, 5.4 and 5.35. Nearly all agree where no more than this differ. Between
/// text (9 of 128 columns agree) and two random values (64) lies the number for sixteen pairs.
constexpr int64_t kSample = 128;
constexpr int64_t kMaxAgreeing = 3;
constexpr int64_t kMaxFrequent = 32;
constexpr int64_t kSampledDistance = 2;

/// Up to this many bins there are several counters of each, and of 16 bits. int16 in 4096 bins: 4.0
/// with 16 bits, 3.3 with 32. Above it see kStagedElements; with fewer bins one loop wins: int64 in
/// 256 bins 3.3 against 2.4, int32 in 1024 bins 4.0 against 3.0, int16 in 4096 4.0 against 3.3.
constexpr int64_t kMaxBinsOfSmallTables = 4096;

/// Tables are as far apart as a pair of bytes is long and a line more, or some pages farther: the
/// processor takes counters a multiple of 4096 bytes apart for the same ones at first, and so those
/// of equal values in every fourth pair without the line. [R, 512] with two values 4.85, without
/// 4.2; [R, 20000] sorted 3.95 and 3.3; int16 with two values 3.65 and 3.3. Two lines: as one.
constexpr int64_t kTableStep = 1024 + 64;
constexpr int64_t kTableStepOf32Bits = 2048 + 64;

/// What the tables of a thread may take, 1 MiB with the tile or the indices; with more bins the
/// result itself is counted in.
constexpr int64_t kMaxTableBytes = (1 << 20) - (16 << 10);

/// In more bins than those. Where no neighbours agree in the sample of a chunk, one table of 16-bit
/// counters takes the elements as they are; as in a joint table few counters get far. Where some
/// agree, each index has a pair of 32-bit counters, and indices are made apart from the counting,
/// vectorized: additions that miss the first-level cache then overlap more. int32 in 65,536 bins,
/// in pairs and in one table: uniform 2.35 and 2.5, normal 2.55 and 2.95, text 3.2 and 2.2. One
/// table of 8 bits that carry, a branch each: 1.7 for 2.25, int16 2.0 for 3.25. One of 32 bits: 2.4
/// and 2.9; pairs of 16 bits 2.3 and 2.8; indices of a few hundred elements made for the one table,
/// too: 2.6 and 3.1, but int64 0.9 for 1.9. Pairs without indices made apart: 1.5.
constexpr int64_t kStagedElements = 4096;
/// What a sample is taken of. 16,384 is no faster; 4096: text 3 % slower.
constexpr int64_t kWideChunkElements = 8192;
/// Where nearly all neighbours agree, each run is added at once; where runs end is found without
/// a branch for each line, so many ends at a time. Runs of about 64 elements 3.5, sorted 4.5,
/// constant 4.55; with a branch that data make mispredicted 2.2, 3.8 and 4.05. Where half of the
/// neighbours agree 1.2, in pairs 2.5.
constexpr int64_t kEndsAtOnce = 4;
/// Two random values wait for each other in a pair of counters each, 1.9. A block of no others is
/// counted by comparing, 3.75.
constexpr int64_t kComparedElements = 256;

/// Values that differ, of a long channel, are counted in a table of 8 bits, 64 KiB, whose counters
/// may wrap: the sum of all tells, and what was counted last is taken back. None is compared with
/// the number of bins: of so many at once the bits are gathered, which tell whether one is too
/// large. int32 in 65,536 bins, uniform and normal: 3.3 and 3.4 for 2.5 and 2.95 of 16 bits. Values
/// compared one by one 3.1 and 3.5, 16 bits and values gathered 3.0 and 3.6, 16 gathered at once
/// 3.1 and 3.6, the values' low bits as indices 3.2 and 3.6 (loops alone, 3.65 and 3.8 as it is).
/// Two loaded at once, on Zen 3: 1.25 and 1.25 for 1.1 and 1.1.
/// Where counters have 32 bits bytes are, too, two as one. 1-D, uniform and normal: Zen 3 3.0 and
/// 3.5 for 2.9 and 2.9 in tables, and 2.4 and 2.9 for 1.9 and 2.1 while its core is shared;
/// Emerald Rapids 3.3 and 4.0. Four are loaded at once: one by one 2.7 for 3.5, in the loop alone.
constexpr int64_t kMaxByteValues = 1 << 16;
constexpr int64_t kValuesAtOnce = 64;
/// 4 KiB: int32 within 2 %, int64 uniform 2.0 for 2.45 and normal 2.1 for 2.5.
constexpr int64_t kValuesAheadBytes = 16384;
/// The sum takes 4 % of the time of so many.
constexpr int64_t kByteChunkElements = 1 << 17;
constexpr int64_t kMinByteElements = 1 << 16;
/// Moved to counters of 16 bits before they wrap, or where they do: normal 3.45 and 3.15. Not
/// counted in at all where they wrap sooner than this.
constexpr int64_t kMinHeldPerByte = 4;
/// Uniform values wrap them at 190. Moved before, on Granite Rapids (4.15 GHz), uniform int32 2.35 for
/// 2.2: what follows a counter that wraps is counted in those of 16 bits, at 1.0 there. With the next
/// number uniform bytes, two as one, 5.4 for 5.1, normal 6.75 for 6.7 (without matrices).
constexpr int64_t kMaxHeldPerByte = 176;
/// One of kWideChunkElements in so many is sampled: uniform int32 there 2.6, one in 2^14 2.53.
constexpr int64_t kBytesSampledEach = 1 << 15;
/// So many chunks are counted otherwise where a sample has neighbours that agree, and where values
/// have no counter or counters wrap: one in 10,000 without, 4 % slower with 16.
constexpr int64_t kPauseOfAgreeing = 16;
constexpr int64_t kPauseOfUncounted = 64;

/// Rows of a tile: the lines of a strip of columns, copied together, so that each pair of columns
/// is counted from the first-level cache, whatever set the rows fall into; the next tile is fetched
/// meanwhile, a line for each line counted. [R, 512] and [R, 4096]: 128 rows 4.4 and 4.1, 256 4.4
/// and 4.1, 512 4.3 and 4.1; counted in place 2.4; copied, but nothing fetched ahead, 2.8; fetched
/// in one burst 3.4. Of rows whose lines lie across two of memory both are fetched: [3355, 20000]
/// and [R, 511] 3.6 and 4.0, the first only 2.7 and 3.0. The last tile fetches the first of the
/// next strip, and tiles are of one size, so that it can: [512, 131072] 1.55 instead of 1.45. Four
/// and eight strips in turns, their tables in the second-level cache, so that rows are read in
/// whole: no faster (4.3 and 4.1). Nor is copying by 64 bytes, nor fetching for the second-level
/// cache (both within 1 %); slower are copying the next tile in parts between the pairs (3 %),
/// fetching in bursts between them (4 to 10 %), as non-temporal (2 %), and a line of each page of
/// the next tile first ([R, 512] 4 to 7 %, [R, 2048] 14).
constexpr int64_t kTileRows = 256;
constexpr int64_t kLineBytes = 64;

/// Columns of bytes on a processor that counts the bits of vectors: 64 rows of a column become
/// eight words, a bit of the value each; which of 16 values either half has are 16 words each, and
/// what two of these share is counted, three instructions for each of 256 bins and 512 elements.
/// Any data, in the cache 8.1 (making the planes alone 80); [R, 512] 6.4 to 6.6 where counters in
/// tables give 4.8 to 5.1, [R, 64] 6.8 to 7.0 and 4.8 to 5.4, [R, 100] 5.3 to 5.5 and 4.0 to 4.6,
/// [R, 511] 6.3 to 6.5 and 3.2 to 5.0, [R, 1024] 5.7 and 4.9. Four values of one half with four of
/// the other at once: 8.2 instead of 8.9 for the counting alone.
///
/// Not on Emerald Rapids, uniform, constant, normal and run-length: [R, 512] 2.2, 2.3, 2.05 and 1.55,
/// in pairs of 16 bits 2.35, 2.55, 2.2 and 2.4 (in 32 bits 1.7, 1.95, 2.1 and 2.2), [R, 64] 2.4, 2.25,
/// 1.85 and 2.2 for 2.55, 2.5, 2.55 and 2.3, [R, 20000] 1.5, 1.2, 1.6 and 1.25 for 1.75, 1.7, 1.7 and
/// 1.3.
constexpr int64_t kPlaneRows = 1024;
/// A line of each page is fetched while planes are made, the others while they are counted, one at
/// a time: 6.5. None 5.3; all while they are counted 3.5; 16 at once 5.9. Strips of one width, in
/// whole groups: [R, 72] 4.6, [R, 200] 5.0, as 64 columns and a rest 4.1 and 4.2.
///
/// Rows farther apart than this have pages of their own, and what is fetched alone waits for its
/// page. All lines of the next 64 rows are fetched while planes are made of 64: [R, 2048] 5.1, [R,
/// 2112] 6.2, [R, 4096] 4.4, [R, 4160] 6.0, [R, 20000] 4.4; while they are counted 2.2, 2.3, 2.2,
/// 2.5 and 2.1; in tables 4.8, 5.0, 4.3, 4.9 and 3.8. Strips of one line: 5.0, 5.9, 4.0, 5.3 and
/// 4.4; lines masked where they are loaded 4.6, 5.9, 3.9, 5.9 and 4.1. The result of [R, 20000] is
/// 41 MB of new memory: its small pages asked for at once, no faster.
constexpr int64_t kMaxNearStride = 1024;
constexpr int64_t kFarLines = 2;
/// Their tables take longer to clear than those of pairs. 256, 512, 1000 and 2000 rows of 512: -4,
/// +8, +20 and +25 %; 256, 512 and 1500 of 40,000 or more: +8, 0 and +12 %.
constexpr int64_t kMinPlaneRows = 512;
/// A run of rows is cut into whole planes, of 64. Runs of 28, 64, 128, 140 and 192 rows of 64 to
/// 4096: -60, -15, +12, -3 to +7, and +15 %.
constexpr int64_t kMinPlaneRun = 128;

/// Channels that lie together are counted one after another from a chunk of this size.
constexpr int64_t kChunkBytes = 16384;
/// One channel, for which a chunk is what a sample is taken of.
constexpr int64_t kChunkElements = 16384;
/// It is fetched this far ahead: what waits longer has left the first-level cache to the tables,
/// for the second. 16 and 48 KiB: int32 in 1024 bins uniform 3.25 and 3.8, normal 3.2 and 3.75,
/// runs 3.5 both; int64 in 256 bins 3.6 and 3.95, runs 3.0 and 4.5; int16 3.6 and 3.75; bytes 6.4
/// both. 128 KiB: int64 3.7. Nothing: int32 runs 2.9, bytes 4.7, in runs 3.1. Not where indices are
/// staged, in 65,536 bins: uniform 2.4 and 2.35.
constexpr int64_t kAheadBytes = 48 << 10;
constexpr int64_t kMaxStreams = 32;

/// Fewer rows than this an index are counted without tables, which take as long to clear and
/// to fold as so many rows take.
constexpr int64_t kMinRowsPerIndex = 1;
/// Runs of rows shorter than this are no stream: setting out costs as much.
constexpr int64_t kMinStream = 64;

/// Tables of one channel of bytes: an allocation takes 0.7 us, twice what 1,000 bytes take.
constexpr int64_t kStackBytes = kTablesOf32Bits * kTableStepOf32Bits;

/// Results from here on are put in huge pages where the system has them. [3355, 20000], whose
/// counts are 41 MB: 20 of 46 ms went by for its pages; [3355, 16384], 32 MiB, 28.4 ms without and 15.5
/// with. glibc gives no memory of this size to anything else.
constexpr int64_t kMinHugeBytes = 32 << 20;
/// And from here on they are stored past the caches, which then keep the input: [3355, 20000] 17.0 and
/// on two threads 9.6 ms, and so 15.7 and 8.6; [3355, 8192], 16 MiB, 7.9 and 4.0, 6.4 and 3.4. [3355,
/// 4096], 8 MiB, 3.5 and 1.7, 2.8 and 1.8.
/// Not where Granite Rapids has just been given huge pages, whose zeros are in its caches and would have to
/// go to memory first: [3355, 20000] 32.2 ms for 33.2, [1677, 40000] 42.5 for 47.7 (41 MB alone, new pages
/// and all stores: 2.4 ms for 12.5).
constexpr int64_t kMinCountsPastCaches = 1 << 21;

/// A second thread takes 5 us to wake up.
constexpr int64_t kMinElementsPerThread = 1 << 16;
/// Tasks are handed out one by one, so that a thread which is held up holds up no other; those of
/// a channel follow each other, so that more of them are no more folds. Two threads, 32 for 8:
/// +1 to 3 % ([R, 512], [R, 2048], one channel).
constexpr int64_t kTasksPerThread = 32;
/// Of a result as large as kMinCountsPastCaches each strip is a task, or it would be cleared first and added
/// to, where each thread has so many. Two threads, as many tasks as above: [6710, 10000] 10.5 ms for 13.7,
/// [8192, 8192] 13 for 15.2.
constexpr int64_t kMinWholeStrips = 2;
/// Each thread has tasks that follow each other, then what others have left of theirs: the first
/// tile of the next strip is then fetched by who counts it, and two threads seldom fill the same
/// new page of the result. Two threads, for tasks in turns: [3355, 20000] +7 to 10 %,
/// [512, 131072] +9, [4096, 512] +16 to 26, [R, 512] +1, others the same. More threads than this
/// share.
constexpr int64_t kMaxRanges = 64;
/// Between the tables of two threads. Reading a tile, the processor fetches ahead to the end of a
/// page: counters that another thread adds to. Two threads, [R, 512] uniform 6.0 instead of 8.9
/// where the tile ended in the middle of a page.
constexpr int64_t kScratchGap = 4096;
/// Below this many counters to clear or to add: 2 MiB, which one thread clears in the time
/// that another takes to wake up.
constexpr int64_t kMinCountersPerTask = 1 << 18;

} // namespace histo::cpu::tuning
