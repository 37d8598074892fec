// How the CPU engine counts an input: the way of counting, and the tables of a thread.
#pragma once

#include <cstdint>

#include "core/problem.h"
#include "cpu/tuning.h"

namespace histo::cpu {

/// kDirect: in the result itself, without tables.
/// kStreams: one channel after another; its elements go to several counters in turns.
/// kColumns: channels lie side by side, and each has a lane of a table.
enum class Way { kDirect, kStreams, kColumns };

/// How values are counted in tables: up to 4096 bins in counters of 16 bits, or of 32 where these
/// are faster. With more bins indices may be made before they are counted.
enum class Counting { kIn16Bits, kIn32Bits, kIndexed };

/// Tables of counters [index][lane] that are counted in together. The lanes of an index lie
/// together.
struct Group {
  int64_t indices;
  int64_t lanes;
  int64_t tables;
  int64_t table_bytes; // from one to the next

  int64_t bytes() const {
    return tables * table_bytes;
  }
};

struct CpuPlan {
  Way way;
  Counting counting;
  int64_t strip;            // channels that share the tables at a time, at most
  int64_t indices;          // of a table that is not joint
  bool joint;               // streams of bytes: two neighbours are counted as one
  Group tables_if_distinct; // of streams, while values are distinct; of columns, the only tables
  Group tables_if_repeated; // behind them, of streams, while values are repeated
  int64_t byte_values;      // values below it have a counter of 8 bits, too, at the end of the tile
  int64_t table_bytes;      // of all groups
  int64_t tile_bytes;

  /// Bytes for the counters of 8 bits: there is one for each number of 16 bits.
  int64_t byte_room() const {
    return byte_values > 0 ? tuning::kMaxByteValues : 0;
  }
  /// Bytes of one thread's tables and tile.
  int64_t scratch_bytes() const {
    return table_bytes + tile_bytes;
  }
  /// Streams: bytes of the tables of one channel.
  int64_t channel_bytes() const {
    return tables_if_distinct.bytes() + tables_if_repeated.bytes();
  }
};

CpuPlan plan_of(const Problem& problem);
/// The plan of slots that numbers are digitized to: they lie as the elements do, without gaps.
CpuPlan plan_of_slots(const Problem& slots);

/// The number of threads that the input is worth.
int64_t workers_of(const Problem& problem);

int64_t size_of(ElementType type);

} // namespace histo::cpu
