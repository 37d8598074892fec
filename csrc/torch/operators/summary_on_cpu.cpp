// The operators of summaries, on the CPU.
#include <algorithm>
#include <optional>
#include <tuple>
#include <vector>

#include <torch/csrc/stable/library.h>

#include "core/exact_sum.h"
#include "cpu/float_mode.h"
#include "cpu/kernels.h"
#include "cpu/summary/moments.h"
#include "cpu/threads.h"
#include "torch/arguments.h"

namespace histo {
namespace {

std::tuple<Tensor, Tensor, Tensor> summary(const Tensor& input, Dims dim, bool digits) {
  const SummaryCall call = prepare_summary(input, dim, digits);
  cpu::summarize(call.operands.problem, call.results);
  return {call.counts, call.numbers, call.digits};
}

void write_moments(
    const int64_t* digits,
    const int64_t* numbers,
    ElementType type,
    int64_t channels,
    double* result) {
  const DigitLayout sum = layout_of_sum(type), squares = layout_of_squares(type);
  const int64_t size = num_digits(type);
  constexpr int64_t kChannelsPerTask = 64;
  cpu::parallel_for(channels, kChannelsPerTask, [&](int64_t begin, int64_t end) {
    const cpu::ExactFloats exact;
    std::vector<int64_t> own(static_cast<size_t>(size));
    for (int64_t channel = begin; channel < end; ++channel) {
      const int64_t* from = digits + channel * size;
      std::copy(from, from + size, own.begin());
      normalize(own.data(), sum.size);
      normalize(own.data() + sum.size, squares.size);
      const Moments found = cpu::moments_of(own.data(), type, numbers[channel]);
      const double all[] = {found.mean, found.var, found.std, found.sum, found.sum_of_squares};
      for (int64_t i = 0; i < kMoments; ++i) {
        result[i * channels + channel] = all[i];
      }
    }
  });
}

Tensor moments_of_digits(const Tensor& digits, const Tensor& number, ScalarType dtype) {
  const MomentsCall call = prepare_moments_of_digits(digits, number, dtype);
  write_moments(
      static_cast<const int64_t*>(call.digits.const_data_ptr()),
      static_cast<const int64_t*>(call.number.const_data_ptr()), call.type, call.channels,
      static_cast<double*>(call.moments.mutable_data_ptr()));
  return call.moments;
}

} // namespace
} // namespace histo

STABLE_TORCH_LIBRARY_IMPL(histo, CPU, m) {
  m.impl("_summary", TORCH_BOX(&histo::summary));
  m.impl("_moments_of_digits", TORCH_BOX(&histo::moments_of_digits));
}
