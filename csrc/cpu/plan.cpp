#include "cpu/plan.h"

#include <algorithm>

#include "cpu/count/panel.h"
#include "cpu/count/pattern_axis.h"
#include "cpu/count/vectorized.h"
#include "cpu/processor.h"
#include "cpu/threads.h"

namespace histo::cpu {

using namespace tuning;

namespace {

int64_t round_up(int64_t size, int64_t multiple) {
  return ceil_div(size, multiple) * multiple;
}

int64_t num_elements(const Problem& problem) {
  return problem.num_channels() * problem.num_rows();
}

/// What decides how an input is counted.
struct InputTraits {
  int64_t element_bytes;
  int64_t line;     // elements of a line of memory
  int64_t own_bins; // patterns below it are bins
  int64_t workers;
  Extent channels; // the inner loops
  Extent rows;
  int64_t num_rows; // of all loops
  bool interleaved; // channels lie side by side

  explicit InputTraits(const Problem& problem)
      : element_bytes(size_of(problem.type)),
        line(kLineBytes / element_bytes),
        own_bins(own_bins_of(problem.type, problem.num_bins)),
        workers(workers_of(problem)),
        channels(problem.channels[1]),
        rows(problem.rows[2]),
        num_rows(problem.num_rows()),
        interleaved(are_side_by_side(channels, rows)) {
  }

