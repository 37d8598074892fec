#include "cpu/plan.h"

#include <algorithm>

#include "cpu/count/bit_planes.h"
#include "cpu/count/key_axis.h"
#include "cpu/count/matrix_products.h"
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

/// The facts that decide how an input is counted.
struct Facts {
  int64_t element_bytes;
  int64_t line;     // elements of a line of memory
  int64_t own_bins; // keys below it are bins
  int64_t workers;
  Extent channels; // the inner loops
  Extent rows;
  int64_t num_rows; // of all loops
  bool interleaved; // channels lie side by side
  bool multiplied;  // columns of bytes are counted by products

  explicit Facts(const Problem& problem)
      : element_bytes(size_of(problem.type)),
        line(kLineBytes / element_bytes),
        own_bins(own_bins_of(problem.type, problem.num_bins)),
        workers(workers_of(problem)),
        channels(problem.channels[1]),
        rows(problem.rows[2]),
        num_rows(problem.num_rows()),
        interleaved(channels.size > 1 && channels.stride < rows.stride),
        multiplied(
            interleaved && has_columns_of_bytes() && has_amx() &&
            channels.size >= kMinProductColumns && rows.size >= kMinProductRows) {
  }

  bool has_columns_of_bytes() const {
    return element_bytes == 1 && channels.stride == 1;
  }
  bool are_streams() const {
    return !interleaved || (!multiplied && channels.size <= kMaxStreams && rows.stride <= line);
  }
  bool have_bit_planes() const {
    return has_columns_of_bytes() && rows.size >= kMinPlaneRun && num_rows >= kMinPlaneRows &&
           foresees_stores() && has_bit_planes();
  }
};

Group group_of(int64_t indices, int64_t slots, int64_t tables, int64_t counter_bytes) {
  const int64_t step = counter_bytes == 4 ? kTableStepOf32Bits : kTableStep;
  const int64_t bytes = slots * indices * counter_bytes;
  return Group{indices, slots, tables, round_up(bytes - step, 4096) + step};
}

Counting counting_of(const Facts& facts, int64_t indices, bool streams) {
  if (indices > kMaxBinsOfSmallTables + 1) {
    return Counting::kStaged;
  }
  const bool narrow = facts.element_bytes == 1 && !streams ? stores_narrow() : foresees_stores();
  return narrow ? Counting::kIn16Bits : Counting::kIn32Bits;
}

// --- Streams

void choose_tables_of_16_bits(const Facts& facts, bool by_neighbours, Plan& plan) {
  const int64_t slots = facts.element_bytes == 1 ? kSlotsOfBytes : kSlotsOfIndices;
  plan.joint = by_neighbours;
  plan.few = by_neighbours ? group_of(kJointIndices, 1, 1, 2)
                           : group_of(plan.indices, 1, kTablesWhereValuesDiffer, 2);
  plan.many = group_of(plan.indices, slots, kCountersWhereValuesAgree / slots, 2);
}

/// `share`: how many elements a thread counts before it reduces its tables.
void choose_tables_of_32_bits(const Facts& facts, int64_t share, bool by_neighbours, Plan& plan) {
  const int64_t run = facts.rows.size;
  const bool dense_bytes = facts.element_bytes == 1 && facts.rows.stride == 1;
  plan.products = dense_bytes && has_amx() && share >= kMinProductElements && run >= kMinProductRun;
  if (plan.products) {
    plan.few = {kSums, 1, kProducts, kSums * 4};
    return;
  }
  plan.joint = by_neighbours && share >= kMinPairElements && run >= kMinPairRun;
  if (plan.joint) {
    plan.few = {kPairIndices, 1, kTablesOfPairs, kPairTableSize * 4};
  } else if (facts.element_bytes > 1) {
    plan.few = group_of(plan.indices, 1, kFewTablesOf32Bits, 4);
  }
  plan.many = group_of(plan.indices, 1, kTablesOf32Bits, 4);
}

void choose_staged_tables(Plan& plan) {
  plan.few = group_of(plan.indices, 1, 1, 2);
  plan.many = group_of(plan.indices + 1, kSlotsPerPair, 1, 4); // make_indices() has one index more
  if (plan.channel_bytes() > kMaxTableBytes) {
    plan.few = {}; // values that differ are counted as others are
  }
}

/// How many values have a counter of 8 bits.
int64_t byte_values_of(const Facts& facts, const Plan& plan, bool by_neighbours) {
  if (facts.interleaved || plan.products) {
    return 0;
  }
  if (plan.counting == Counting::kIn32Bits) {
    return by_neighbours ? kJointIndices : 0;
  }
  if (plan.counting == Counting::kIn16Bits || facts.rows.stride != 1 ||
      facts.own_bins > kMaxByteValues) {
    return 0;
  }
  int64_t values = 1;
  while (values < facts.own_bins) {
    values *= 2;
  }
  return values;
}

