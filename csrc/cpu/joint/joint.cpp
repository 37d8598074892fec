// Joint histograms: the joint slots of elements are counted as slots of one coordinate are.
#include <algorithm>
#include <memory>
#include <vector>

#include "cpu/count/strips.h"
#include "cpu/joint/digitize_joint.h"
#include "cpu/kernels.h"
#include "cpu/plan.h"
#include "cpu/threads.h"
#include "cpu/tuning.h"
#include "cpu/weights/slots.h"

namespace histo::cpu {
namespace {

template <class Slot>
void write_panel(const InputPanel<Slot>& slots, const Beside<int64_t>& index, uint64_t num_bins) {
  for (int64_t channel = 0; channel < slots.channels.size; ++channel) {
    for (int64_t row = 0; row < slots.rows.size; ++row) {
      const uint64_t slot = slots.data[channel * slots.channels.stride + row * slots.rows.stride];
      index.at(channel, row) = slot < num_bins ? static_cast<int64_t>(slot) : kNoBin;
    }
  }
}

template <class Slot>
void write_range(
    const Problem& problem,
    const Digitization& digitization,
    const Range& channels,
    const Range& rows,
    int64_t* index) {
  const View& view = problem.operand(problem.num_operands - 1);
  const std::unique_ptr<Digitizer> digitizer = digitization.digitizer();
  std::vector<char> room;
  for (int64_t first = channels.begin; first < channels.end; first += tuning::kDigitizedChannels) {
    const int64_t size = std::min(tuning::kDigitizedChannels, channels.end - first);
    digitizer->choose(first, size);
    for_each_digitized_panel<Slot>(
        *digitizer, problem, first, size, rows.begin, rows.end, room,
        [&](const InputPanel<Slot>& panel, int64_t channel, int64_t row) {
          write_panel(
              panel, beside(view, index, first + channel, row),
              static_cast<uint64_t>(problem.num_bins));
        });
  }
}

} // namespace

void count_joint(const Problem& problem, const JointAxes& axes, Allocator& allocate) {
  if (problem.num_counts() == 0) {
    return;
  }
  Problem slots = problem;
  slots.type = slot_type_of(problem.num_bins);
  count_slots(slots, *digitize_joint(problem, axes, slots.type), allocate);
}

void write_joint_index(const Problem& problem, const JointAxes& axes, int64_t* index) {
  const Range channels{0, problem.num_channels()}, rows{0, problem.num_rows()};
  if (channels.end * rows.end == 0) {
    return;
  }
  const ElementType type = slot_type_of(problem.num_bins);
  const std::unique_ptr<Digitization> digitization = digitize_joint(problem, axes, type);
  const int64_t workers = workers_of(problem);
  const bool own_channels = channels.end >= workers;
  visit_slots(type, [&](auto tag) {
    using Slot = typename decltype(tag)::type;
    run_workers(workers, [&](int64_t i) {
      write_range<Slot>(
          problem, *digitization, own_channels ? channels.part(i, workers) : channels,
          own_channels ? rows : rows.part(i, workers), index);
    });
  });
}

} // namespace histo::cpu
