#include "cuda/plan/weights_plan.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <optional>

#include "cuda/plan/common.h"
#include "cuda/plan/facts.h"
#include "cuda/plan/planners.h"

namespace histo::cuda {
namespace {

constexpr int64_t kWarp = 32;

Extent scaled(const Extent& loop, int64_t bytes) {
  return {loop.size, loop.stride * bytes};
}

TileOperand in_tiles(const View& view) {
  const int64_t bytes = bytes_of_type(view.type);
  TileOperand operand{};
  operand.data = const_cast<void*>(view.data);
  operand.type = view.type;
  for (int i = 0; i < 2; ++i) {
    operand.channels[i] = scaled(view.channels[i], bytes);
  }
  for (int i = 0; i < 3; ++i) {
    operand.rows[i] = scaled(view.rows[i], bytes);
  }
  return operand;
}

/// Tables of a type of weights: with words for all bits of a sum, and a window of them.
struct Tables {
  WordTable all;
  WordTable window;
};
Tables tables_of(ElementType weight) {
  constexpr int kFloat16Bias = 125; // 2^-24 among the bits of float32
  const auto whole = [](unsigned words, int bias, int origin, bool samples) {
    return WordTable{words, 0, bias, origin, bias, samples, 0, 0};
  };
  const auto both = [](WordTable all, unsigned window) {
    WordTable some = all;
    some.words = window;
    some.samples = window < all.words || all.samples;
    return Tables{all, some};
  };
  switch (weight) {
    case ElementType::kFloat64:
      return both(whole(67, 0, 0, false), kWindowOfFloat64);
    case ElementType::kFloat32:
      return both(whole(10, 0, 0, false), kWindowOfFloat32);
    case ElementType::kBFloat16: // words begin at any bit, so there is one more
      return both(whole(11, 0, 0, true), kWindowOfBFloat16);
    case ElementType::kFloat16:
    case ElementType::kFloat8E4M3:
    case ElementType::kFloat8E5M2: // the word below the lowest one has bits of float32 that are 0
      return both(whole(4, kFloat16Bias, kFloat16Bias - kDigitBits, false), 4);
    default:
      return both(whole(2, 0, 0, false), 2);
  }
}

/// The memory of a block beside its table of sums.
struct AxisMemory {
  bool has_edges;
  int64_t bins;
  int64_t wide_bytes; // of a threshold

