// The checks for callers that hold no data. Each returns the error, or an empty string.
#include <stdexcept>
#include <string>
#include <vector>

#include <torch/csrc/stable/library.h>

#include "torch/arguments.h"

namespace histo {
namespace {

/// The message of what `check` throws, or an empty string.
template <class Check>
std::string error_of(const Check& check) {
  try {
    check();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

std::string channel_histogram_error(
    std::string device,
    std::string dtype,
    std::string layout,
    bool contiguous,
    int64_t ndim,
    int64_t num_bins,
    std::vector<int64_t> dim,
    std::string variant) {
  return error_of([&] {
    check_channel_histogram({device, dtype, layout, contiguous, ndim}, num_bins, dim, variant);
  });
}

std::string text_histogram_error(
    std::string device,
    std::string dtype,
    std::string layout,
    bool contiguous,
    int64_t ndim,
    std::string variant) {
  return error_of(
      [&] { check_text_histogram({device, dtype, layout, contiguous, ndim}, variant); });
}

std::string numbers_error(
    std::string op,
    std::string device,
    std::string dtype,
    std::string layout,
    int64_t ndim,
    Dims dim) {
  return error_of([&] { check_numbers(op, {device, dtype, layout, false, ndim}, dim); });
}

std::string edges_error(
    std::string op,
    std::string device,
    std::string dtype,
    std::string layout,
    int64_t ndim,
    std::string edges_device,
    std::string edges_dtype,
    std::string edges_layout,
    int64_t edges_ndim) {
  return error_of([&] {
    check_edges(
        op, {device, dtype, layout, false, ndim},
        {edges_device, edges_dtype, edges_layout, false, edges_ndim});
  });
}

std::string counts_error(
    std::string device,
    std::string dtype,
    std::string layout,
    std::string counts_device,
    std::string counts_dtype,
    std::string counts_layout) {
  return error_of([&] {
    check_counts(
        {device, dtype, layout, false, 0}, {counts_device, counts_dtype, counts_layout, false, 0});
  });
}

std::string bounds_error(
    std::string device,
    std::string dtype,
    std::string layout,
    std::string high_device,
    std::string high_dtype,
    std::string high_layout,
    int64_t num_bins,
    std::string edge_dtype) {
  return error_of([&] {
    check_bounds(
        {device, dtype, layout, false, 0}, {high_device, high_dtype, high_layout, false, 0},
        num_bins);
    check_edge_dtype(edge_dtype);
  });
}

std::string quantile_error(
    std::string device,
    std::string dtype,
    std::string layout,
    int64_t ndim,
    std::string q_device,
    std::string q_dtype,
    std::string q_layout,
    int64_t q_ndim,
    Dims dim,
    std::string interpolation) {
  return error_of([&] {
    const Description input{device, dtype, layout, false, ndim};
    check_numbers("quantile", input, dim);
    check_quantile(input, {q_device, q_dtype, q_layout, false, q_ndim}, interpolation);
  });
}

std::string weight_error(
    std::string op,
    std::string device,
    std::string dtype,
    std::string layout,
    int64_t ndim,
    std::string weight_device,
    std::string weight_dtype,
    std::string weight_layout,
    int64_t weight_ndim) {
  return error_of([&] {
    check_weight(
        op, {device, dtype, layout, false, ndim},
        {weight_device, weight_dtype, weight_layout, false, weight_ndim});
  });
}

std::string values_error(
    std::string op,
    std::string device,
    std::string dtype,
    std::string layout,
    int64_t ndim,
    int64_t num_bins,
    std::vector<int64_t> dim) {
  return error_of([&] { check_values(op, {device, dtype, layout, false, ndim}, num_bins, dim); });
}

std::string digits_error(
    std::string op,
    std::string device,
    std::string dtype,
    std::string layout,
    int64_t ndim,
    int64_t size) {
  return error_of([&] { check_digits(op, {device, dtype, layout, false, ndim}, size); });
}

} // namespace
} // namespace histo

STABLE_TORCH_LIBRARY_IMPL(histo, CompositeExplicitAutograd, m) {
  m.impl("_check_channel_histogram", TORCH_BOX(&histo::channel_histogram_error));
  m.impl("_check_text_histogram", TORCH_BOX(&histo::text_histogram_error));
  m.impl("_check_numbers", TORCH_BOX(&histo::numbers_error));
  m.impl("_check_edges", TORCH_BOX(&histo::edges_error));
  m.impl("_check_counts", TORCH_BOX(&histo::counts_error));
  m.impl("_check_bounds", TORCH_BOX(&histo::bounds_error));
  m.impl("_check_quantile", TORCH_BOX(&histo::quantile_error));
  m.impl("_check_weight", TORCH_BOX(&histo::weight_error));
  m.impl("_check_values", TORCH_BOX(&histo::values_error));
  m.impl("_check_digits", TORCH_BOX(&histo::digits_error));
}
