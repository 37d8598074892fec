// The tensors of a sketch -> what its kernels take.
#include <torch/csrc/stable/ops.h>

#include "torch/arguments.h"
#include "torch/counts.h"
#include "torch/describe.h"
#include "torch/memory.h"
#include "torch/messages.h"

namespace histo {

namespace {

SketchBins check_bins(std::string_view op, int64_t bits, int64_t first, int64_t last) {
  if (bits < 0 || bits > SketchBins::kMostBits) {
    fail(join(op, ": bits must be between 0 and 16, got ", std::to_string(bits)));
  }
  if (first < SketchBins::kLeastExponent || first >= last || last > SketchBins::kMostExponent) {
    fail(join(
        op, ": first and last must be from -1022 to 1023, the first below the last, got ",
        join_numbers({first, last})));
  }
  return {bits, first, last};
}

std::string place_of(const Tensor& tensor) {
  return tensor.is_cpu() ? "the CPU" : "GPU " + std::to_string(tensor.get_device_index());
}

bool are_together(const Tensor& a, const Tensor& b) {
  return a.device() == b.device();
}

/// Checks a buffer of a sketch, which is to be beside another tensor.
void check_buffer(
    std::string_view op,
    std::string_view argument,
    const Tensor& buffer,
    const Tensor& beside,
    const std::vector<int64_t>& sizes) {
  const std::vector<int64_t> given = sizes_of(buffer);
  const bool takes = are_together(buffer, beside) && buffer.scalar_type() == ScalarType::Long;
  if (!takes || given != sizes || !buffer.is_contiguous()) {
    fail(join(
        op, ": ", argument, " must be contiguous int64 on ", place_of(beside), ", ",
        join_numbers(sizes), ", got ", dtype_name(buffer.scalar_type()), " ", join_numbers(given)));
  }
}

SketchState state_of(
    std::string_view op,
    const Tensor& beside,
    const Tensor& hist,
    const Tensor& min_key,
    const Tensor& max_key,
    std::vector<int64_t> channels,
    const SketchBins& bins) {
  check_buffer(op, "min_key", min_key, beside, channels);
  check_buffer(op, "max_key", max_key, beside, channels);
  channels.push_back(bins.num_counts());
  check_buffer(op, "hist", hist, beside, channels);
  return {data_of<int64_t>(hist), data_of<int64_t>(min_key), data_of<int64_t>(max_key)};
}

} // namespace

SketchAddCall prepare_sketch_add(
    const Tensor& hist,
    const Tensor& min_key,
    const Tensor& max_key,
    const Tensor& input,
    const SketchBins& given,
    const Dims& dim) {
  const std::string_view op = "_sketch_add_";
  const SketchBins bins = check_bins(op, given.bits, given.first, given.last);
  const Checked checked = check_numbers(op, describe(input), dim);
  SketchAddCall call{
      prepare_operands({input}, checked.kept, bins.num_counts()), bins,
      state_of(op, input, hist, min_key, max_key, kept_sizes(input, checked), bins)};
  const auto shares = [&](const Tensor& buffer) { return share_memory(input, buffer); };
  if (shares(hist) || shares(min_key) || shares(max_key)) {
    // It is counted as it was before.
    static_cast<Operands&>(call) =
        prepare_operands({torch::stable::clone(input)}, checked.kept, bins.num_counts());
  }
  mark_changed(op, "hist", hist);
  mark_changed(op, "min_key", min_key);
  mark_changed(op, "max_key", max_key);
  return call;
}

SketchQuantileCall prepare_sketch_quantile(
    const Tensor& hist,
    const Tensor& min_key,
    const Tensor& max_key,
    const Tensor& q,
    const SketchBins& given,
    double place) {
  const std::string_view op = "_sketch_quantile";
  const SketchBins bins = check_bins(op, given.bits, given.first, given.last);
  const Tensor numbers = torch::stable::contiguous(q);
  if (!are_together(q, hist) || q.scalar_type() != ScalarType::Double || q.dim() > 1) {
    fail(join(
        op, ": q must be float64 on ", place_of(hist), ", 0-D or 1-D, got ",
        dtype_name(q.scalar_type()), " on ", place_of(q)));
  }
  std::vector<int64_t> channels = sizes_of(min_key), shape = sizes_of(q);
  shape.insert(shape.end(), channels.begin(), channels.end());
  const SketchState state = state_of(op, hist, hist, min_key, max_key, std::move(channels), bins);
  SketchQuantileCall call{{}, numbers, allocate(hist, shape, ScalarType::Double, "the quantiles")};
  call.quantiles = {
      state,
      min_key.numel(),
      bins,
      place,
      data_of<const double>(call.q),
      call.q.numel(),
      data_of<double>(call.found)};
  return call;
}

} // namespace histo
