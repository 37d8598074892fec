// The tensors of a summary -> what its kernels take.
#include <utility>

#include "core/exact_sum.h"
#include "torch/arguments.h"
#include "torch/describe.h"
#include "torch/memory.h"
#include "torch/messages.h"

namespace histo {

namespace {

constexpr std::string_view kMomentsOfDigits = "_moments_of_digits";

std::vector<int64_t> joined(int64_t first, std::vector<int64_t> rest) {
  rest.insert(rest.begin(), first);
  return rest;
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

/// Kernels get the addresses of both.
void check_devices(const Tensor& digits, const Tensor& number) {
  if (digits.is_cpu() != number.is_cpu() ||
      digits.get_device_index() != number.get_device_index()) {
    fail(join(
        kMomentsOfDigits, ": number must be on the device of digits, got ", describe(number).device,
        " and ", describe(digits).device));
  }
}

} // namespace

SummaryCall prepare_summary(const Tensor& input, const Dims& dim, bool digits) {
  const Checked checked = check_numbers(kSummarize, describe(input), dim);
  std::vector<int64_t> kept = kept_sizes(input, checked);
  Operands operands = prepare_operands({input}, checked.kept, 1);
  const Tensor counts =
      allocate(input, joined(kSummaryCounts, kept), ScalarType::Long, "the counts");
  const Tensor numbers =
      allocate(input, joined(kSummaryNumbers, kept), ScalarType::Double, "the numbers");
  kept.push_back(digits ? num_digits(checked.element) : 0);
  const Tensor sums = allocate(input, kept, ScalarType::Long, "the exact sums");
  const Summary results{
      data_of<int64_t>(counts), data_of<double>(numbers),
      digits ? data_of<int64_t>(sums) : nullptr};
  return {std::move(operands), counts, numbers, sums, results};
}

MomentsCall prepare_moments_of_digits(
    const Tensor& digits, const Tensor& number, ScalarType dtype) {
  const std::optional<ElementType> type = element_type(dtype_name(dtype));
  if (!type) {
    fail(join(kMomentsOfDigits, ": dtype must be a real dtype, got ", dtype_name(dtype)));
  }
  check_digits(digits, number, *type);
  check_devices(digits, number);
  const std::vector<int64_t> channels = sizes_of(number);
  return {
      expanded(digits, sizes_of(digits)), expanded(number, channels),
      allocate(digits, joined(kMoments, channels), ScalarType::Double, "the moments"), *type,
      number.numel()};
}

} // namespace histo
