// How a GPU counts numbers between edges: the plan, made on the host from the problem and the
// limits of the device alone.
#pragma once

#include <variant>

#include "core/edges.h"
#include "cuda/plan/channels.h"
#include "cuda/plan/layouts.h"
#include "cuda/plan/teams.h"

namespace histo::cuda {

/// The word of a slot or of a threshold in shared memory, among 2^log_copies copies of each. A word
/// is left out every few slots. Otherwise slots a power of two apart would share a bank, and data
/// often hold such values.
template <class N>
HISTO_HOST_DEVICE constexpr N word_of(N slot, unsigned log_copies) {
  const N slots_of_banks = static_cast<N>(kBanks) >> log_copies;
  return (slots_of_banks == 1 ? slot : slot + slot / slots_of_banks) << log_copies;
}

/// Words for so many slots, rounded up to a multiple of 4: what follows is then aligned to 16 bytes.
template <class N>
HISTO_HOST_DEVICE constexpr N words_of(N slots, unsigned log_copies) {
  return (word_of(slots, log_copies) + 3) / 4 * 4;
}

/// A block counts rows of one channel in all its bins, or in a part of them if they are too many
/// for one table.
struct EdgeStreams : ChannelStreams {
  unsigned parts; // each has a block for each chunk of the rows
  int64_t part_bins;
  unsigned log_copies; // of the table and of the thresholds, which lanes take in turns
  int32_t buckets;     // a power of two; they find thresholds if no line does
  bool adds;           // counts hold numbers: those of other blocks, or of other calls

  HISTO_HOST_DEVICE Edges part(const Edges& edges, unsigned index) const {
    const int64_t first_bin = index * part_bins, left = edges.bins - first_bin;
    return edges.part(first_bin, part_bins < left ? part_bins : left);
  }
};

/// Teams count channels in all their bins. The channels share their edges or, if edges are computed,
/// have their own.
struct EdgeTeams : ChannelTeams {
  int32_t buckets; // as EdgeStreams has them; none if edges are computed
  bool adds;       // as EdgeStreams has it
};

/// Memory for the bins of all columns, which a kernel of its own finds. `parts` of the edges of a
/// column are checked by different blocks.
struct ColumnMemory {
  int64_t stripes; // of all batches, or one if channels share their edges
  int64_t parts;
  int64_t line_bytes;
  int64_t threshold_bytes;
  int64_t check_bytes;

  int64_t bytes() const {
    return line_bytes + threshold_bytes + check_bytes;
  }
  /// The edges of a part, if a stripe has `width` columns.
  HISTO_HOST_DEVICE static unsigned edges_of_part(unsigned width) {
    return kEdgesOfThread * kThreadsOfFoundColumns / width;
  }
  static ColumnMemory of(const ChannelColumns& in, const Edges& edges, ElementType type);
};

/// A block counts stripes of columns one after another. Its table is small, so that a
/// multiprocessor has several blocks. Channels share their edges, or edges are computed.
struct EdgeStripes : ChannelColumns {
  unsigned log_lanes; // of a table: columns have several lanes if a stripe has fewer words
  bool adds;          // counts hold numbers: those of other blocks, or of other calls
  unsigned works;     // the chunks of all stripes
};

/// Types of one byte: raw bytes are counted, and their sums mapped to bins.
struct EdgeBytes {
  bool of_warps; // a warp maps the sums of a channel, and not a block
};

constexpr int kThreadsOfBytes = 256;

/// ChannelColumns have large tables, and a kernel of their own finds their bins. Generic counts few
/// rows, or more bins than a table of streams has.
struct EdgePlan {
  std::variant<EdgeBytes, EdgeTeams, EdgeStreams, ChannelColumns, EdgeStripes, Generic> layout;
  int64_t blocks;
  int threads;
  int64_t shared_bytes;
  bool clears;   // the counts are cleared by a kernel of their own, because blocks add to them
  bool overlaps; // the count starts before that kernel ends

  /// Whether a kernel of its own asks which channels have valid edges.
  bool checks_channels() const {
    const auto* streams = std::get_if<EdgeStreams>(&layout);
    const auto* tiles = std::get_if<Generic>(&layout);
    return (streams != nullptr && streams->parts > 1) || (tiles != nullptr && !tiles->has_table());
  }
};

EdgePlan plan_edges(const Problem& problem, const Edges& edges, const DeviceLimits& limits);

/// The plan of columns whose bins have one width between ranges of their own; none if they are not
/// counted in stripes.
std::optional<EdgePlan> plan_own_stripes(
    const Problem& problem, int64_t bins, const DeviceLimits& limits);

/// The plan of channels that lie one after another and have bins of one width in ranges of their
/// own; none if they do not fit.
std::optional<EdgePlan> plan_own_rows(
    const Problem& problem, int64_t bins, const DeviceLimits& limits);

} // namespace histo::cuda
