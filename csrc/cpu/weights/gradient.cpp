// The derivative of sums with respect to the weights: each element gets that of its bin.
#include <algorithm>
#include <memory>
#include <vector>

#include "cpu/count/strips.h"
#include "cpu/kernels.h"
#include "cpu/plan.h"
#include "cpu/threads.h"
#include "cpu/tuning.h"
#include "cpu/weights/slots.h"

namespace histo::cpu {
namespace {

template <class Slot>
void write_panel(
    const InputPanel<Slot>& slots,
    const Beside<double>& result,
    int64_t num_bins,
    const double* gradient) {
  for (int64_t channel = 0; channel < slots.channels.size; ++channel) {
    const Slot* from = slots.data + channel * slots.channels.stride;
    const double* own = gradient + channel * num_bins;
    for (int64_t row = 0; row < slots.rows.size; ++row) {
      const auto slot = static_cast<int64_t>(from[row * slots.rows.stride]);
      result.at(channel, row) = slot < num_bins ? own[slot] : 0;
    }
  }
}

/// Each thread writes rows of all channels, or channels of its own.
void write_gradient(
    const Problem& problem, const Slots& slots, const double* gradient, double* result) {
  const int64_t channels = problem.num_channels(), rows = problem.num_rows();
  const int64_t workers = workers_of(problem);
  const bool own_channels = channels >= workers;
  visit_slots(slots, [&](auto tag) {
    using Slot = typename decltype(tag)::type;
    run_workers(workers, [&](int64_t worker) {
      const std::unique_ptr<Digitizer> digitizer = slots.digitization->digitizer();
      const auto part = [&](int64_t size, int64_t i, bool is_cut) {
        return is_cut ? cut(size, worker + i, workers) : i * size;
      };
      std::vector<char> room;
      const int64_t last = part(channels, 1, own_channels);
      for (int64_t first = part(channels, 0, own_channels); first < last;
           first += tuning::kDigitizedChannels) {
        const int64_t size = std::min(tuning::kDigitizedChannels, last - first);
        digitizer->choose(first, size);
        for_each_digitized_panel<Slot>(
            *digitizer, problem, first, size, part(rows, 0, !own_channels),
            part(rows, 1, !own_channels), room,
            [&](const InputPanel<Slot>& panel, int64_t channel, int64_t row) {
              write_panel(
                  panel, beside(problem.operand(1), result, first + channel, row), problem.num_bins,
                  gradient + (first + channel) * problem.num_bins);
            });
      }
    });
  });
}

} // namespace

void weight_gradient_between(
    const Problem& problem,
    const Edges& edges,
    const Flow& flow,
    const double* gradient,
    double* result) {
  if (problem.num_channels() * problem.num_rows() > 0) {
    write_gradient(problem, slots_between(problem, edges, nullptr, flow), gradient, result);
  }
}

void weight_gradient_of_values(const Problem& problem, const double* gradient, double* result) {
  if (problem.num_channels() * problem.num_rows() > 0) {
    write_gradient(problem, slots_of_values(problem), gradient, result);
  }
}

} // namespace histo::cpu
