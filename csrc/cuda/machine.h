// The abilities of the machine: its limits, and how fast it adds, which the benchmarks hold the
// study variants against.
#pragma once

#include <cstdint>

#include "cuda/launch.h"

namespace histo::cuda {

/// The limits of the current device, whose index this is.
DeviceLimits device_limits(int device);

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
