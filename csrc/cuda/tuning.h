// The engine's numbers, each with what was measured for it (H200, 132 SMs).
#pragma once

#include <cstdint>

namespace histo::cuda {

// --- Columns of bytes (columns.cu) ----------------------------------------------

// A block's table: 128 columns as 16-bit counters, 64 KiB, one block an SM. Over
// [1M, 512] uint8 this reaches 0.94 of the read-only limit before the fold; 256
// columns a table, and more and smaller blocks an SM, gave less.
constexpr int kColumnsPerTable = 128;
constexpr int kColumnThreads = 768;
constexpr int kColumnUnroll = 16; // loads in flight a thread; 8 where words need assembling

// What a 16-bit counter holds, less the one row that a stream's end may add.
constexpr int64_t kMaxRowsPerTable = 65534;

// A table for fewer bytes than this, or a chunk of fewer rows, costs more to clear
// and fold than it saves.
constexpr int64_t kMinBytesPerTable = 16 * 1024;
constexpr int64_t kMinRowsPerChunk = 192;

// The more tables lie side by side, the more rows are counted sooner in one chunk, by
// fewer blocks, than in several that are written out and folded: [3000, 4096], 32
// tables, takes 18.5 us in one and 31 in four.
constexpr int64_t kRowsOfOneChunkPerTable = 96;

// Smaller inputs are counted sooner by strided.cu, in one launch: [2048, 512] takes
// 6.4 us there and 9.7 us here, [4096, 512] 12.4 and 10.8. Where blocks add whole
// channels to the counts, they meet there: 2 MiB of one channel take 9.8 us and 12.1,
// 4 MiB 14.0 and 14.5. All by graph replay.
constexpr int64_t kMinBytesForColumns = 2 << 20;
constexpr int64_t kMinBytesForFewChannels = 4 << 20;

// Up to this many channels a block sums the columns of each and adds the sums to
// the counts; with more it writes its table out.
constexpr int64_t kMaxChannelsAddedByBlock = 4;

// Additions are twice as fast as memory, so a quarter of the columns may be idle; a
// stream of few channels, which costs no fold, leaves none. Every further table side
// by side is more to fold: it has to fill one column in a hundred more.
constexpr double kEnoughFill = 0.75;
constexpr double kGroupCost = 0.01;
constexpr int64_t kMaxStreamGroups = 16;

// A stream's rows are aligned, but its fold adds to counters that several columns
// share: [10000, 511], 16 tables side by side, takes 20 us as a stream and 14 as rows
// whose words are put together; [131072, 511] 36 and 64.
constexpr int64_t kMinStreamBytesPerTable = 1 << 20;

// --- Any type, any strides (strided.cu) --------------------------------------------

constexpr int kStridedThreads = 512;
// Loads in flight a thread. With 16 of single bytes [1, 20000] takes 35 us and not 28,
// [100, 20000] with 16 bins 11 and not 9.
constexpr int kStridedUnroll = 8;
constexpr int64_t kStridedBlocksPerSm = 4;

// Where channels lie side by side a block may use only one element of each sector it
// reads: up to this many elements; for twice as many it uses two, and so on. Reading
// whole sectors for 2^18 elements is 8 MiB of traffic with the second-level cache.
constexpr int64_t kElementsPerSector = 1 << 18;
constexpr int64_t kSectorBytes = 32;

// A row of a tile is at most this long: memory hands out 64 bytes at a time, and a
// warp takes 32 elements.
constexpr int64_t kTileRowBytes = 64;
constexpr int64_t kTileRowElements = 32;

// Four blocks an SM share its 227 KiB.
constexpr int64_t kPreferredTableBytes = 48 * 1024;

} // namespace histo::cuda
