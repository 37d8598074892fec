// Bytes counted by multiplying matrices, on processors that do (Intel's AMX). Of 64 bytes one matrix
// has something in row h where the upper three bits are h, and the other in column n where the lower
// four are n. The bit between them says what: both have 1, or both 255. So what a byte adds to the sum
// of its h and n in their product is 1 or 255 * 255, and a sum holds the counts of two bytes. It takes
// the same time whatever the bytes are.
#pragma once

#include <cstdint>

#include "byte_columns.h"
#include "loops.h"

namespace histo::cpu {

/// So many products of a channel are under way, each added to sums of its own.
constexpr int64_t kProducts = 4;
constexpr int64_t kSums = 128; // [h][n]
/// So many bytes to a sum, and the lower of its counts ends before the other begins.
constexpr int64_t kMaxProductBytes = 255 * 255 - 1;

/// Adds to sums [kProducts][kSums]. Needs has_amx(), as what follows.
void add_products(const uint8_t* data, int64_t size, uint32_t* sums);

/// So many columns are taken together.
constexpr int64_t kProductColumns = 4;
/// Two columns are multiplied in turns; rows that fill the last turn of a tile are 0.
constexpr int64_t kProductTurnRows = kProducts / 2 * tuning::kLineBytes;
/// Blocks of a tile, transposed, and what is read behind them.
constexpr int64_t kProductScratchBytes = (tuning::kProductRows + kProducts) * tuning::kLineBytes;

/// Adds to sums [columns][kSums], which are there for a multiple of kProductColumns. Of up to
/// kProductRows rows. Fetches as many rows of what is loaded next.
void add_column_products(
    const ByteColumns& tile, const Ahead& ahead, char* scratch, uint32_t* sums);

/// Counts of bytes, [256], of so many sums [kSums] together.
void counts_of_products(const uint32_t* sums, int64_t size, uint32_t* counts);

/// Puts the counts of columns.
void put_column_products(const uint32_t* sums, const Histograms& to);

} // namespace histo::cpu
