// Sums of weights by bin.
#include <algorithm>
#include <memory>
#include <vector>

#include "core/weights.h"
#include "cpu/count/strips.h"
#include "cpu/kernels.h"
#include "cpu/plan.h"
#include "cpu/threads.h"
#include "cpu/tuning.h"
#include "cpu/weights/slots.h"

namespace histo::cpu {
namespace {

/// Adds to a number of 64 bits, which wraps. kShared: other threads do, too.
template <bool kShared>
void add_to(int64_t* sum, int64_t number) {
  if constexpr (kShared) {
    __atomic_fetch_add(sum, number, __ATOMIC_RELAXED);
  } else {
    *sum = wrapping_sum(*sum, number);
  }
}

/// Adds a panel of weights to the sums of its channels.
template <bool kShared, class Slot, class W>
void add_panel(
    const InputPanel<Slot>& slots,
    const Beside<const W>& weights,
    const Problem& problem,
    int64_t* sums) {
  const auto bins = static_cast<uint64_t>(problem.num_bins);
  const int64_t size = problem.sum_size, channel_size = problem.num_bins * size;
  const auto add = [&](int64_t channel, int64_t row) {
    const uint64_t slot = slots.data[channel * slots.channels.stride + row * slots.rows.stride];
    if (slot < bins) {
      int64_t* sum = sums + channel * channel_size + static_cast<int64_t>(slot) * size;
      add_weight(weights.at(channel, row), [&](int i, int64_t number) {
        add_to<kShared>(sum + i, number);
      });
    }
  };
  // The loops are nested as the slots lie in memory.
  if (slots.channels.stride < slots.rows.stride) {
    for (int64_t row = 0; row < slots.rows.size; ++row) {
      for (int64_t channel = 0; channel < slots.channels.size; ++channel) {
        add(channel, row);
      }
    }
  } else {
    for (int64_t channel = 0; channel < slots.channels.size; ++channel) {
      for (int64_t row = 0; row < slots.rows.size; ++row) {
        add(channel, row);
      }
    }
  }
}

/// From `begin` to before `end`.
struct Range {
  int64_t begin;
  int64_t end;
};

Range part_of(const Range& whole, int64_t part, int64_t parts) {
  const int64_t size = whole.end - whole.begin;
  return {whole.begin + cut(size, part, parts), whole.begin + cut(size, part + 1, parts)};
}

template <bool kShared, class Slot, class W>
void add_range(
    const Problem& problem, const Slots& slots, const Range& channels, const Range& rows) {
  const View& view = problem.operand(1);
  const auto* weights = static_cast<const W*>(view.data);
  const std::unique_ptr<Digitizer> digitizer = slots.digitization->digitizer();
  std::vector<char> room;
  for (int64_t first = channels.begin; first < channels.end; first += tuning::kDigitizedChannels) {
    const int64_t size = std::min(tuning::kDigitizedChannels, channels.end - first);
    digitizer->choose(first, size);
    for_each_digitized_panel<Slot>(
        *digitizer, problem, first, size, rows.begin, rows.end, room,
        [&](const InputPanel<Slot>& panel, int64_t channel, int64_t row) {
          add_panel<kShared>(
              panel, beside(view, weights, first + channel, row), problem,
              problem.counts + (first + channel) * problem.num_bins * problem.sum_size);
        });
  }
}

/// Adds rows to sums that are cleared, in threads.
template <class Slot, class W>
void add_rows(const Problem& problem, const Slots& slots, const Range& rows) {
  const int64_t workers = workers_of(problem);
  const Range channels{0, problem.num_channels()};
  const bool own_channels = channels.end >= workers;
  run_workers(workers, [&](int64_t worker) {
    if (own_channels) {
      add_range<false, Slot, W>(problem, slots, part_of(channels, worker, workers), rows);
    } else {
      add_range<true, Slot, W>(problem, slots, channels, part_of(rows, worker, workers));
    }
  });
}

void sum_weights(const Problem& problem, const Slots& slots) {
  fill_zero(problem.counts, problem.num_results());
  const int64_t rows = problem.num_rows();
  visit_number_type(problem.operand(1).type, [&](auto weight_tag) {
    visit_slots(slots, [&](auto slot_tag) {
      for (int64_t begin = 0; begin < rows; begin += kMostAdditions) {
        const Range part{begin, std::min(rows, begin + kMostAdditions)};
        add_rows<typename decltype(slot_tag)::type, typename decltype(weight_tag)::type>(
            problem, slots, part);
        normalize_sums(problem.counts, problem.num_counts(), problem.sum_size);
      }
    });
  });
}

} // namespace

void sum_weights_between(const Problem& problem, const Edges& edges, const Flow& flow, Allocator&) {
  if (problem.num_results() > 0) {
    sum_weights(problem, slots_between(problem, edges, flow));
  }
}

void sum_weights_of_values(const Problem& problem, Allocator&) {
  if (problem.num_results() > 0) {
    sum_weights(problem, slots_of_values(problem));
  }
}

} // namespace histo::cpu
