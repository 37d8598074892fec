// The functions with which the scheduler and the memory know of each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace emulated {

enum class Kind { kInput, kCounts, kWorkspace, kShared };
enum class How { kRead, kReadAtomically, kWrite, kAdd };

/// The thread that runs. Time is cut into intervals: a block begins a new one at each barrier, lanes
/// of a warp also where they wait for each other, and no two blocks have the same one.
struct Thread {
  unsigned block; // of the grid
  unsigned thread;
  uint32_t interval;
  uint32_t block_since;   // what the other warps of the block did before is over
  uint32_t cluster_since; // what the other blocks of the cluster did before is over
  bool waited;            // for the kernel launched before
};
struct Kernel {
  std::string name; // empty: the host runs
  unsigned cluster = 1;
  bool cooperative = false;
  bool overlaps = false;      // the one launched before
  bool input_settled = false; // nobody writes it any more, even if that one has not ended
  uint32_t since = 0;         // the first interval
};
extern Thread running;
extern Kernel kernel;
/// The names of all that were launched.
extern std::string launched;

/// An access of the thread that runs, in an allocation.
struct Access {
  Kind kind;
  How how;
  size_t offset; // bytes
  size_t bytes;
  uint64_t value; // that is added
};
/// Is told of each access of a kernel, if there is one.
extern void (*observer)(const Access&);

uint32_t new_interval();
/// Ends the process with one line about the thread that runs.
[[noreturn]] void fail(const std::string& what);

/// Whole pages, full of bytes that nobody wrote; `offset` bytes of the first one lie outside.
uint8_t* allocate(Kind kind, size_t bytes, size_t offset = 0, unsigned block = 0);
/// The pages that blocks have so far. release_pages frees all that came since.
size_t allocated_pages();
void release_pages(size_t from);
/// By the host.
void fill(uint8_t* memory, uint8_t value, size_t bytes);
/// The dynamic shared memory of a block of the cluster that runs; it must not have ended.
uint8_t* dynamic_shared_of(unsigned rank);

} // namespace emulated
