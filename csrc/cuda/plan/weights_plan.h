// How a GPU sums weights: the plan, made on the host from the problem and the limits of the device
// alone.
#pragma once

#include <variant>

#include "core/edges.h"
#include "core/weights.h"
#include "cuda/plan/edge_plan.h"
#include "cuda/policy_weights.h"

namespace histo::cuda {

/// The numbers of a bin's sum, at most.
constexpr int kMostNumbersOfSum = sum_layout(ElementType::kFloat64).size();

/// An operand whose type is known only when a kernel runs. Strides are bytes.
struct TileOperand {
  void* data;
  ElementType type;
  Extent channels[2];
  Extent rows[3];
};

/// Tiles of the generic walk, and the operand beside the values. Strides are bytes.
struct WeightTiles {
  Generic tiles;
  TileOperand other;
  unsigned value_bytes;
  unsigned other_bytes;
};

/// How weights are added to words of 32 bits, which many bits lie in.
enum class WordKind {
  kInteger,
  kFloat32, // and what becomes float32
  kFloat64,
};
WordKind word_kind(ElementType weight);
/// The type that values are widened to: float32 or float64, which hold all of their numbers, or
/// integers of 64 bits.
WordKind value_kind(ElementType value);

/// A table of sums in shared memory: [slot][word][copy], words of 32 bits. Word i of a slot counts
/// multiples of 2^(origin + 32 i). Bits are counted from the lowest one of float32 or float64.
struct WordTable {
  unsigned words;
  unsigned log_copies;
  int bias;            // the bit that is the lowest one of the result
  int origin;          // the first bit of the table
  int unit;            // the first bit of the word that most weights lie in
  bool samples;        // the block chooses origin and unit from its weights
  unsigned word_bytes; // from one word to the next
  unsigned slot_bytes; // from one slot to the next

  void set_copies(unsigned log) {
    log_copies = log;
    word_bytes = 4u << log;
    slot_bytes = words * word_bytes;
  }
#ifdef __CUDACC__
  /// Lanes take the copies in turns.
  __device__ __forceinline__ unsigned copy_of_thread() const {
    return threadIdx.x & ((1u << log_copies) - 1);
  }
#endif

  /// Words of a table, a multiple of 4.
  HISTO_HOST_DEVICE unsigned size(unsigned slots) const {
    return ((slots * words << log_copies) + 3) / 4 * 4;
  }
};

/// A block has rows of one channel of both operands.
struct WeightStreams : EdgeStreams {
  Extent weight_channels[2]; // strides in elements
  Extent weight_rows[3];
  int64_t turns;       // blocks that take packs of one run in turns
  int64_t teams;       // of a block, which take runs in turns: one of all threads, or each warp
  int64_t pack_step;   // from a pack of a thread to its next one
  int64_t weight_step; // the same of weights, in elements
  bool writes;         // a block has all of a channel, and writes canonical digits
  WordTable table;
};

/// A block has a stripe of columns of both operands. The copies of its table are columns.
struct WeightColumns : ChannelColumns {
  int64_t weight_batch; // strides in elements
  int64_t weight_row;
  int64_t weight_column;
  int64_t value_step; // bytes from a row of a thread to its next one
  int64_t weight_step;
  bool in_vec16s; // rows are vec16s of both operands, or columns share a weight
  WordTable table;
};

/// WeightTiles sum everything that the others do not.
struct WeightsPlan {
  std::variant<WeightStreams, WeightColumns, WeightTiles> layout;
  int64_t blocks;
  int threads; // of WeightStreams, at most: some of their kernels have fewer
  int64_t shared_bytes;

  /// Whether blocks write sums as they are, and do not add to them.
  bool writes() const {
    const auto* streams = std::get_if<WeightStreams>(&layout);
    return streams != nullptr && streams->writes;
  }
};

/// The teams of a block: one, or one for each warp, whichever needs fewer steps.
int64_t teams_of_weights(const WeightStreams& in, int64_t threads, int64_t pack_size);

/// `edges` is null if bins are values.
WeightsPlan plan_weights(const Problem& problem, const Edges* edges, const DeviceLimits& limits);

/// The same, of tiles.
WeightsPlan plan_weight_tiles(const Problem& problem, const DeviceLimits& limits);

} // namespace histo::cuda
