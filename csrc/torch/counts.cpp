#include "torch/counts.h"

#include <algorithm>
#include <array>
#include <string>

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include "torch/describe.h"
#include "torch/messages.h"
#include "torch/prepare.h"

namespace histo {

namespace {

/// Whether two elements may share memory: each stride must go past all that shorter ones reach.
bool overlaps_itself(const Tensor& tensor) {
  if (tensor.is_contiguous() || tensor.numel() == 0) {
    return false;
  }
  std::vector<Extent> loops;
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    if (tensor.size(d) > 1) {
      loops.push_back({tensor.size(d), tensor.stride(d)});
    }
  }
  std::sort(loops.begin(), loops.end(), [](const Extent& a, const Extent& b) {
    return a.stride < b.stride;
  });
  int64_t reach = 0;
  for (const Extent& loop : loops) {
    if (loop.stride <= reach) {
      return true;
    }
    reach += (loop.size - 1) * loop.stride;
  }
  return false;
}

/// From the first byte of a tensor to behind its last one.
struct Bytes {
  const char* begin;
  const char* end;

  explicit Bytes(const Tensor& tensor)
      : begin(static_cast<const char*>(tensor.const_data_ptr())), end(begin) {
    if (tensor.numel() == 0) {
      return;
    }
    int64_t last = 0;
    for (int64_t d = 0; d < tensor.dim(); ++d) {
      last += (tensor.size(d) - 1) * tensor.stride(d);
    }
    end += (last + 1) * static_cast<int64_t>(tensor.element_size());
  }
};

} // namespace

void check_counts(const Tensor& counts, const Tensor& input, const std::vector<int64_t>& sizes) {
  const std::string_view op = kHistogramAdd;
  check_counts(describe(input), describe(op, "counts", counts));
  check_same_gpu(op, "counts", counts, input);
  if (const std::vector<int64_t> given = sizes_of(counts); given != sizes) {
    fail(join(
        op, ": counts must have the sizes that torch_histo.histogram returns here, ",
        join_numbers(sizes), ", got ", join_numbers(given)));
  }
  if (overlaps_itself(counts)) {
    fail(join(
        op, ": counts must have memory for each of its elements, got strides that share it: ",
        "pass counts.clone()"));
  }
}

bool share_memory(const Tensor& a, const Tensor& b) {
  const Bytes of_a(a), of_b(b);
  return of_a.begin < of_b.end && of_b.begin < of_a.end;
}

void mark_changed(std::string_view op, std::string_view argument, const Tensor& tensor) {
  // It changes nothing but the version.
  std::array<StableIValue, 3> stack{
      torch::stable::detail::from(tensor), torch::stable::detail::from(int64_t{0}),
      torch::stable::detail::from(int64_t{0})};
  if (torch_call_dispatcher("aten::transpose_", "", stack.data(), TORCH_ABI_VERSION) != 0) {
    fail(join(
        op, ": ", argument, " must be a tensor that may change here, got one that was made in ",
        "inference mode: pass ", argument, ".clone()"));
  }
  torch::stable::detail::to<Tensor>(stack[0]); // which this frees
}

void add_terms(const Tensor& counts, const HistogramAddCall& call) {
  if (!call.terms) {
    return;
  }
  // The stable ABI has no add: that takes a Scalar.
  Tensor before = torch::stable::select(*call.terms, 0, 0), sum = counts;
  torch::stable::copy_(before, counts);
  const int64_t terms = 0;
  torch::stable::sum_out(sum, *call.terms, torch::headeronly::IntHeaderOnlyArrayRef(&terms, 1));
}

} // namespace histo
