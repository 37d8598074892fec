// How the CPU engine counts an input: which tables a thread has, and who counts what.
#pragma once

#include <algorithm>
#include <cstdint>

#include "../problem.h"
#include "tuning.h"

namespace histo::cpu {

/// kStreams: a channel after the other, its elements in turns to several counters.
/// kColumns: channels lie side by side, and each has a slot.
/// kBitPlanes: so do channels of bytes, and their bits are counted.
/// kProducts: or matrices of them are multiplied.
enum class Way { kDirect, kStreams, kColumns, kBitPlanes, kProducts };

/// How values are counted in tables: of up to 4096 bins in counters of 16 bits, or of 32 where
/// these are faster. Of more bins indices may be made before they are counted.
enum class Counting { kIn16Bits, kIn32Bits, kStaged };

/// Tables [index][slot] that are counted in together.
struct Group {
  int64_t indices;
  int64_t slots;
  int64_t tables;
  int64_t table_bytes; // from one to the next

  int64_t bytes() const {
    return tables * table_bytes;
  }
};

struct Plan {
  Way way;
  Counting counting;
  int64_t strip;       // so many channels share the tables at a time, or fewer
  int64_t indices;     // of a table, but of a joint one
  bool joint;          // the few counters are of neighbours
  bool products;       // they are sums of matrix products, and there are no others
  Group few;           // of each channel of streams, where values differ; of all columns
  Group many;          // behind them, of each channel of streams, where values agree
  int64_t byte_values; // below this values have a counter of 8 bits, too, in the tile's end
  int64_t table_bytes; // of all of them
  int64_t tile_bytes;

  /// Bytes for the counters of 8 bits: there is one for any 16 bits.
  int64_t byte_room() const {
    return byte_values > 0 ? tuning::kMaxByteValues : 0;
  }
  /// Bytes of one thread's tables and tile.
  int64_t scratch_bytes() const {
    return table_bytes + tile_bytes;
  }
};

Plan plan_of(const Problem& problem);

/// A strip is a stretch of channels in one run of them.
struct Strips {
  int64_t size; // of a strip, but for the last of a run
  int64_t run;
  int64_t per_run;
  int64_t count;

  Strips(const Problem& problem, int64_t strip)
      : size(strip),
        run(problem.channels[1].size),
        per_run(ceil_div(run, strip)),
        count(problem.channels[0].size * per_run) {
  }
  int64_t first(int64_t strip) const {
    return strip / per_run * run + strip % per_run * size;
  }
  int64_t size_of(int64_t strip) const {
    return std::min(size, run - strip % per_run * size);
  }
};

/// The beginning of part `part` of `parts`.
constexpr int64_t cut(int64_t size, int64_t part, int64_t parts) {
  return size / parts * part + size % parts * part / parts;
}

/// Strips that are counted in tables, as tasks of threads.
struct Schedule {
  Strips strips;
  int64_t workers;
  int64_t pieces; // of rows, of each strip
  int64_t tasks;

  Schedule(const Problem& problem, const Plan& plan);
  /// The tables of all threads.
  int64_t scratch_bytes(const Plan& plan) const {
    return workers * (plan.scratch_bytes() + tuning::kScratchGap) - tuning::kScratchGap;
  }
};

/// How threads share a result that is counted in itself.
enum class Sharing {
  kChannels, // each has some of them
  kCopies,   // each has a copy of the result, and these are added
  kAtomic,   // all add to the same counts
};
Sharing sharing_of(const Problem& problem, const Plan& plan);

/// As many as torch has, and one in a child of a process, where these are not.
int64_t num_threads();
/// The number of threads that the input is worth.
int64_t workers_of(const Problem& problem);

int64_t size_of(ElementType type);

} // namespace histo::cpu
