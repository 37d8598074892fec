// Columns of bytes as planes of bits, which are counted many at once: no counter is loaded and
// stored for an element, so that equal values wait for nothing.
#pragma once

#include <cstdint>

#include "byte_columns.h"
#include "loops.h"

namespace histo::cpu {

/// Columns that are counted together: a vector has a word of each.
constexpr int64_t kPlaneColumns = 8;
constexpr int64_t kPlaneBlockRows = 64; // bits of a word
/// Planes of a tile, and of eight columns which of 16 values each half of a byte has.
constexpr int64_t kPlaneScratchBytes =
    tuning::kPlaneRows * (tuning::kFarLines * tuning::kLineBytes + 32);

/// Whether the processor has what count_bit_planes needs.
bool has_bit_planes();

/// Of up to 64 columns, of far rows kFarLines as many, and up to kPlaneRows rows. Adds the counts of
/// each column c to tables[c / 8][value][c % 8]; tables are `table_size` counters apart. Fetches as
/// many rows of what is loaded next.
void count_bit_planes(
    const ByteColumns& tile, Ahead& ahead, char* scratch, int64_t* tables, int64_t table_size);

/// Puts what one of the tables has counted, of up to eight columns.
void put_bit_planes(const int64_t* table, const Histograms& to);

} // namespace histo::cpu
