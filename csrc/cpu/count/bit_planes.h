// Counts columns of bytes as bit planes, so that one instruction counts many elements. No counter
// is loaded and stored for each element, so equal values do not wait for each other.
#pragma once

#include <cstdint>

#include "cpu/count/byte_columns.h"
#include "cpu/count/inner_loops.h"

namespace histo::cpu {

/// Columns that are counted together: a vector has a word of each.
constexpr int64_t kPlaneColumns = 8;
constexpr int64_t kPlaneBlockRows = 64; // bits of a word
/// Bytes for the planes of a tile, and for the masks of one group, one for each value of half a
/// byte.
constexpr int64_t kPlaneScratchBytes =
    tuning::kPlaneRows * (tuning::kFarLines * tuning::kLineBytes + 32);

/// Whether the processor has what count_bit_planes needs.
bool has_bit_planes();

/// Counts up to kPlaneRows rows of up to 64 columns, or kFarLines times as many where rows are far
/// apart. Adds the counts of each column c to tables[c / 8][value][c % 8]; tables are `table_size`
/// counters apart. Prefetches as many rows from `ahead` on.
void count_bit_planes(
    const ByteColumns& tile, Ahead& ahead, char* scratch, int64_t* tables, int64_t table_size);

/// Puts the counts of one table, of up to eight columns.
void put_bit_planes(const int64_t* table, const Histograms& to);

} // namespace histo::cpu
