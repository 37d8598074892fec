// Columns of bytes as planes of bits, which are counted many at once: no counter is loaded and
// stored for an element, so that equal values wait for nothing.
#pragma once

#include <cstdint>

#include "loops.h"

namespace histo::cpu {

/// Columns that are counted together: a vector has a word of each.
constexpr int64_t kPlaneColumns = 8;
/// Planes of a tile of 64 columns, and which of 16 values each half of a byte has.
constexpr int64_t kPlaneScratchBytes = tuning::kPlaneRows * (64 + 32);

/// Up to 64 columns, up to kPlaneRows rows.
struct ByteColumns {
  const uint8_t* data;
  int64_t columns;
  int64_t rows;
  int64_t stride; // of the rows
};

/// Whether the processor has what count_bit_planes needs.
bool has_bit_planes();

/// Adds the counts of each column c to tables[c / 8][value][c % 8]; tables are `table_size`
/// counters apart. Fetches as many rows of what is loaded next.
void count_bit_planes(
    const ByteColumns& tile, Ahead& ahead, char* scratch, int64_t* tables, int64_t table_size);

} // namespace histo::cpu
