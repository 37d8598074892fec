// Sums of weights by bin.
#include <algorithm>
#include <memory>
#include <vector>

#include "core/weights.h"
#include "cpu/count/pattern_axis.h"
#include "cpu/count/strips.h"
#include "cpu/kernels.h"
#include "cpu/plan.h"
#include "cpu/threads.h"
#include "cpu/tuning.h"
#include "cpu/weights/adders.h"
#include "cpu/weights/slots.h"

namespace histo::cpu {
namespace {

/// The last operand.
const View& weights_of(const Problem& problem) {
  return problem.operand(problem.num_operands - 1);
}

/// How a call is divided.
struct WeightsPlan {
  int64_t workers;
  bool own_channels;   // each worker has channels of its own; otherwise rows of all channels
  int64_t strip;       // channels that are added together
  int64_t table_bytes; // of a worker, or 0: weights are added to the result itself
};

template <class W>
WeightsPlan plan_of_weights(const Problem& problem) {
  const Extent &channels = problem.channels[1], &rows = problem.rows[2];
  const bool side_by_side = channels.size > 1 && channels.stride < rows.stride;
  WeightsPlan plan{
      workers_of(problem), false, side_by_side ? std::min(channels.size, tuning::kWeightStrip) : 1,
      0};
  plan.own_channels = problem.num_channels() >= plan.workers * plan.strip;
  const int64_t share = plan.own_channels ? problem.num_rows() : problem.num_rows() / plan.workers;
  const int64_t cells = problem.num_bins * CellsOf<W>::kCells;
  if (problem.num_bins < tuning::kMaxWeightTableBytes && share >= cells / tuning::kCellsPerWeight) {
    plan.table_bytes = table_bytes<W>(plan.strip, problem.num_bins);
  }
  if (plan.table_bytes == 0 || plan.table_bytes > tuning::kMaxWeightTableBytes) {
    plan.strip = tuning::kDigitizedChannels;
    plan.table_bytes = 0;
  }
  return plan;
}

/// The input from a row of some channels on, if the rows follow each other in memory.
InputBehind input_behind(const Problem& problem, int64_t first, int64_t channels, int64_t row) {
  const int64_t bytes = visit_number_type(problem.type, [](auto tag) {
    return static_cast<int64_t>(sizeof(typename decltype(tag)::type));
  });
  const Extent &side = problem.channels[1], &rows = problem.rows[2];
  const bool is_dense =
      channels == 1 ? rows.stride == 1 : side.stride == 1 && rows.stride == channels;
  const int64_t offset = offset_of(problem.channels, first) + offset_of(problem.rows, row);
  return {static_cast<const char*>(problem.data) + offset * bytes, is_dense ? bytes : 0};
}

/// Adds some rows of some channels.
template <class Slot, class W, class Adder>
void add_range(
    const Problem& problem,
    const Slots& slots,
    int64_t strip,
    const Range& channels,
    const Range& rows,
    Adder& adder) {
  const View& view = weights_of(problem);
  const auto* weights = static_cast<const W*>(view.data);
  const std::unique_ptr<Digitizer> digitizer = slots.digitization->digitizer();
  std::vector<char> room;
  int64_t size = 0;
  for (int64_t first = channels.begin; first < channels.end; first += size) {
    const int64_t run = problem.channels[1].size - first % problem.channels[1].size;
    size = std::min({strip, run, channels.end - first});
    digitizer->choose(first, size);
    adder.begin(first, size);
    for_each_digitized_panel<Slot>(
        *digitizer, problem, first, size, rows.begin, rows.end, room,
        [&](const InputPanel<Slot>& panel, int64_t, int64_t row) {
          const int64_t next = row + panel.rows.size;
          const bool fetches = !slots.fetches_input && next < rows.end;
          adder.add(
              panel, beside(view, weights, first, row),
              fetches ? input_behind(problem, first, size, next) : InputBehind{nullptr, 0});
        });
    adder.end();
  }
}

template <bool kShared, class Slot, class W>
void add_part(
    const Problem& problem,
    const Slots& slots,
    const WeightsPlan& plan,
    const Range& channels,
    const Range& rows,
    char* table) {
  if constexpr (sizeof(Slot) <= sizeof(uint32_t)) { // a table has fewer bins
    if (plan.table_bytes > 0) {
      TableAdder<kShared, Slot, W> adder(problem, reinterpret_cast<Cell<W>*>(table));
      return add_range<Slot, W>(problem, slots, plan.strip, channels, rows, adder);
    }
  }
  DirectAdder<kShared, Slot, W> adder(problem);
  add_range<Slot, W>(problem, slots, plan.strip, channels, rows, adder);
}

/// Adds all weights, in threads.
template <class Slot, class W>
void add_weights(const Problem& problem, const Slots& slots, Allocator& allocate) {
  const WeightsPlan plan = plan_of_weights<W>(problem);
  const int64_t bytes = plan.table_bytes + tuning::kScratchGap;
  char* tables =
      plan.table_bytes > 0 ? static_cast<char*>(allocate(plan.workers * bytes)) : nullptr;
  const Range channels{0, problem.num_channels()}, rows{0, problem.num_rows()};
  const auto table_of = [&](int64_t worker) {
    return tables + (tables == nullptr ? 0 : worker * bytes);
  };
  if (plan.own_channels && rows.end <= kMostAdditions) {
    return run_workers(plan.workers, [&](int64_t i) {
      add_part<false, Slot, W>(
          problem, slots, plan, channels.part(i, plan.workers), rows, table_of(i));
    });
  }
  fill_zero(problem.counts, problem.num_results());
  for (int64_t begin = 0; begin < rows.end; begin += kMostAdditions) {
    const Range some{begin, std::min(rows.end, begin + kMostAdditions)};
    run_workers(plan.workers, [&](int64_t i) {
      add_part<true, Slot, W>(
          problem, slots, plan, channels, some.part(i, plan.workers), table_of(i));
    });
    normalize_sums(problem.counts, problem.num_counts(), problem.sum_size);
  }
}

void sum_weights(const Problem& problem, const Slots& slots, Allocator& allocate) {
  visit_number_type(weights_of(problem).type, [&](auto weight_tag) {
    visit_slots(slots, [&](auto slot_tag) {
      add_weights<typename decltype(slot_tag)::type, typename decltype(weight_tag)::type>(
          problem, slots, allocate);
    });
  });
}

/// Multiplies the counts of channels with their weights.
void put_products(const Problem& problem, const int64_t* counts) {
  const View& view = weights_of(problem);
  visit_number_type(view.type, [&](auto tag) {
    using W = typename decltype(tag)::type;
    const auto* weights = static_cast<const W*>(view.data);
    const int64_t bins = problem.num_bins;
    const int64_t grain = tuning::kMinCountersPerTask / (bins * problem.sum_size) + 1;
    parallel_for(problem.num_channels(), grain, [&](int64_t begin, int64_t end) {
      for (int64_t channel = begin; channel < end; ++channel) {
        const W weight = weights[offset_of(view.channels, channel)];
        for (int64_t i = channel * bins; i < (channel + 1) * bins; ++i) {
          put_equal_weights(weight, counts[i], problem.counts + i * problem.sum_size);
        }
      }
    });
  });
}

/// Sums of weights that are the same for all rows: counts times the weight. `count` counts the
/// input.
template <class Count>
void sum_repeated(const Problem& problem, Allocator& allocate, const Count& count) {
  Problem counted = problem;
  --counted.num_operands;
  counted.sum_size = 1;
  if (problem.sum_size > 1) {
    counted.counts = static_cast<int64_t*>(
        allocate(problem.num_counts() * static_cast<int64_t>(sizeof(int64_t))));
  }
  count(counted);
  put_products(problem, counted.counts);
}

} // namespace

void sum_weights_between(
    const Problem& problem,
    const Edges& edges,
    const UniformRanges* ranges,
    const Flow& flow,
    Allocator& allocate) {
  if (problem.num_results() == 0) {
    return;
  }
  if (has_one_weight_a_channel(weights_of(problem))) {
    return sum_repeated(problem, allocate, [&](const Problem& counted) {
      count_between(counted, edges, ranges, flow, allocate);
    });
  }
  sum_weights(problem, slots_between(problem, edges, ranges, flow), allocate);
}

void sum_weights_of_values(const Problem& problem, Allocator& allocate) {
  if (problem.num_results() == 0) {
    return;
  }
  if (has_one_weight_a_channel(weights_of(problem))) {
    return sum_repeated(problem, allocate, [&](const Problem& counted) {
      count(counted, pattern_axis(counted.type, ValueBinning{counted.num_bins}), allocate);
    });
  }
  sum_weights(problem, slots_of_values(problem), allocate);
}

void sum_weights_joint(const Problem& problem, const JointAxes& axes, Allocator& allocate) {
  if (problem.num_results() == 0) {
    return;
  }
  if (has_one_weight_a_channel(weights_of(problem))) {
    return sum_repeated(
        problem, allocate, [&](const Problem& counted) { count_joint(counted, axes, allocate); });
  }
  sum_weights(problem, slots_joint(problem, axes), allocate);
}

} // namespace histo::cpu
