// Facts about the plan of sums of weights on a GPU.
#include <optional>
#include <string>

#include <torch/csrc/stable/library.h>

#include "core/weights.h"
#include "cuda/plan/weights_plan.h"
#include "torch/arguments.h"
#include "torch/explain/explain.h"

namespace histo {
namespace {

std::vector<Extent> extents_of(const Described& operand) {
  std::vector<Extent> dimensions;
  for (size_t d = 0; d < operand.sizes.size(); ++d) {
    dimensions.push_back({operand.sizes[d], operand.strides[d]});
  }
  return dimensions;
}

const void* pointer_to(int64_t address, bool is_copied) {
  return reinterpret_cast<const void*>(static_cast<uintptr_t>(is_copied ? 0 : address));
}

void add_table(Facts& facts, const cuda::WordTable& table, int64_t sum_digits) {
  facts.add("words", int64_t{table.words});
  facts.add("copies", int64_t{1} << table.log_copies);
  facts.add("has_all_digits", table.words >= sum_digits);
}

void add_layout(Facts& facts, const cuda::WeightsPlan& plan, int64_t sum_digits) {
  switch (plan.layout) {
    case cuda::WeightsLayout::kStreams:
      facts.add("layout", "streams");
      facts.add("chunks", int64_t{plan.streams.chunks});
      facts.add("parts", int64_t{plan.streams.parts});
      return add_table(facts, plan.streams.table, sum_digits);
    case cuda::WeightsLayout::kColumns:
      facts.add("layout", "columns");
      facts.add("chunks", int64_t{plan.columns.chunks});
      return add_table(facts, plan.columns.table, sum_digits);
    case cuda::WeightsLayout::kTiles:
      facts.add("layout", "tiles");
  }
}

std::string plan_weights(
    std::string edge_dtype,
    bool shared_edges,
    int64_t num_bins,
    std::vector<int64_t> sizes,
    std::string dtype,
    std::vector<int64_t> strides,
    int64_t address,
    std::string weight_dtype,
    std::vector<int64_t> weight_strides,
    int64_t weight_address,
    std::optional<std::vector<int64_t>> dim,
    bool flow,
    int64_t sm_count,
    int64_t shared_bytes_per_block,
    int64_t shared_bytes_per_sm,
    int64_t capability) {
  const Described input{dtype, sizes, strides}, weight{weight_dtype, sizes, weight_strides};
  const Checked checked = check_numbers("histogram", input.description("cuda"), dim);
  const ElementType type = *element_type(weight_dtype);
  Copies copies;
  Problem problem = loops_as_problem(
      {{checked.element, extents_of(input)}, {type, extents_of(weight)}}, checked.kept,
      Flow{flow}.num_counts(num_bins), copies);
  problem.sum_size = sum_layout(type).size();
  problem.operand(0).data = pointer_to(address, !copies[0].empty());
  problem.operand(1).data = pointer_to(weight_address, !copies[1].empty());
  const cuda::DeviceLimits limits{
      static_cast<int>(sm_count), shared_bytes_per_block, shared_bytes_per_sm,
      static_cast<int>(capability)};
  const Edges edges = Edges::all(nullptr, *element_type(edge_dtype), num_bins, shared_edges);
  Facts facts;
  const cuda::WeightsPlan plan = cuda::plan_weights(problem, &edges, limits);
  add_layout(facts, plan, sum_layout(type).digits);
  facts.add("blocks", plan.blocks);
  facts.add("shared_bytes", plan.shared_bytes);
  return facts.json();
}

} // namespace
} // namespace histo

STABLE_TORCH_LIBRARY_IMPL(histo, CompositeExplicitAutograd, m) {
  m.impl("_plan_weights", TORCH_BOX(&histo::plan_weights));
}
