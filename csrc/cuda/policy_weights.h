// The numbers of weights and of joint histograms: more of policy.h.
#pragma once

#include "cuda/policy.h"

namespace histo::cuda {

// --- Weights (fill/weights*.cu) -----------------------------------------------------------

// A table of sums has all bits if there is room for 2^2 copies of it, or else a window of so many
// words of 32 bits. Case: float32 [2^28] with float32 weights, 2048 and 5000 bins.
constexpr unsigned kFewestLogCopiesOfAll = 2;
constexpr unsigned kMostLogCopiesOfAll = 4;
constexpr unsigned kMostLogCopiesOfWindow = 5;
constexpr unsigned kWindowOfFloat32 = 5;
constexpr unsigned kWindowOfBFloat16 = 4;
constexpr unsigned kWindowOfFloat64 = 6;
// There are more copies while a block has at least a weight for so many words. Case: float32 [2^16].
constexpr int64_t kWordsPerWeight = 8;
// Threads of a block. More hide that additions take long; those whose types are known when they run
// need more registers. Case: float32 [2^28] with float32 weights.
constexpr int kThreadsOfWeights = 1024;
constexpr int kThreadsOfMixedWeights = 768;
// Elements of shorter runs are read one by one. Case: bfloat16 [63, 1312, 14, 14] over (0, 2, 3) with
// float32 weights.
constexpr int64_t kShortestRunOfWeights = 16;
// A block chooses its window from so many weights.
constexpr int kSamplesOfWeights = 256;
constexpr int32_t kFewestBucketsOfWeights = 256;
constexpr unsigned kColumnsOfWeights = 32; // of a block
// A block of many short channels has one of them. An SM has so many blocks, if they fit with some
// copies of a table. Case: float32 [4096, 11008] over 1 with float32 weights.
constexpr int64_t kFewestShortOfSm = 2; // channels
constexpr int64_t kMostShortOfSm = 4;   // blocks
constexpr int64_t kMostRowsOfShortWeights = 128 << 10;
constexpr unsigned kFewestLogCopiesOfShort = 1;
constexpr unsigned kMostWordsToWrite = 16; // of a slot: a thread makes its digits
// Columns have tables if a warp's rows are at least so many for each slot.
constexpr int64_t kFewestRowsOfColumns = 4;
// Fewer elements have no tables of columns: to clear and to add these takes longer than to read so
// many.
// Case: bfloat16 [32, 7938, 5] over (0, 1) with float32 weights.
constexpr int64_t kFewestElementsOfColumns = 5 << 18;

// --- Sums in tables of warps (fill/warp_sums.cu) ------------------------------------------

// An SM has one block of at most so many warps, and at least so many fit its memory. They hide that
// additions to shared memory take long.
constexpr int64_t kMostWarpsOfWarpSums = 20;
constexpr int64_t kFewestWarpsOfWarpSums = 4;
// An SM has so many channels at least. Several warps or blocks share each of fewer.
constexpr int64_t kFewestWarpSumsOfSm = 4;
// One warp takes too long for a longer channel.
constexpr int64_t kMostRowsOfWarpSums = 4096;
// Loads of a lane in flight, and elements of a lane that are added together.
constexpr unsigned kLoadsOfWarpSums = 4;
constexpr unsigned kAdditionsOfWarpSums = 2;

// --- Joint histograms (fill/joint*.cu) -----------------------------------------------------

// Threads of a block, alone on its multiprocessor. Fewer, if a thread needs more registers: for small
// elements, and for types that are known only when a kernel runs. Case: bfloat16, bfloat16 [2^29].
constexpr int kThreadsOfJoint = 768;
constexpr int kFewThreadsOfJoint = 640;
constexpr int kFewestThreadsOfJoint = 512;
// Channels with fewer rows, or with more cells of a table for each row, are counted by additions to
// the result. Case: float32, float32 [64, 256, 256] over (1, 2).
constexpr int64_t kMinRowsOfJoint = 1024;
constexpr int64_t kMostCellsOfRow = 8;
// The same of a block that shares its channel with others: its table is written, and summed with
// theirs. Case: float32, float32 [2^16].
constexpr int64_t kMostCellsOfRowOfBlock = 4;
// Buckets that find the thresholds of an axis if no line does.
constexpr int32_t kBucketsOfJoint = 1024;
// Bins of an axis: a bucket counts its thresholds in 16 bits.
constexpr int64_t kMostBinsOfJoint = 1 << 15;
// If no table has room, fewer bytes of coordinates are counted in the result. Case: 512 x 512 bins.
constexpr int64_t kMinBytesOfJointIndex = 32 << 20;

} // namespace histo::cuda
