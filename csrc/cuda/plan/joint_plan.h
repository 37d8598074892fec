// How a GPU counts joint histograms: the plan, made on the host from the problem, its axes and the
// limits of the device alone.
#pragma once

#include <optional>

#include "core/joint.h"
#include "cuda/plan/edge_plan.h"
#include "cuda/policy_weights.h"

namespace histo::cuda {

/// Where a block counts.
enum class JointStorage {
  kTable,  // words of 32 bits in shared memory
  kHalves, // two cells share a word; what overflows is added to the result
  kIndex,  // nowhere: the cells of elements are written, and counted as integers are
};

/// How the coordinates of an element lie.
enum class JointSamples {
  kSeparate,    // each coordinate has a run of its own
  kInterleaved, // the coordinates of an element are neighbours
};

/// The types that kernels know.
enum class JointTypes {
  kSame,  // all coordinates have the type of the first one
  kIds,   // int64, then float32
  kMixed, // each a float of up to 32 bits, or any integer but uint64: known when a kernel runs
  kWide,  // any but integers of 64 bits, converted to float64
};

/// A table has a cell for each combination of the slots of all axes: underflow, the bins, overflow and
/// NaN. The last axis may have unused slots, so that cells of a diagonal lie in different banks.
struct JointCells {
  int axes;
  unsigned slots[kMostAxes]; // in the table
  unsigned bins[kMostAxes];
  bool shows_flow;

  HISTO_HOST_DEVICE unsigned size() const {
    unsigned product = 1;
    for (int d = 0; d < kMostAxes; ++d) {
      product *= d < axes ? slots[d] : 1;
    }
    return product;
  }
  /// Words of a table, a multiple of 4.
  HISTO_HOST_DEVICE unsigned words(JointStorage storage) const {
    return storage == JointStorage::kTable    ? (size() + 3) / 4 * 4
           : storage == JointStorage::kHalves ? (size() + 7) / 8 * 4
                                              : 0;
  }
  HISTO_HOST_DEVICE unsigned nan_slot(int axis) const {
    return bins[axis] + 2;
  }
  /// The slots of an axis that the result has.
  HISTO_HOST_DEVICE unsigned shown(int axis) const {
    return bins[axis] + (shows_flow ? 3 : 0);
  }
};

/// A block has rows of one channel. Strides are bytes.
struct JointStreams {
  const void* data[kMostAxes]; // one if coordinates are interleaved
  ElementType types[kMostAxes];
  Extent channels[kMostAxes][2];
  Extent outer[kMostAxes][2]; // loops over runs
  int64_t least[kMostAxes];   // the extremes of an integer type
  int64_t last[kMostAxes];
  int64_t run; // neighbouring rows of a channel
  int64_t num_rows;
  int64_t share;   // the rows of a block, if a channel has several runs
  unsigned chunks; // blocks of a channel. They take packs of a single run in turns
  JointCells cells;
  int32_t buckets; // a power of two; they find thresholds if no line does

  HISTO_HOST_DEVICE bool in_turns() const {
    return run == num_rows;
  }
};

struct JointPlan {
  JointSamples samples;
  JointTypes types;
  JointStorage storage;
  JointStreams streams;
  int64_t blocks;
  int64_t shared_bytes;
  int64_t workspace_bytes; // tables of blocks that share a channel, or the cells of elements
  // The workspace of kIndex has index_words words. Cells begin at first_index, so that packs are
  // aligned. The other words are not counted.
  int64_t first_index;
  int64_t index_words;
};

/// Whether joint bins are written as int32 and then counted: those of many elements, none of which is
/// smaller than an int32.
bool takes_index(const Problem& problem, int axes);

/// The joint bins of elements, int32 [channels, rows], as a problem of counting integers.
Problem problem_of_index(
    const void* bins, int64_t channels, int64_t rows, int64_t num_bins, int64_t* counts);

/// None if there is no kernel for the problem. There must be elements, and counts.
std::optional<JointPlan> plan_joint(
    const Problem& problem, const JointAxes& axes, const DeviceLimits& limits);

} // namespace histo::cuda
