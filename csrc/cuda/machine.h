// What the machine can do: its limits, and kernels that count nothing and measure what the
// benchmarks hold the others against.
#pragma once

#include <cstdint>

#include "launch.h"

namespace histo::cuda {

/// Of the current device, whose index this is.
DeviceLimits device_limits(int device);

/// Reads `bytes` bytes from `data`, a multiple of 16, and writes one word to `sink`.
void read_only(const void* data, int64_t bytes, uint32_t* sink, const Launch& launch);

/// How `add_to_one_address` adds.
struct AddPlan {
  bool shared;    // in shared memory, or global
  bool dependent; // each addition waits for the one before
  int64_t blocks;
  int64_t threads;   // of a block
  int64_t lanes;     // of a warp that add, 1 to 32
  int64_t additions; // a lane
};

/// Adds 1 to one address, over and over; in shared memory every block has its own.
/// result[0]: clock cycles that the first warp took; result[1]: the sum reached.
void add_to_one_address(const AddPlan& plan, unsigned long long* result, const Launch& launch);

} // namespace histo::cuda
