// The operators of summaries, on the CPU.
#include <algorithm>
#include <optional>
#include <tuple>
#include <vector>

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include "core/exact_sum.h"
#include "cpu/float_mode.h"
#include "cpu/kernels.h"
#include "cpu/summary/moments.h"
#include "cpu/threads.h"
#include "torch/arguments.h"
#include "torch/describe.h"
#include "torch/memory.h"
#include "torch/messages.h"

namespace histo {
namespace {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

constexpr std::string_view kMomentsOfDigits = "_moments_of_digits";

int64_t num_digits(ElementType type) {
  return layout_of_sum(type).size + layout_of_squares(type).size;
}

std::vector<int64_t> joined(int64_t first, std::vector<int64_t> rest) {
  rest.insert(rest.begin(), first);
  return rest;
}

std::tuple<Tensor, Tensor, Tensor> summary(
    const Tensor& input, std::optional<std::vector<int64_t>> dim, bool digits) {
  const Checked checked = check_numbers("summarize", describe(input), dim);
  std::vector<int64_t> kept = kept_sizes(input, checked);
  const Operands operands = prepare_operands({input}, checked.kept, 1);
  const Tensor counts =
      allocate(input, joined(cpu::kSummaryCounts, kept), ScalarType::Long, "the counts");
  const Tensor numbers =
      allocate(input, joined(cpu::kSummaryNumbers, kept), ScalarType::Double, "the numbers");
  kept.push_back(digits ? num_digits(checked.element) : 0);
  const Tensor sums = allocate(input, kept, ScalarType::Long, "the exact sums");
  cpu::summarize(
      operands.problem, {static_cast<int64_t*>(counts.mutable_data_ptr()),
                         static_cast<double*>(numbers.mutable_data_ptr()),
                         digits ? static_cast<int64_t*>(sums.mutable_data_ptr()) : nullptr});
  return {counts, numbers, sums};
}

void check_digits(const Tensor& digits, const Tensor& number, ElementType type) {
  const std::vector<int64_t> sizes = sizes_of(digits);
  const int64_t wanted = num_digits(type);
  if (digits.scalar_type() != ScalarType::Long || sizes.empty() || sizes.back() != wanted) {
    fail(join(
        kMomentsOfDigits, ": digits must be int64 with ", std::to_string(wanted),
        " digits in the last dimension, got ", dtype_name(digits.scalar_type()), " ",
        join_numbers(sizes)));
  }
  const std::vector<int64_t> channels(sizes.begin(), sizes.end() - 1);
  if (number.scalar_type() != ScalarType::Long || sizes_of(number) != channels) {
    fail(join(
        kMomentsOfDigits, ": number must be int64 ", join_numbers(channels), ", got ",
        dtype_name(number.scalar_type()), " ", join_numbers(sizes_of(number))));
  }
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
      const cpu::Moments found = cpu::moments_of(own.data(), type, numbers[channel]);
      const double all[] = {found.mean, found.var, found.std, found.sum, found.sum_of_squares};
      for (int64_t i = 0; i < cpu::kMoments; ++i) {
        result[i * channels + channel] = all[i];
      }
    }
  });
}

Tensor moments_of_digits(const Tensor& digits, const Tensor& number, ScalarType dtype) {
  const std::optional<ElementType> type = element_type(dtype_name(dtype));
  if (!type) {
    fail(join(kMomentsOfDigits, ": dtype must be a real dtype, got ", dtype_name(dtype)));
  }
  check_digits(digits, number, *type);
  const std::vector<int64_t> channels = sizes_of(number);
  const Tensor result =
      allocate(digits, joined(cpu::kMoments, channels), ScalarType::Double, "the moments");
  const Tensor own_digits = expanded(digits, sizes_of(digits));
  const Tensor own_number = expanded(number, channels);
  write_moments(
      static_cast<const int64_t*>(own_digits.const_data_ptr()),
      static_cast<const int64_t*>(own_number.const_data_ptr()), *type, number.numel(),
      static_cast<double*>(result.mutable_data_ptr()));
  return result;
}

} // namespace
} // namespace histo

STABLE_TORCH_LIBRARY_IMPL(histo, CPU, m) {
  m.impl("_summary", TORCH_BOX(&histo::summary));
  m.impl("_moments_of_digits", TORCH_BOX(&histo::moments_of_digits));
}