void plan_streams(const Problem& problem, const Facts& facts, Plan& plan) {
  const int64_t share = std::min(facts.num_rows, num_elements(problem) / facts.workers);
  const bool by_neighbours =
      facts.element_bytes == 1 && facts.rows.stride == 1 && share >= kMinJointElements;
  switch (plan.counting) {
    case Counting::kIn16Bits:
      choose_tables_of_16_bits(facts, by_neighbours, plan);
      break;
    case Counting::kIn32Bits:
      choose_tables_of_32_bits(facts, share, by_neighbours, plan);
      break;
    case Counting::kStaged:
      choose_staged_tables(plan);
      break;
  }
  const int64_t bytes = plan.channel_bytes();
  if (bytes > kMaxTableBytes || facts.rows.size < kMinStream) {
    return;
  }
  plan.way = Way::kStreams;
  plan.strip = std::min(facts.interleaved ? facts.channels.size : 1, kMaxTableBytes / bytes);
  plan.table_bytes = plan.strip * bytes;
  plan.byte_values = byte_values_of(facts, plan, by_neighbours);
  plan.tile_bytes = plan.byte_room();
  if (plan.counting == Counting::kStaged) {
    plan.tile_bytes += kStagedElements * 4;
  }
}

// --- Columns

/// All strips have the same number of whole groups.
void plan_bit_planes(const Facts& facts, Plan& plan) {
  const int64_t columns = facts.channels.size;
  const int64_t groups = ceil_div(columns, kPlaneColumns);
  const int64_t most = are_far(facts.rows.stride) ? kFarLines * kLineBytes : kLineBytes;
  const int64_t groups_of_strip = ceil_div(groups, ceil_div(columns, most));
  plan.way = Way::kBitPlanes;
  plan.strip = std::min(columns, groups_of_strip * kPlaneColumns);
  plan.few = group_of(plan.indices, kPlaneColumns, groups_of_strip, sizeof(int64_t));
  plan.table_bytes = plan.few.bytes();
  plan.tile_bytes = kPlaneScratchBytes;
}

/// All strips have the same number of whole lines. Threads share a strip that has many rows.
void plan_products(const Facts& facts, Plan& plan) {
  const int64_t columns = facts.channels.size;
  const int64_t lines = ceil_div(columns, kLineBytes);
  const int64_t alone = facts.rows.size < kMinSharedProductRows ? facts.workers : 1;
  const int64_t most = are_far(facts.rows.stride) ? kMaxFarProductColumns : kMaxProductColumns;
  const int64_t strips = std::max(ceil_div(columns, most), alone);
  plan.way = Way::kProducts;
  plan.strip = std::min(columns, ceil_div(lines, strips) * kLineBytes);
  plan.few = {kSums, 1, round_up(plan.strip, kProductColumns), kSums * 4};
  plan.table_bytes = plan.few.bytes();
  plan.tile_bytes = kProductScratchBytes;
}

/// The loop over tables takes whole turns. Nobody reads the slots without a channel.
void plan_columns(Plan& plan) {
  if (plan.counting == Counting::kStaged) {
    return;
  }
  if (plan.counting == Counting::kIn32Bits) {
    plan.few = group_of(plan.indices, 1, round_up(plan.strip, kTablesOf32Bits), 4);
  } else {
    const int64_t pairs = ceil_div(plan.strip, kSlotsPerPair);
    plan.few = group_of(plan.indices, kSlotsPerPair, round_up(pairs, kPairsWhereValuesAgree), 2);
  }
  plan.table_bytes = plan.few.bytes();
  if (plan.table_bytes <= kMaxTableBytes) {
    plan.way = Way::kColumns;
    plan.tile_bytes = kTileRows * kLineBytes;
  }
}

Problem without_gaps(const Problem& problem) {
  Problem dense = problem;
  const bool side_by_side =
      problem.channels[1].size > 1 && problem.channels[1].stride < problem.rows[2].stride;
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

Plan plan_of(const Problem& problem) {
  const Facts facts(problem);
  Plan plan{};
  plan.way = Way::kDirect;
  plan.strip = facts.interleaved ? std::min(facts.channels.size, facts.line) : 1;
  if (facts.num_rows < kMinRowsPerIndex * std::min<int64_t>(problem.num_bins, 256)) {
    return plan; // and no number below can overflow
  }
  plan.indices = facts.element_bytes == 1 ? 256 : facts.own_bins + 1;
  if (plan.indices > kMaxTableBytes || facts.num_rows < kMinRowsPerIndex * plan.indices) {
    return plan;
  }
  const bool streams = facts.are_streams();
  plan.counting = counting_of(facts, plan.indices, streams);
  if (streams) {
    plan_streams(problem, facts, plan);
  } else if (facts.have_bit_planes()) {
    plan_bit_planes(facts, plan);
  } else if (facts.multiplied) {
    plan_products(facts, plan);
  } else {
    plan_columns(plan);
  }
  return plan;
}

Plan plan_of_keys(const Problem& keys) {
  return plan_of(without_gaps(keys));
}

} // namespace histo::cpu
