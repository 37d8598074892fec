// Results of the input's sizes: each element is a function of the slot of the input's element.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cpu/count/strips.h"
#include "cpu/plan.h"
#include "cpu/threads.h"
#include "cpu/tuning.h"
#include "cpu/weights/slots.h"

namespace histo::cpu {

/// Writes f(channel, slot) for the elements of some rows of some channels. The last operand of the
/// problem is the view of the result.
template <class Slot, class T, class F>
void write_range(
    const Problem& problem,
    Digitizer& digitizer,
    const Range& channels,
    const Range& rows,
    T* result,
    const F& f) {
  const View& view = problem.operand(problem.num_operands - 1);
  std::vector<char> room;
  for (int64_t first = channels.begin; first < channels.end; first += tuning::kDigitizedChannels) {
    const int64_t size = std::min(tuning::kDigitizedChannels, channels.end - first);
    digitizer.choose(first, size);
    for_each_digitized_panel<Slot>(
        digitizer, problem, first, size, rows.begin, rows.end, room,
        [&](const InputPanel<Slot>& slots, int64_t first_of_panel, int64_t row) {
          const int64_t channel = first + first_of_panel;
          const Beside<T> to = beside(view, result, channel, row);
          for (int64_t c = 0; c < slots.channels.size; ++c) {
            const Slot* from = slots.data + c * slots.channels.stride;
            for (int64_t i = 0; i < slots.rows.size; ++i) {
              to.at(c, i) = f(channel + c, from[i * slots.rows.stride]);
            }
          }
        });
  }
}

/// Writes f(channel, slot) for all elements. Each thread writes rows of all channels, or channels of
/// its own.
template <class T, class F>
void write_by_slots(const Problem& problem, const Slots& slots, T* result, const F& f) {
  const Range channels{0, problem.num_channels()}, rows{0, problem.num_rows()};
  if (channels.end * rows.end == 0) {
    return;
  }
  const int64_t workers = workers_of(problem);
  const bool own_channels = channels.end >= workers;
  visit_slots(slots, [&](auto tag) {
    run_workers(workers, [&](int64_t i) {
      write_range<typename decltype(tag)::type>(
          problem, *slots.digitization->digitizer(),
          own_channels ? channels.part(i, workers) : channels,
          own_channels ? rows : rows.part(i, workers), result, f);
    });
  });
}

} // namespace histo::cpu
