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

// Smaller inputs are counted sooner by strided.cu, in one launch: [2048, 512] takes
// 6.4 us there and 9.7 us here, [4096, 512] 12.4 and 10.8. Where blocks add whole
// channels to the counts, they meet there: 2 MiB of one channel take 9.8 us and 12.1,
// 4 MiB 14.0 and 14.5. All by graph replay.
constexpr int64_t kMinBytesForColumns = 2 << 20;
constexpr int64_t kMinBytesForFewChannels = 4 << 20;

// Up to this many channels a block sums the columns of each and adds the sums to
// the counts; with more it writes its table out.
constexpr int64_t kMaxChannelsAddedByBlock = 4;

// A stream may need more tables side by side to fill their columns better, up to
// this many, where each costs as much as leaving 0.2 % of the columns idle.
constexpr int64_t kMaxStreamGroups = 16;
constexpr double kStreamGroupCost = 0.002;

// --- Any type, any strides (strided.cu) --------------------------------------------

constexpr int kStridedThreads = 512;
constexpr int kStridedUnroll = 8;
constexpr int64_t kStridedBlocksPerSm = 4;

// Less input than this is read from the second-level cache, where a block that
// reads single bytes of a row costs little, and more blocks are worth it.
constexpr int64_t kCachedBytes = 4 << 20;
constexpr int64_t kSectorBytes = 32;

// Four blocks an SM share its 227 KiB.
constexpr int64_t kPreferredTableBytes = 48 * 1024;

} // namespace histo::cuda