  AxisMemory(const Problem& problem, const Edges* edges)
      : has_edges(edges != nullptr), bins(has_edges ? edges->bins : problem.num_bins) {
    wide_bytes = value_kind(problem.type) == WordKind::kFloat32 ? 4 : 8;
  }
  int64_t slots(int64_t of_bins) const {
    return of_bins + (has_edges ? 3 : 1);
  }
  int64_t bytes(int64_t of_bins, int64_t buckets) const {
    return has_edges ? words_of(slots(of_bins), 0u) * wide_bytes + buckets * 4 : 0;
  }
};

/// The table with most copies that fits; none if not even one does. Few weights need few copies.
std::optional<WordTable> fitting(
    WordTable table, int64_t slots, int64_t rows, unsigned most_log_copies, int64_t room) {
  const auto fits = [&](unsigned log_copies) {
    return (slots * table.words << log_copies) * 4 + 16 <= room;
  };
  if (!fits(0)) {
    return std::nullopt;
  }
  while (table.log_copies < most_log_copies && fits(table.log_copies + 1) &&
         slots * table.words << table.log_copies <= rows * kWordsPerWeight) {
    ++table.log_copies;
  }
  table.set_copies(table.log_copies);
  return table;
}

/// All bits, if there is room for 2^fewest_log_copies copies, or else a window.
std::optional<WordTable> table_of(
    ElementType weight, int64_t slots, int64_t rows, int64_t room, unsigned fewest_log_copies) {
  const Tables tables = tables_of(weight);
  const auto all = fitting(tables.all, slots, rows, kMostLogCopiesOfAll, room);
  if (all && (slots * tables.all.words << fewest_log_copies) * 4 + 16 <= room) {
    return all;
  }
  const auto window = fitting(tables.window, slots, rows, kMostLogCopiesOfWindow, room);
  return window ? window : all;
}

bool takes_streams(const Problem& problem, const Edges* edges) {
  const bool is_wide = value_kind(problem.type) == WordKind::kInteger;
  return problem.num_rows() >= kMinRowsOfStream && !(edges != nullptr && is_wide);
}

/// Streams of values, and the weights beside them.
WeightStreams with_weights(
    const EdgeStreams& values, const Problem& problem, const WordTable& table, bool writes) {
  WeightStreams in{};
  static_cast<EdgeStreams&>(in) = values;
  in.table = table;
  in.writes = writes;
  const View& weights = problem.operand(1);
  const Extent& run = problem.rows[2];
  // Weights read shorter runs in packs, too.
  in.has_runs = in.has_runs || (run.stride == 1 && run.size >= kShortestRunOfWeights &&
                                address_of(problem) % bytes_of_type(problem.type) == 0);
  std::copy(std::begin(weights.channels), std::end(weights.channels), in.weight_channels);
  std::copy(std::begin(weights.rows), std::end(weights.rows), in.weight_rows);
  in.turns = in.has_runs && in.rows[2].size == in.num_rows ? in.chunks : 1;
  return in;
}

/// The shared memory of one of several blocks of an SM.
int64_t room_of(int64_t blocks, const DeviceLimits& limits) {
  const int64_t share = limits.shared_per_sm / blocks - kReservedBytes;
  return std::min(limits.shared_per_block, share) - kDeclaredBytes;
}

/// Many short channels: a block has a channel and writes its result. Several blocks share an SM, so
/// that one reads while another sets out its table or writes it.
std::optional<WeightsPlan> plan_short_streams(
    const Problem& problem, const Edges* edges, const DeviceLimits& limits) {
  const WordTable all = tables_of(problem.operand(1).type).all;
  if (problem.num_channels() < kFewestShortOfSm * limits.sm_count ||
      all.words > kMostWordsToWrite || problem.num_rows() > kMostRowsOfShortWeights) {
    return std::nullopt;
  }
  const AxisMemory axis(problem, edges);
  const int64_t slots = axis.slots(axis.bins);
  const int64_t beside = axis.bytes(axis.bins, kFewestBucketsOfWeights) +
                         slots * kNumNonFinite * int64_t{sizeof(unsigned)};
  for (int64_t blocks = kMostShortOfSm; blocks > 0; blocks /= 2) {
    const int64_t room = room_of(blocks, limits) - beside;
    const auto table = fitting(all, slots, problem.num_rows(), kMostLogCopiesOfAll, room);
    if (!table || (slots * all.words << kFewestLogCopiesOfShort) * 4 + 16 > room) {
      continue;
    }
    EdgeStreams in{streams_of(problem, 1, limits), 1, axis.bins, 0, kFewestBucketsOfWeights, false};
    in.set_share(in.num_rows);
    return WeightsPlan{
        with_weights(in, problem, *table, true), problem.num_channels(),
        static_cast<int>(kThreadsOfWeights / blocks),
        beside + table->size(static_cast<unsigned>(slots)) * int64_t{4}};
  }
  return std::nullopt;
}

std::optional<WeightsPlan> plan_streams(
    const Problem& problem, const Edges* edges, const DeviceLimits& limits) {
  if (!takes_streams(problem, edges)) {
    return std::nullopt;
  }
  if (const auto found = plan_short_streams(problem, edges, limits)) {
    return found;
  }
  const View& weights = problem.operand(1);
  const AxisMemory axis(problem, edges);
  const int64_t room = limits.shared_per_block - kDeclaredBytes;
  const int64_t rows = problem.num_rows() * problem.num_channels() / limits.sm_count;
  for (int64_t parts = 1; parts <= (edges != nullptr ? kMaxParts : 1); ++parts) {
    const int64_t of_part = ceil_div(axis.bins, parts);
    const auto table = table_of(
        weights.type, axis.slots(of_part), std::min(rows, problem.num_rows()),
        room - axis.bytes(of_part, kFewestBucketsOfWeights), kFewestLogCopiesOfAll);
    if (!table) {
      continue;
    }
    const int64_t bytes = table->size(static_cast<unsigned>(axis.slots(of_part))) * int64_t{4};
    EdgeStreams in{
        streams_of(problem, parts, limits, kSetupBytes + bytes),
        static_cast<unsigned>(parts),
        of_part,
        0,
        kFewestBucketsOfWeights,
        false};
    while (in.buckets < kFewestBuckets && axis.bytes(of_part, 2 * in.buckets) + bytes <= room) {
      in.buckets *= 2;
    }
    return WeightsPlan{
        with_weights(in, problem, *table, false), problem.num_channels() * in.chunks * parts,
        kThreadsOfWeights, axis.bytes(of_part, in.buckets) + bytes};
  }
  return std::nullopt;
}

/// Whether the weights lie as the values do, so that dense rows may be joined.
bool lie_alike(const Problem& problem) {
  const View& weights = problem.operand(1);
  const auto same = [](const Extent& a, const Extent& b) {
    return a.size == 1 || a.stride == b.stride;
  };
  return same(problem.channels[0], weights.channels[0]) &&
         same(problem.channels[1], weights.channels[1]) && same(problem.rows[2], weights.rows[2]);
}

/// There are kernels for columns of some types.
bool takes_columns(const Problem& problem, const Edges* edges) {
  const WordKind weight = word_kind(problem.operand(1).type);
  if (edges == nullptr) {
    return weight != WordKind::kFloat64;
  }
  const WordKind value = value_kind(problem.type);
  return value == WordKind::kFloat32 ? weight != WordKind::kFloat64
                                     : value == WordKind::kFloat64 && weight == WordKind::kFloat64;
}

/// Whether rows of float32 are vec16s of both operands, or columns share a weight.
bool are_vec16s(const Problem& problem, const WeightColumns& in) {
  constexpr int64_t kOfVec16 = 4;
  const View& weights = problem.operand(1);
  const auto are = [](const void* data, std::initializer_list<int64_t> strides) {
    return reinterpret_cast<uintptr_t>(data) % kVec16Bytes == 0 &&
           std::all_of(strides.begin(), strides.end(), [](int64_t n) { return n % kOfVec16 == 0; });
  };
  return problem.type == ElementType::kFloat32 && weights.type == ElementType::kFloat32 &&
         are(problem.data, {in.batch_stride, in.row_stride, in.columns, in.left}) &&
         (in.weight_column == 0 ||
          (in.weight_column == 1 && are(weights.data, {in.weight_batch, in.weight_row})));
}

std::optional<WeightsPlan> plan_columns(
    const Problem& problem, const Edges* edges, const DeviceLimits& limits) {
  const int64_t element_bytes = bytes_of_type(problem.type);
  if (!takes_columns(problem, edges) || !are_columns(problem, element_bytes) ||
      problem.num_channels() * problem.num_rows() < kFewestElementsOfColumns) {
    return std::nullopt;
  }
  const AxisMemory axis(problem, edges);
  const int64_t of_axis =
      axis.has_edges ? (axis.bins + 1) * kColumnsOfWeights * axis.wide_bytes + 16 : 0;
  const int64_t room = limits.shared_per_block - kDeclaredBytes - of_axis;
  const View& weights = problem.operand(1);
  const Tables tables = tables_of(weights.type);
  const unsigned log_columns = log2_of(kColumnsOfWeights);
  WordTable table = tables.all;
  table.set_copies(log_columns);
  const auto slots = static_cast<unsigned>(axis.slots(std::min<int64_t>(axis.bins, 1 << 20)));
  if (table.size(slots) * int64_t{4} > room) {
    table = tables.window;
    table.set_copies(log_columns);
  }
  const int64_t bytes = table.size(slots) * int64_t{4};
  if (bytes > room) {
    return std::nullopt;
  }
  WeightColumns in{};
  static_cast<ChannelColumns&>(in) = columns_of(
      problem, element_bytes, log_columns, kSetupBytes + 3 * bytes, limits, lie_alike(problem));
  in.word_bytes = static_cast<unsigned>(axis.wide_bytes);
  in.weight_batch = weights.channels[0].stride;
  in.weight_row = in.row_stride == problem.rows[2].stride ? weights.rows[2].stride : in.row_stride;
  in.weight_column = weights.channels[1].stride;
  in.in_vec16s = are_vec16s(problem, in);
  in.table = table;
  const WeightsPlan plan{in, in.blocks(), kThreadsOfMixedWeights, of_axis + bytes};
  const bool is_worth = in.rows * kColumnsOfWeights >= slots * kFewestRowsOfColumns;
  return is_worth ? std::optional(plan) : std::nullopt;
}

/// `layout`, and what a table adds to it.
Facts with_table(Facts layout, const WordTable& table, int sum_digits) {
  layout.emplace_back("words", table.words);
  layout.emplace_back("copies", 1 << table.log_copies);
  layout.emplace_back("has_all_digits", table.words >= static_cast<unsigned>(sum_digits));
  return layout;
}

Facts facts_of_layout(const WeightStreams& in, int sum_digits) {
  const Facts layout{{"layout", "streams"}, {"parts", in.parts}, {"chunks", in.chunks}};
  return with_table(layout, in.table, sum_digits);
}
Facts facts_of_layout(const WeightColumns& in, int sum_digits) {
  return with_table({{"layout", "columns"}, {"chunks", in.chunks}}, in.table, sum_digits);
}
Facts facts_of_layout(const WeightTiles&, int) {
  return {{"layout", "tiles"}};
}

} // namespace

WeightsPlan plan_weight_tiles(const Problem& problem, const DeviceLimits& limits) {
  const int64_t bytes = bytes_of_type(problem.type);
  const TableEntries entries{bytes, problem.num_bins, false};
  const CountPlan tiles = plan_generic_in_result({problem, entries, limits});
  WeightTiles in{};
  in.tiles = std::get<Generic>(tiles.layout);
  in.tiles.vec16s = false;
  for (Extent* loop :
       {&in.tiles.channels[0], &in.tiles.channels[1], &in.tiles.rows[0], &in.tiles.rows[1]}) {
    loop->stride *= bytes;
  }
  in.tiles.set_stride *= bytes;
  in.other = in_tiles(problem.operand(1));
  in.value_bytes = static_cast<unsigned>(bytes);
  in.other_bytes = static_cast<unsigned>(bytes_of_type(problem.operand(1).type));
  return {in, tiles.blocks, tiles.threads, 0};
}

int64_t teams_of_weights(const WeightStreams& in, int64_t threads, int64_t pack_size) {
  const int64_t run = in.rows[2].size, warps = threads / kWarp;
  if (!in.has_runs || in.turns > 1 || run >= in.share) {
    return 1;
  }
  const int64_t runs = ceil_div(in.share, run);
  const int64_t steps_of_block = runs * ceil_div(run, threads * pack_size);
  const int64_t steps_of_warp = ceil_div(runs, warps) * ceil_div(run, kWarp * pack_size);
  return steps_of_warp < steps_of_block ? warps : 1;
}

WordKind word_kind(ElementType weight) {
  return is_integer(weight)                ? WordKind::kInteger
         : weight == ElementType::kFloat64 ? WordKind::kFloat64
                                           : WordKind::kFloat32;
}

WordKind value_kind(ElementType value) {
  const bool is_small = value != ElementType::kInt64 && value != ElementType::kUInt64;
  return !is_integer(value) && value != ElementType::kFloat64 ? WordKind::kFloat32
         : is_small                                           ? WordKind::kFloat64
                                                              : WordKind::kInteger;
}

WeightsPlan plan_weights(const Problem& problem, const Edges* edges, const DeviceLimits& limits) {
  if (const auto columns = plan_columns(problem, edges, limits)) {
    return *columns;
  }
  const auto streams = plan_streams(problem, edges, limits);
  return streams ? *streams : plan_weight_tiles(problem, limits);
}

Facts facts_of(const WeightsPlan& plan, int sum_digits) {
  Facts facts{{"blocks", plan.blocks}, {"shared_bytes", plan.shared_bytes}};
  const Facts of_layout =
      std::visit([&](const auto& in) { return facts_of_layout(in, sum_digits); }, plan.layout);
  facts.insert(facts.end(), of_layout.begin(), of_layout.end());
  return facts;
}

} // namespace histo::cuda
