// The derivative of sums with respect to the weights: each element gets that of its bin.
#include <cstdint>

#include "cpu/kernels.h"
#include "cpu/weights/write_by_slots.h"

namespace histo::cpu {
namespace {

void write_gradient(
    const Problem& problem, const Slots& slots, const double* gradient, double* result) {
  const int64_t bins = problem.num_bins;
  write_by_slots(problem, slots, result, [=](int64_t channel, uint64_t slot) {
    return slot < static_cast<uint64_t>(bins)
               ? gradient[channel * bins + static_cast<int64_t>(slot)]
               : 0;
  });
}

} // namespace

void weight_gradient_between(
    const Problem& problem,
    const Edges& edges,
    const Flow& flow,
    const double* gradient,
    double* result) {
  write_gradient(problem, slots_between(problem, edges, nullptr, flow), gradient, result);
}

void weight_gradient_of_values(const Problem& problem, const double* gradient, double* result) {
  write_gradient(problem, slots_of_values(problem), gradient, result);
}

} // namespace histo::cpu
