// Bytes counted by multiplying matrices, on processors that do (Intel's AMX). 64 bytes become two
// matrices. Each byte fills one column of the first, in the row h of its upper three bits, and one
// row of the second, in the column n of its lower four bits. The bit between them chooses the
// factor in both: 1 or 255. A byte thus adds 1 or 255 * 255 to the sum of its h and n in the
// product, so a sum holds the counts of two bytes. This takes the same time whatever the bytes are.
#pragma once

#include <cstdint>

#include "cpu/count/byte_columns.h"
#include "cpu/count/inner_loops.h"

namespace histo::cpu {

/// The products of a channel that are under way, each added to sums of its own.
constexpr int64_t kProducts = 4;
constexpr int64_t kSums = 128; // [h][n]
/// The bytes that a sum takes before its lower count reaches the upper one.
constexpr int64_t kMaxProductBytes = 255 * 255 - 1;

/// Adds bytes to sums [kProducts][kSums]. Needs has_amx(), as the functions below do.
void add_products(const uint8_t* data, int64_t size, uint32_t* sums);

/// The columns that are taken together.
constexpr int64_t kProductColumns = 4;
/// Two columns are multiplied in turns; rows that fill the last turn of a tile are 0.
constexpr int64_t kProductTurnRows = kProducts / 2 * tuning::kLineBytes;
/// The blocks of a tile, transposed, and the bytes that are read behind them.
constexpr int64_t kProductScratchBytes = (tuning::kProductRows + kProducts) * tuning::kLineBytes;

/// Adds up to kProductRows rows to sums [columns][kSums]. The columns that have sums are a multiple
/// of kProductColumns. Prefetches as many rows from `ahead` on.
void add_column_products(
    const ByteColumns& tile, const Ahead& ahead, char* scratch, uint32_t* sums);

/// Adds up `size` sets of sums [kSums], and writes the counts of bytes, [256].
void counts_of_products(const uint32_t* sums, int64_t size, uint32_t* counts);

/// Puts the counts of columns.
void put_column_products(const uint32_t* sums, const Histograms& to);

} // namespace histo::cpu
