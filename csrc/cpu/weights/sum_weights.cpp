// Sums of weights by bin.
#include <algorithm>
#include <memory>
#include <vector>

#include "core/weights.h"
#include "cpu/count/pattern_axis.h"
#include "cpu/count/schedule.h"
#include "cpu/count/strips.h"
#include "cpu/kernels.h"
#include "cpu/plan.h"
#include "cpu/tasks.h"
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
  Strips strips;       // channels that are added together
  int64_t pieces;      // of the rows of each strip; each is a task
  int64_t table_bytes; // of a worker, or 0: weights are added to the result itself
};

template <class W>
WeightsPlan plan_of_weights(const Problem& problem) {
  const Extent& channels = problem.channels[1];
  const bool side_by_side = are_side_by_side(channels, problem.rows[2]);
  const int64_t strip = side_by_side ? std::min(channels.size, tuning::kWeightStrip) : 1;
  const auto pieces_of = [&](const Strips& strips, int64_t workers) {
    const bool whole = workers == 1 || strips.count >= workers * tuning::kMinWholeStrips;
    return whole ? 1
                 : std::clamp<int64_t>(
                       problem.num_rows() * strips.size / tuning::kMinElementsPerThread, 1,
                       ceil_div(workers * tuning::kTasksPerThread, strips.count));
  };
  WeightsPlan plan{workers_of(problem), Strips(problem, strip), 1, 0};
  plan.pieces = pieces_of(plan.strips, plan.workers);
  const int64_t share = problem.num_rows() / (plan.pieces == 1 ? 1 : plan.workers);
  const int64_t cells = problem.num_bins * CellsOf<W>::kCells;
  if (problem.num_bins < tuning::kMaxWeightTableBytes && share >= cells / tuning::kCellsPerWeight) {
    plan.table_bytes = table_bytes<W>(strip, problem.num_bins);
  }
  if (plan.table_bytes == 0 || plan.table_bytes > tuning::kMaxWeightTableBytes) {
    plan.table_bytes = 0;
    plan.strips = Strips(problem, tuning::kDigitizedChannels);
    plan.pieces = pieces_of(plan.strips, plan.workers);
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

/// A call, or some rows of it, whose tasks workers take.
struct WeightsJob {
  const Problem& problem;
  const Slots& slots;
  const WeightsPlan& plan;
  bool is_shared; // threads add to the same sums
  Range rows;
  Tasks tasks;
};

/// Adds the tasks of a worker. Those of one strip follow each other and are carried together.
template <class Slot, class W, class Adder>
void add_tasks(WeightsJob& job, int64_t worker, Adder& adder) {
  const Problem& problem = job.problem;
  const WeightsPlan& plan = job.plan;
  const View& view = weights_of(problem);
  const auto* weights = static_cast<const W*>(view.data);
  const std::unique_ptr<Digitizer> digitizer = job.slots.digitization->digitizer();
  std::vector<char> room;
  int64_t chosen = -1;
  job.tasks.run(worker, [&](int64_t task) {
    const int64_t strip = task / plan.pieces;
    const int64_t first = plan.strips.first(strip), size = plan.strips.size_of(strip);
    if (strip != chosen) {
      if (chosen >= 0) {
        adder.end();
      }
      chosen = strip;
      digitizer->choose(first, size);
      adder.begin(first, size);
    }
    const Range piece = job.rows.part(task % plan.pieces, plan.pieces);
    for_each_digitized_panel<Slot>(
        *digitizer, problem, first, size, piece.begin, piece.end, room,
        [&](const InputPanel<Slot>& panel, int64_t, int64_t row) {
          const int64_t next = row + panel.rows.size;
          const bool fetches = !job.slots.fetches_input && next < piece.end;
          adder.add(
              panel, beside(view, weights, first, row),
              fetches ? input_behind(problem, first, size, next) : InputBehind{nullptr, 0});
        });
  });
  if (chosen >= 0) {
    adder.end();
  }
}

template <class Slot, class W>
void add_in_worker(WeightsJob& job, int64_t worker, char* table) {
  if constexpr (sizeof(Slot) <= sizeof(uint32_t)) { // a table has fewer bins
    if (job.plan.table_bytes > 0) {
      TableAdder<Slot, W> adder(job.problem, job.is_shared, reinterpret_cast<Cell<W>*>(table));
      return add_tasks<Slot, W>(job, worker, adder);
    }
  }
  DirectAdder<Slot, W> adder(job.problem, job.is_shared);
  add_tasks<Slot, W>(job, worker, adder);
}

/// Adds all weights, in threads.
template <class Slot, class W>
void add_weights(const Problem& problem, const Slots& slots, Allocator& allocate) {
  const WeightsPlan plan = plan_of_weights<W>(problem);
  const int64_t bytes = plan.table_bytes + tuning::kScratchGap;
  char* tables =
      plan.table_bytes > 0 ? static_cast<char*>(allocate(plan.workers * bytes)) : nullptr;
  const auto add = [&](bool is_shared, const Range& rows) {
    WeightsJob job{problem,   slots, plan,
                   is_shared, rows,  Tasks(plan.strips.count * plan.pieces, plan.workers)};
    run_workers(plan.workers, [&](int64_t worker) {
      char* table = tables == nullptr ? nullptr : tables + worker * bytes;
      add_in_worker<Slot, W>(job, worker, table);
    });
  };
  const int64_t rows = problem.num_rows();
  if (plan.pieces == 1 && rows <= kMostAdditions) {
    return add(false, {0, rows});
  }
  fill_zero(problem.counts, problem.num_results());
  for (int64_t begin = 0; begin < rows; begin += kMostAdditions) {
    add(true, {begin, std::min(rows, begin + kMostAdditions)});
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

/// If each channel has one weight, count(problem) counts the input, and the counts are multiplied. If
/// not, weights are added by the slots of slots().
template <class Count, class SlotsOf>
void sum_or_count(
    const Problem& problem, Allocator& allocate, const Count& count, const SlotsOf& slots) {
  if (problem.num_results() == 0) {
    return;
  }
  if (has_one_weight_a_channel(weights_of(problem))) {
    sum_repeated(problem, allocate, count);
  } else {
    sum_weights(problem, slots(), allocate);
  }
}

} // namespace

void sum_weights_between(
    const Problem& problem,
    const Edges& edges,
    const UniformRanges* ranges,
    const Flow& flow,
    Allocator& allocate) {
  sum_or_count(
      problem, allocate,
      [&](const Problem& input) { count_between(input, edges, ranges, flow, allocate); },
      [&] { return slots_between(problem, edges, ranges, flow); });
}

void sum_weights_of_values(const Problem& problem, Allocator& allocate) {
  sum_or_count(
      problem, allocate,
      [&](const Problem& input) {
        count(input, pattern_axis(input.type, ValueBinning{input.num_bins}), allocate);
      },
      [&] { return slots_of_values(problem); });
}

void sum_weights_joint(const Problem& problem, const JointAxes& axes, Allocator& allocate) {
  sum_or_count(
      problem, allocate, [&](const Problem& input) { count_joint(input, axes, allocate); },
      [&] { return slots_joint(problem, axes); });
}

} // namespace histo::cpu
