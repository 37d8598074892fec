#include "plan.h"

#include <pthread.h>

#include <torch/csrc/stable/ops.h>

#include "bit_planes.h"
#include "matrix_products.h"
#include "vectorized.h"

namespace histo::cpu {

using namespace tuning;

namespace {

// The threads of a parent do not live in its child, and their pool would wait for them.
bool in_forked_child = false;
[[maybe_unused]] const int watches_forks =
    pthread_atfork(nullptr, nullptr, [] { in_forked_child = true; });

int64_t round_up(int64_t size, int64_t unit) {
  return ceil_div(size, unit) * unit;
}

int64_t num_elements(const Problem& problem) {
  return problem.num_channels() * problem.num_rows();
}

} // namespace

int64_t size_of(ElementType type) {
  return visit_element_type(
      type, [](auto tag) { return static_cast<int64_t>(sizeof(typename decltype(tag)::type)); });
}

int64_t workers_of(const Problem& problem) {
  return std::clamp<int64_t>(num_elements(problem) / kMinElementsPerThread, 1, num_threads());
}

int64_t num_threads() {
  return in_forked_child ? 1 : static_cast<int64_t>(torch::stable::get_num_threads());
}

Plan plan_of(const Problem& problem) {
  const Extent& channels = problem.channels[1];
  const Extent& rows = problem.rows[2];
  const int64_t size = size_of(problem.type);
  const int64_t line = kLineBytes / size;
  const bool interleaved = channels.size > 1 && channels.stride < rows.stride;
  Plan plan{};
  plan.way = Way::kDirect;
  plan.strip = interleaved ? std::min(channels.size, line) : 1;
  if (problem.num_rows() < kMinRowsPerIndex * std::min<int64_t>(problem.num_bins, 256)) {
    return plan; // and no number below can overflow
  }
  plan.indices = size == 1 ? 256 : problem.num_bins + 1;
  if (plan.indices > kMaxTableBytes || problem.num_rows() < kMinRowsPerIndex * plan.indices) {
    return plan;
  }
  const bool wide = plan.indices > kMaxBinsOfSmallTables + 1;
  const bool multiplied = interleaved && size == 1 && channels.stride == 1 && has_amx() &&
                          channels.size >= kMinProductColumns && rows.size >= kMinProductRows;
  const bool streams =
      !interleaved || (!multiplied && channels.size <= kMaxStreams && rows.stride <= line);
  const bool narrow = size == 1 && !streams ? stores_narrow() : foresees_stores();
  const bool in_32_bits = !wide && !narrow;
  plan.counting = wide ? Counting::kStaged : in_32_bits ? Counting::kIn32Bits : Counting::kIn16Bits;
  const int64_t step = in_32_bits ? kTableStepOf32Bits : kTableStep;
  const auto group_of = [=](int64_t indices, int64_t slots, int64_t tables, int64_t counter) {
    const int64_t bytes = slots * indices * counter;
    return Group{indices, slots, tables, round_up(bytes - step, 4096) + step};
  };
  if (streams) {
    // A thread counts so many elements before it reduces its tables.
    const int64_t share = std::min(problem.num_rows(), num_elements(problem) / workers_of(problem));
    const bool dense_bytes = size == 1 && rows.stride == 1;
    const bool by_neighbours = dense_bytes && share >= kMinJointElements;
    const int64_t slots = size == 1 ? kSlotsOfBytes : kSlotsOfIndices;
    switch (plan.counting) {
      case Counting::kIn16Bits:
        plan.joint = by_neighbours;
        plan.few = plan.joint ? group_of(kJointIndices, 1, 1, 2)
                              : group_of(plan.indices, 1, kTablesWhereValuesDiffer, 2);
        plan.many = group_of(plan.indices, slots, kCountersWhereValuesAgree / slots, 2);
        break;
      case Counting::kIn32Bits:
        plan.products =
            dense_bytes && has_amx() && share >= kMinProductElements && rows.size >= kMinProductRun;
        plan.joint = !plan.products && by_neighbours && share >= kMinPairElements &&
                     rows.size >= kMinPairRun;
        if (plan.products) {
          plan.few = {kSums, 1, kProducts, kSums * 4};
          break;
        }
        if (plan.joint) {
          plan.few = {kPairIndices, 1, kTablesOfPairs, kPairTableSize * 4};
        } else if (size > 1) {
          plan.few = group_of(plan.indices, 1, kFewTablesOf32Bits, 4);
        }
        plan.many = group_of(plan.indices, 1, kTablesOf32Bits, 4);
        break;
      case Counting::kStaged:
        plan.few = group_of(plan.indices, 1, 1, 2);
        plan.many = group_of(plan.indices + 1, kSlotsPerPair, 1, 4); // as make_indices() has them
        if (plan.few.bytes() + plan.many.bytes() > kMaxTableBytes) {
          plan.few = {}; // differing values are counted as others are
        }
    }
    const int64_t bytes = plan.few.bytes() + plan.many.bytes();
    if (bytes > kMaxTableBytes || rows.size < kMinStream) {
      return plan;
    }
    plan.way = Way::kStreams;
    plan.strip = std::min(interleaved ? channels.size : 1, kMaxTableBytes / bytes);
    plan.table_bytes = plan.strip * bytes;
    plan.tile_bytes = wide ? kStagedElements * 4 : 0;
    if (!interleaved && by_neighbours && in_32_bits && !plan.products) {
      plan.byte_values = kJointIndices;
    } else if (!interleaved && rows.stride == 1 && wide && problem.num_bins <= kMaxByteValues) {
      for (plan.byte_values = 1; plan.byte_values < problem.num_bins;) {
        plan.byte_values *= 2;
      }
    }
    plan.tile_bytes += plan.byte_room();
  } else if (
      size == 1 && channels.stride == 1 && rows.size >= kMinPlaneRun &&
      problem.num_rows() >= kMinPlaneRows && foresees_stores() && has_bit_planes()) {
    // Bit planes were measured to be faster than pairs here. Strips have one width, in whole groups.
    const int64_t groups = ceil_div(channels.size, kPlaneColumns);
    const int64_t most = are_far(rows.stride) ? kFarLines * line : line;
    const int64_t groups_of_strip = ceil_div(groups, ceil_div(channels.size, most));
    plan.strip = std::min(channels.size, groups_of_strip * kPlaneColumns);
    plan.few = group_of(plan.indices, kPlaneColumns, groups_of_strip, sizeof(int64_t));
    plan.way = Way::kBitPlanes;
    plan.table_bytes = plan.few.bytes();
    plan.tile_bytes = kPlaneScratchBytes;
  } else if (multiplied) {
    // Strips have one width, in whole lines. Threads share a strip that has many rows.
    const int64_t lines = ceil_div(channels.size, line);
    const int64_t alone = rows.size < kMinSharedProductRows ? workers_of(problem) : 1;
    const int64_t most = are_far(rows.stride) ? kMaxFarProductColumns : kMaxProductColumns;
    const int64_t strips = std::max(ceil_div(channels.size, most), alone);
    plan.strip = std::min(channels.size, ceil_div(lines, strips) * line);
    plan.few = {kSums, 1, round_up(plan.strip, kProductColumns), kSums * 4};
    plan.way = Way::kProducts;
    plan.table_bytes = plan.few.bytes();
    plan.tile_bytes = kProductScratchBytes;
  } else {
    // Whole turns of the loop over tables; slots without a channel count for nothing.
    if (in_32_bits) {
      plan.many = group_of(plan.indices, 1, round_up(plan.strip, kTablesOf32Bits), 4);
    } else {
      const int64_t pairs = ceil_div(plan.strip, kSlotsPerPair);
      plan.few = group_of(plan.indices, kSlotsPerPair, round_up(pairs, kPairsWhereValuesAgree), 2);
    }
    plan.table_bytes = plan.few.bytes() + plan.many.bytes();
    if (wide || plan.table_bytes > kMaxTableBytes) {
      return plan;
    }
    plan.way = Way::kColumns;
    plan.tile_bytes = kTileRows * kLineBytes;
  }
  return plan;
}

Schedule::Schedule(const Problem& problem, const Plan& plan)
    : strips(problem, plan.strip), workers(workers_of(problem)) {
  const int64_t rows = problem.num_rows();
  const bool whole_strips = workers == 1 || (problem.num_counts() >= kMinCountsPastCaches &&
                                             strips.count >= workers * kMinWholeStrips);
  const int64_t wanted_tasks = whole_strips ? 1 : workers * kTasksPerThread;
  const int64_t tiles = plan.way == Way::kProducts ? rows / kProductRows : rows;
  pieces = std::clamp<int64_t>(
      std::min(tiles, rows * plan.strip / kMinElementsPerThread), 1,
      ceil_div(wanted_tasks, strips.count));
  tasks = strips.count * pieces;
}

Sharing sharing_of(const Problem& problem, const Plan& plan) {
  const int64_t workers = workers_of(problem);
  if (ceil_div(problem.num_channels(), plan.strip) >= workers) {
    return Sharing::kChannels;
  }
  // Private copies may outgrow the input. Threads seldom meet in so many counters.
  const int64_t copies_bytes = workers * problem.num_counts() * int64_t{sizeof(int64_t)};
  return copies_bytes <= num_elements(problem) * size_of(problem.type) ? Sharing::kCopies
                                                                       : Sharing::kAtomic;
}

} // namespace histo::cpu
