// Facts about the plan of a GPU, which need not be there.
#include <optional>

#include <torch/csrc/stable/library.h>

#include "core/weights.h"
#include "cuda/plan/facts.h"
#include "cuda/plan/gather_plan.h"
#include "cuda/plan/warp_sums_plan.h"
#include "torch/explain/explain.h"

namespace histo {
namespace {

using namespace cuda;

/// The address of an operand, or of its copy.
const void* pointer_to(int64_t address, bool is_copied) {
  return reinterpret_cast<const void*>(static_cast<uintptr_t>(is_copied ? 0 : address));
}

DeviceLimits limits_of(
    int64_t sm_count,
    int64_t shared_bytes_per_block,
    int64_t shared_bytes_per_sm,
    int64_t capability) {
  return {
      static_cast<int>(sm_count), shared_bytes_per_block, shared_bytes_per_sm,
      static_cast<int>(capability)};
}

/// Of an empty input only the result is zeroed. `name`: of what tells how it is counted.
PlanFacts facts_of_nothing(const DescribedProblem& asked, const char* name) {
  return {
      {{"layout", Facts{{name, "nothing to count"}}}},
      Steps(asked.problem.num_counts() > 0 ? 1 : 0, "zeroing")};
}

std::string json_of(PlanFacts plan, const DescribedProblem& asked) {
  plan.groups.push_back(launches_of(plan.steps));
  plan.groups.push_back(asked.memory(plan.workspace_bytes, plan.bytes_of_gaps));
  return json(plan.groups);
}

std::string plan_channel_histogram(
    std::string dtype,
    std::vector<int64_t> sizes,
    std::vector<int64_t> strides,
    int64_t address,
    int64_t num_bins,
    std::vector<int64_t> dim,
    int64_t sm_count,
    int64_t shared_bytes_per_block,
    int64_t shared_bytes_per_sm,
    int64_t capability) {
  const Described input{dtype, sizes, strides};
  const Checked checked = check_channel_histogram(input.description("cuda"), num_bins, dim, "auto");
  const DescribedProblem asked(input, checked, num_bins);
  if (asked.is_empty()) {
    return json_of(facts_of_nothing(asked, "method"), asked);
  }
  Problem problem = asked.problem;
  problem.data = pointer_to(address, asked.copies_input);
  const TableEntries entries = entries_of(problem, byte_axis(problem.type, ValueBinning{num_bins}));
  const CountPlan plan = make_plan(
      problem, entries,
      limits_of(sm_count, shared_bytes_per_block, shared_bytes_per_sm, capability));
  return json_of(facts_of(plan, problem), asked);
}

std::string plan_histogram(
    std::string edge_dtype,
    bool shared_edges,
    int64_t num_bins,
    std::string dtype,
    std::vector<int64_t> sizes,
    std::vector<int64_t> strides,
    int64_t address,
    Dims dim,
    bool flow,
    int64_t sm_count,
    int64_t shared_bytes_per_block,
    int64_t shared_bytes_per_sm,
    int64_t capability,
    std::optional<bool> own_ranges) {
  const Described input{dtype, sizes, strides};
  const Checked checked = check_numbers("histogram", input.description("cuda"), dim);
  DescribedProblem asked(input, checked, Flow{flow}.num_counts(num_bins));
  if (asked.is_empty()) {
    return json_of(facts_of_nothing(asked, "layout"), asked);
  }
  Problem problem = asked.problem;
  problem.data = pointer_to(address, asked.copies_input);
  if (const auto copy = plan_copy(problem)) {
    asked.copies_input = true;
    problem = problem_of_copy(problem, *copy, pointer_to(0, true));
  }
  const DeviceLimits limits =
      limits_of(sm_count, shared_bytes_per_block, shared_bytes_per_sm, capability);
  // Edges of one channel are its own if they lie between its extremes.
  const bool shared = own_ranges.has_value() ? !*own_ranges : shared_edges;
  const Edges edges = Edges::all(nullptr, *element_type(edge_dtype), num_bins, shared);
  const PlanFacts facts =
      own_ranges.has_value()
          ? facts_of(plan_uniform(problem, edges, limits), problem, edges, limits)
          : facts_of(plan_edges(problem, edges, limits), problem, edges, limits);
  return json_of(facts, asked);
}

std::string plan_sums(
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
    Dims dim,
    bool flow,
    bool rounds,
    int64_t sm_count,
    int64_t shared_bytes_per_block,
    int64_t shared_bytes_per_sm,
    int64_t capability) {
  const Described input{dtype, sizes, strides}, weight{weight_dtype, sizes, weight_strides};
  const Checked checked = check_numbers("histogram", input.description("cuda"), dim);
  const ElementType type = *element_type(weight_dtype);
  Copies copies;
  Problem problem = loops_as_problem(
      {{checked.element, input.dimensions()}, {type, weight.dimensions()}}, checked.kept,
      Flow{flow}.num_counts(num_bins), copies);
  problem.sum_size = sum_layout(type).size();
  problem.operand(0).data = pointer_to(address, !copies[0].empty());
  problem.operand(1).data = pointer_to(weight_address, !copies[1].empty());
  const Edges edges = Edges::all(nullptr, *element_type(edge_dtype), num_bins, shared_edges);
  const DeviceLimits limits =
      limits_of(sm_count, shared_bytes_per_block, shared_bytes_per_sm, capability);
  if (rounds) {
    if (const auto plan = plan_warp_sums(problem, edges, limits)) {
      return json(facts_of(*plan));
    }
  }
  return json(facts_of(plan_weights(problem, &edges, limits), sum_layout(type).digits));
}

} // namespace
} // namespace histo

STABLE_TORCH_LIBRARY_IMPL(histo, CompositeExplicitAutograd, m) {
  m.impl("_plan_channel_histogram", TORCH_BOX(&histo::plan_channel_histogram));
  m.impl("_plan_histogram", TORCH_BOX(&histo::plan_histogram));
  m.impl("_plan_weights", TORCH_BOX(&histo::plan_sums));
}
