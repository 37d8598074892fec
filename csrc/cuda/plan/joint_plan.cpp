#include "cuda/plan/joint_plan.h"

#include <algorithm>

#include "core/numbers.h"
#include "cuda/plan/common.h"

namespace histo::cuda {
namespace {

constexpr int64_t kWordsOfVec16 = kVec16Bytes / kCounterBytes;

bool is_aligned(const View& view) {
  return reinterpret_cast<uintptr_t>(view.data) %
             static_cast<uintptr_t>(bytes_of_type(view.type)) ==
         0;
}

// --- The types ---------------------------------------------------------------------------

bool is_narrow_float(ElementType type) {
  return !is_integer(type) && type != ElementType::kFloat64;
}
bool is_wide_integer(ElementType type) {
  return type == ElementType::kInt64 || type == ElementType::kUInt64;
}

/// Whether there is a kernel for coordinates of this type.
bool has_own_kernel(ElementType type, int axes, JointSamples samples) {
  switch (type) {
    case ElementType::kFloat32:
    case ElementType::kFloat64:
      return true;
    case ElementType::kFloat16:
    case ElementType::kBFloat16:
      return axes == 2;
    case ElementType::kUInt8:
    case ElementType::kInt32:
      return axes == 2 && samples == JointSamples::kSeparate;
    default:
      return false;
  }
}

std::optional<JointTypes> types_of(const Problem& problem, int axes, JointSamples samples) {
  bool same = true, mixed = axes == 2, wide = true;
  for (int d = 0; d < axes; ++d) {
    const ElementType type = problem.operand(d).type;
    same = same && type == problem.type;
    mixed = mixed && type != ElementType::kUInt64 && type != ElementType::kFloat64;
    wide = wide && !is_wide_integer(type);
  }
  if (same && has_own_kernel(problem.type, axes, samples)) {
    return JointTypes::kSame;
  }
  if (samples == JointSamples::kInterleaved) {
    return std::nullopt;
  }
  if (axes == 2 && problem.type == ElementType::kInt64 &&
      problem.operand(1).type == ElementType::kFloat32) {
    return JointTypes::kIds;
  }
  return mixed  ? std::optional(JointTypes::kMixed)
         : wide ? std::optional(JointTypes::kWide)
                : std::nullopt;
}

/// The bytes of a threshold of an axis.
int64_t threshold_bytes(ElementType type, JointTypes types) {
  return types != JointTypes::kWide && is_narrow_float(type) ? 4 : 8;
}

// --- How the elements lie ----------------------------------------------------------------

/// Whether rows of all coordinates follow each other without gaps, in long runs.
bool are_separate(const Problem& problem, int axes) {
  const int64_t run = problem.rows[2].size;
  for (int d = 0; d < axes; ++d) {
    const View& view = problem.operand(d);
    if ((view.rows[2].stride != 1 && run > 1) || !is_aligned(view)) {
      return false;
    }
  }
  return run == problem.num_rows() || run >= kShortestRun;
}

/// Whether the coordinates of an element are neighbours, in the order of the axes, and so are the
/// elements of a channel. A pack is aligned to vec16s.
bool are_interleaved(const Problem& problem, int axes) {
  const int64_t bytes = bytes_of_type(problem.type), point = bytes * axes;
  const auto begin = reinterpret_cast<uintptr_t>(problem.data);
  const auto is_whole = [&](const Extent& loop) {
    return loop.size == 1 || loop.stride * bytes % kVec16Bytes == 0;
  };
  for (int d = 0; d < axes; ++d) {
    const View& view = problem.operand(d);
    if (view.type != problem.type || view.rows[2].stride != axes ||
        reinterpret_cast<uintptr_t>(view.data) != begin + static_cast<uintptr_t>(d * bytes) ||
        view.channels[0].stride != problem.channels[0].stride ||
        view.channels[1].stride != problem.channels[1].stride) {
      return false;
    }
  }
  const int64_t alignment = point % 2 == 0 && kVec16Bytes % point == 0 ? point : bytes;
  const bool is_aligned = begin % static_cast<uintptr_t>(alignment) == 0;
  return problem.num_rows() == problem.rows[2].size && is_aligned &&
         is_whole(problem.channels[0]) && is_whole(problem.channels[1]);
}

std::optional<JointSamples> samples_of(const Problem& problem, int axes) {
  if (are_separate(problem, axes)) {
    return JointSamples::kSeparate;
  }
  return are_interleaved(problem, axes) ? std::optional(JointSamples::kInterleaved) : std::nullopt;
}

// --- The table ---------------------------------------------------------------------------

/// The slots of the last axis in a table: even, and no multiple of 4. So neither the cells of a
/// diagonal nor those of a column share few banks.
unsigned padded(unsigned slots) {
  const unsigned even = slots + slots % 2;
  return even % 4 == 0 ? even + 2 : even;
}

/// None if cells are 2^31 or more.
std::optional<JointCells> cells_of(const JointAxes& axes) {
  JointCells cells{};
  cells.axes = axes.count;
  cells.shows_flow = axes.flow.shown;
  double size = 1;
  for (int d = 0; d < axes.count; ++d) {
    const int64_t bins = axes.axes[d].edges.bins;
    if (bins >= kMostBinsOfJoint) {
      return std::nullopt;
    }
    cells.bins[d] = static_cast<unsigned>(bins);
    const unsigned slots = cells.bins[d] + 3;
    cells.slots[d] = d + 1 == axes.count ? padded(slots) : slots;
    size *= cells.slots[d];
  }
  return size < 0x1p31 ? std::optional(cells) : std::nullopt;
}

/// The memory for the bins of all axes.
int64_t axis_bytes(const Problem& problem, const JointCells& cells, JointTypes types, int buckets) {
  int64_t bytes = 0;
  for (int d = 0; d < cells.axes; ++d) {
    bytes +=
        words_of(int64_t{cells.bins[d]} + 3, 0u) * threshold_bytes(problem.operand(d).type, types) +
        buckets * int64_t{sizeof(uint32_t)};
  }
  return bytes;
}

/// Bytes of the coordinates of one element.
int64_t bytes_of_element(const Problem& problem, int axes) {
  int64_t bytes = 0;
  for (int d = 0; d < axes; ++d) {
    bytes += bytes_of_type(problem.operand(d).type);
  }
  return bytes;
}

int64_t table_bytes(const JointCells& cells, JointStorage storage) {
  return cells.words(storage) * kCounterBytes;
}

/// The storage of the joint table of a block that has `room` bytes. None if nothing fits.
std::optional<JointStorage> storage_of(
    const Problem& problem, const JointCells& cells, int64_t room) {
  const bool is_dense = problem.num_rows() * kMostCellsOfRow >= cells.size();
  for (const JointStorage storage : {JointStorage::kTable, JointStorage::kHalves}) {
    if (is_dense && table_bytes(cells, storage) <= room) {
      return storage;
    }
  }
  const bool indexes = takes_index(problem, cells.axes) && problem.num_channels() == 1 && room >= 0;
  return indexes ? std::optional(JointStorage::kIndex) : std::nullopt;
}

// --- The streams -------------------------------------------------------------------------

/// All rows of the operands, without blocks.
JointStreams operands_of(const Problem& problem, const JointCells& cells) {
  JointStreams in{};
  in.cells = cells;
  in.buckets = kBucketsOfJoint;
  for (int d = 0; d < cells.axes; ++d) {
    const View& view = problem.operand(d);
    const int64_t bytes = bytes_of_type(view.type);
    in.data[d] = view.data;
    in.types[d] = view.type;
    if (is_integer(view.type)) {
      visit_element_type(view.type, [&](auto tag) {
        using N = Number<typename decltype(tag)::type>;
        in.least[d] = static_cast<int64_t>(N::kFirst);
        in.last[d] = static_cast<int64_t>(N::kLast);
      });
    }
    for (int i = 0; i < 2; ++i) {
      in.channels[d][i] = in_bytes(view.channels[i], bytes);
      in.outer[d][i] = in_bytes(view.rows[i], bytes);
    }
  }
  in.run = problem.rows[2].size;
  in.num_rows = problem.num_rows();
  return in;
}

void set_blocks(const Problem& problem, const DeviceLimits& limits, JointPlan& plan) {
  JointStreams& in = plan.streams;
  const bool indexes = plan.storage == JointStorage::kIndex;
  // A table is cleared, written and read again.
  const int64_t setup = kSetupBytes + (indexes ? 0 : 3 * plan.shared_bytes);
  const int64_t of_first =
      setup * bytes_of_type(problem.type) / bytes_of_element(problem, in.cells.axes);
  const ChannelStreams streams = streams_of(problem, 1, limits, std::max<int64_t>(of_first, 1));
  // Each table of a channel must have enough rows, too.
  const int64_t most = std::max<int64_t>(in.num_rows * kMostCellsOfRowOfBlock / in.cells.size(), 1);
  in.share = std::max(streams.share, indexes ? 1 : ceil_div(in.num_rows, most));
  in.chunks = static_cast<unsigned>(ceil_div(in.num_rows, in.share));
  plan.blocks = problem.num_channels() * in.chunks;
  if (indexes) { // rows before the first vec16 of the first coordinate
    const int64_t rows = (kVec16Bytes - address_of(problem) % kVec16Bytes) % kVec16Bytes /
                         bytes_of_type(problem.type);
    plan.first_index = (kWordsOfVec16 - rows % kWordsOfVec16) % kWordsOfVec16;
    plan.index_words = ceil_div(plan.first_index + in.num_rows, kWordsOfVec16) * kWordsOfVec16;
  }
  const bool shares = !indexes && in.chunks > 1;
  plan.workspace_bytes =
      (shares ? plan.blocks * problem.num_bins : plan.index_words) * kCounterBytes;
}

} // namespace

bool takes_index(const Problem& problem, int axes) {
  const int64_t bytes = bytes_of_element(problem, axes);
  return problem.num_bins < int64_t{1} << 31 && bytes >= int64_t{sizeof(int32_t)} &&
         problem.num_channels() * problem.num_rows() * bytes >= kMinBytesOfJointIndex;
}

Problem problem_of_index(
    const void* bins, int64_t channels, int64_t rows, int64_t num_bins, int64_t* counts) {
  Problem of{};
  of.type = ElementType::kInt32;
  of.data = bins;
  of.channels[0] = {1, 0};
  of.channels[1] = {channels, rows};
  of.rows[0] = of.rows[1] = {1, 0};
  of.rows[2] = {rows, 1};
  of.num_bins = num_bins;
  of.counts = counts;
  return of;
}

std::optional<JointPlan> plan_joint(
    const Problem& problem, const JointAxes& axes, const DeviceLimits& limits) {
  const auto is_index = [](const JointAxis& axis) { return axis.is_index; };
  if (axes.count < 2 || std::any_of(axes.axes, axes.axes + axes.count, is_index) ||
      problem.num_rows() < kMinRowsOfJoint) {
    return std::nullopt;
  }
  const auto samples = samples_of(problem, axes.count);
  const auto cells = cells_of(axes);
  const auto types = samples ? types_of(problem, axes.count, *samples) : std::nullopt;
  if (!types || !cells) {
    return std::nullopt;
  }
  const int64_t beside = axis_bytes(problem, *cells, *types, kBucketsOfJoint);
  const auto storage =
      storage_of(problem, *cells, limits.shared_per_block - kDeclaredBytes - beside);
  if (!storage) {
    return std::nullopt;
  }
  JointPlan plan{};
  plan.samples = *samples;
  plan.types = *types;
  plan.storage = *storage;
  plan.streams = operands_of(problem, *cells);
  plan.shared_bytes = beside + table_bytes(*cells, *storage);
  set_blocks(problem, limits, plan);
  return plan;
}

} // namespace histo::cuda