  bool are_streams() const {
    return !interleaved || (channels.size <= kMaxStreams && rows.stride <= line);
  }
};

Group group_of(int64_t indices, int64_t lanes, int64_t tables, int64_t counter_bytes) {
  const int64_t step = counter_bytes == 4 ? kTableStepOf32Bits : kTableStep;
  const int64_t bytes = lanes * indices * counter_bytes;
  return Group{indices, lanes, tables, round_up(bytes - step, 4096) + step};
}

Counting counting_of(const InputTraits& input, int64_t indices, bool streams) {
  if (indices > kMaxBinsOfSmallTables + 1) {
    return Counting::kIndexed;
  }
  const bool narrow =
      input.element_bytes == 1 && !streams ? forwards_16_bit_stores() : disambiguates_memory();
  return narrow ? Counting::kIn16Bits : Counting::kIn32Bits;
}

// --- Streams

void choose_tables_of_16_bits(const InputTraits& input, bool by_neighbours, CpuPlan& plan) {
  const int64_t lanes = input.element_bytes == 1 ? kLanesOfBytes : kLanesOfIndices;
  plan.joint = by_neighbours;
  plan.tables_if_distinct = by_neighbours ? group_of(kJointIndices, 1, 1, 2)
                                          : group_of(plan.indices, 1, kTablesIfDistinct, 2);
  plan.tables_if_repeated = group_of(plan.indices, lanes, kCountersIfRepeated / lanes, 2);
}

/// `share`: how many elements a thread counts before it reduces its tables.
void choose_tables_of_32_bits(
    const InputTraits& input, int64_t share, bool by_neighbours, CpuPlan& plan) {
  plan.joint = by_neighbours && share >= kMinPairElements && input.rows.size >= kMinPairRun;
  if (plan.joint) {
    plan.tables_if_distinct = {kPairIndices, 1, kTablesOfPairs, kPairTableSize * 4};
  } else if (input.element_bytes > 1) {
    plan.tables_if_distinct = group_of(plan.indices, 1, kTablesOf32BitsIfDistinct, 4);
  }
  plan.tables_if_repeated = group_of(plan.indices, 1, kTablesOf32Bits, 4);
}

void choose_indexed_tables(CpuPlan& plan) {
  plan.tables_if_distinct = group_of(plan.indices, 1, 1, 2);
  plan.tables_if_repeated =
      group_of(plan.indices + 1, kLanesPerPair, 1, 4); // make_indices() has one index more
  if (plan.channel_bytes() > kMaxTableBytes) {
    plan.tables_if_distinct = {}; // values that differ are counted as others are
  }
}

/// How many values have a counter of 8 bits.
int64_t byte_values_of(const InputTraits& input, const CpuPlan& plan, bool by_neighbours) {
  if (input.interleaved) {
    return 0;
  }
  if (plan.counting == Counting::kIn32Bits) {
    return by_neighbours ? kJointIndices : 0;
  }
  if (plan.counting == Counting::kIn16Bits || input.rows.stride != 1 ||
      input.own_bins > kMaxByteValues) {
    return 0;
  }
  int64_t values = 1;
  while (values < input.own_bins) {
    values *= 2;
  }
  return values;
}

void plan_streams(const Problem& problem, const InputTraits& input, CpuPlan& plan) {
  const int64_t share = std::min(input.num_rows, num_elements(problem) / input.workers);
  const bool by_neighbours =
      input.element_bytes == 1 && input.rows.stride == 1 && share >= kMinJointElements;
  switch (plan.counting) {
    case Counting::kIn16Bits:
      choose_tables_of_16_bits(input, by_neighbours, plan);
      break;
    case Counting::kIn32Bits:
      choose_tables_of_32_bits(input, share, by_neighbours, plan);
      break;
    case Counting::kIndexed:
      choose_indexed_tables(plan);
      break;
  }
  const int64_t bytes = plan.channel_bytes();
  if (bytes > kMaxTableBytes || input.rows.size < kMinStream) {
    return;
  }
  plan.way = Way::kStreams;
  plan.strip = std::min(input.interleaved ? input.channels.size : 1, kMaxTableBytes / bytes);
  plan.table_bytes = plan.strip * bytes;
  plan.byte_values = byte_values_of(input, plan, by_neighbours);
  plan.tile_bytes = plan.byte_room();
  if (plan.counting == Counting::kIndexed) {
    plan.tile_bytes += kIndexedElements * 4;
  }
}

// --- Columns

/// The loop over tables takes whole turns. Nobody reads the lanes without a channel.
void plan_columns(CpuPlan& plan) {
  if (plan.counting == Counting::kIndexed) {
    return;
  }
  if (plan.counting == Counting::kIn32Bits) {
    plan.tables_if_distinct = group_of(plan.indices, 1, round_up(plan.strip, kTablesOf32Bits), 4);
  } else {
    const int64_t pairs = ceil_div(plan.strip, kLanesPerPair);
    plan.tables_if_distinct =
        group_of(plan.indices, kLanesPerPair, round_up(pairs, kPairsIfRepeated), 2);
  }
  plan.table_bytes = plan.tables_if_distinct.bytes();
  if (plan.table_bytes <= kMaxTableBytes) {
    plan.way = Way::kColumns;
    plan.tile_bytes = kTileRows * kLineBytes;
  }
}

Problem without_gaps(const Problem& problem) {
  Problem dense = problem;
  const bool side_by_side = are_side_by_side(problem.channels[1], problem.rows[2]);
  int64_t stride = 1;
  const auto close = [&](Extent& loop) {
    loop.stride = loop.size == 1 ? 0 : stride;
    stride *= loop.size;
  };
  if (side_by_side) {
    close(dense.channels[1]);
  }
  for (int loop = 2; loop >= 0; --loop) {
    close(dense.rows[loop]);
  }
  if (!side_by_side) {
    close(dense.channels[1]);
  }
  close(dense.channels[0]);
  return dense;
}

} // namespace

int64_t size_of(ElementType type) {
  return visit_element_type(
      type, [](auto tag) { return static_cast<int64_t>(sizeof(typename decltype(tag)::type)); });
}

int64_t workers_of(const Problem& problem) {
  return std::clamp<int64_t>(num_elements(problem) / kMinElementsPerThread, 1, num_threads());
}

CpuPlan plan_of(const Problem& problem) {
  const InputTraits input(problem);
  CpuPlan plan{};
  plan.way = Way::kDirect;
  plan.strip = input.interleaved ? std::min(input.channels.size, input.line) : 1;
  // With few rows, clearing and reducing tables takes longer than counting in them.
  if (input.num_rows < std::min<int64_t>(problem.num_bins, 256)) {
    return plan; // and no number below can overflow
  }
  plan.indices = input.element_bytes == 1 ? 256 : input.own_bins + 1;
  if (plan.indices > kMaxTableBytes || input.num_rows < plan.indices) {
    return plan;
  }
  const bool streams = input.are_streams();
  plan.counting = counting_of(input, plan.indices, streams);
  if (streams) {
    plan_streams(problem, input, plan);
  } else {
    plan_columns(plan);
  }
  return plan;
}

CpuPlan plan_of_slots(const Problem& slots) {
  return plan_of(without_gaps(slots));
}

} // namespace histo::cpu
