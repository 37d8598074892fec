// Operators that tell how the CPU or a GPU would count. No GPU needs to be present.
#include "torch/explain/explain.h"

#include <algorithm>
#include <optional>

#include <torch/csrc/stable/library.h>

#include "core/weights.h"
#include "cuda/plan/facts.h"
#include "cuda/plan/gather_plan.h"
#include "cuda/plan/warp_sums_plan.h"

namespace histo {

std::vector<Extent> Described::dimensions() const {
  if (sizes.size() != strides.size()) {
    fail(
        "explain: strides must be as many as sizes, " + std::to_string(sizes.size()) + ", got " +
        std::to_string(strides.size()));
  }
  std::vector<Extent> dimensions;
  for (size_t d = 0; d < sizes.size(); ++d) {
    dimensions.push_back({sizes[d], strides[d]});
  }
  return dimensions;
}

DescribedProblem::DescribedProblem(
    const Described& input, const Checked& checked, int64_t num_counts) {
  const std::vector<Extent> dimensions = input.dimensions();
  Copies copies;
  problem = loops_as_problem({{checked.element, dimensions}}, checked.kept, num_counts, copies);
  copies_input = !copies[0].empty();
  problem.data = input.data(copies_input);
  int64_t last = 0; // element
  for (const Extent& dimension : dimensions) {
    last += (dimension.size - 1) * dimension.stride;
  }
  const int64_t size = visit_number_type(problem.type, [](auto tag) {
    return static_cast<int64_t>(sizeof(typename decltype(tag)::type));
  });
  bytes_read = problem.num_channels() * problem.num_rows() * size;
  bytes_of_counts = problem.num_counts() * int64_t{sizeof(int64_t)};
  bytes_spanned = (last + 1) * size;
}

Fact DescribedProblem::memory(int64_t workspace_bytes, int64_t bytes_of_gaps) const {
  const int64_t read = std::min(bytes_read + bytes_of_gaps, bytes_spanned);
  return {
      "memory", Facts{
                    {"copies_input", copies_input},
                    {"bytes_read", bytes_read},
                    {"bytes_of_gaps", bytes_of_gaps},
                    {"bytes_of_counts", bytes_of_counts},
                    {"workspace_bytes", workspace_bytes},
                    {"bytes_moved", read + bytes_of_counts + (copies_input ? 2 : 0) * bytes_read}}};
}

namespace {

using namespace cuda;

/// The limits of a GPU: SMs, shared bytes of a block and of an SM, and the compute capability, 90
/// for 9.0. The CPU has none.
using Gpu = std::vector<int64_t>;

DeviceLimits limits_of(const Gpu& gpu) {
  return {static_cast<int>(gpu.at(0)), gpu.at(1), gpu.at(2), static_cast<int>(gpu.at(3))};
}

Facts groups_of(PlanFacts plan, const DescribedProblem& asked) {
  plan.groups.push_back(launches_of(plan.steps));
  plan.groups.push_back(asked.memory(plan.workspace_bytes, plan.bytes_of_gaps));
  return plan.groups;
}

/// An empty input: only the result is zeroed. `name`: the fact that tells how elements are counted.
Facts facts_of_nothing(const char* name, const DescribedProblem& asked, const Gpu& gpu) {
  const Fact layout("layout", Facts{{name, "nothing to count"}});
  if (gpu.empty()) {
    return {layout, asked.memory(0, 0), processor()};
  }
  return groups_of({{layout}, Steps(asked.problem.num_counts() > 0 ? 1 : 0, "zeroing")}, asked);
}

std::string plan_channel_histogram(
    std::string dtype,
    std::vector<int64_t> sizes,
    std::vector<int64_t> strides,
    int64_t address,
    Gpu gpu,
    int64_t num_bins,
    std::vector<int64_t> dim) {
  const Described input{dtype, sizes, strides, address};
  const Checked checked = check_channel_histogram(input.description(), num_bins, dim, "auto");
  const DescribedProblem asked(input, checked, num_bins);
  if (asked.is_empty()) {
    return json(facts_of_nothing("method", asked, gpu));
  }
  if (gpu.empty()) {
    return json(values_on_cpu(asked));
  }
  const Problem& problem = asked.problem;
  const TableEntries entries = entries_of(problem, byte_axis(problem.type, ValueBinning{num_bins}));
  return json(groups_of(facts_of(make_plan(problem, entries, limits_of(gpu)), problem), asked));
}

Facts numbers_on_gpu(
    DescribedProblem asked, const Edges& edges, bool is_one_call, const DeviceLimits& limits) {
  Problem& problem = asked.problem;
  if (const auto copy = plan_copy(problem)) {
    asked.copies_input = true;
    problem = problem_of_copy(problem, *copy, nullptr);
  }
  const PlanFacts facts =
      is_one_call ? facts_of(plan_uniform(problem, edges, limits), problem, edges, limits)
                  : facts_of(plan_edges(problem, edges, limits), problem, edges, limits);
  return groups_of(facts, asked);
}

/// How weights are summed. They take `calls` calls, and the largest one has `bytes_of_digits` bytes
/// of digits, unless the sums are rounded at once and a kernel can keep the digits.
Facts facts_of_weights(
    const Problem& problem,
    const Edges& edges,
    const Gpu& gpu,
    bool rounds,
    int64_t calls,
    int64_t bytes_of_digits) {
  const SumLayout sum = sum_layout(problem.operand(1).type);
  const bool is_empty = problem.num_counts() == 0 || problem.num_rows() == 0;
  // An empty input has no sums, so none are told.
  const bool multiplies = is_empty || has_one_weight_a_channel(problem.operand(1));
  Facts sums;
  if (!gpu.empty() && !is_empty) {
    const DeviceLimits limits = limits_of(gpu);
    const auto warps = rounds ? plan_warp_sums(problem, edges, limits) : std::nullopt;
    if (warps) {
      calls = 1;
      bytes_of_digits = 0;
    }
    if (!multiplies && calls == 1) { // each of several calls has its own plan
      sums = warps ? facts_of(*warps) : facts_of(plan_weights(problem, &edges, limits), sum.digits);
    }
  }
  const Facts weights{
      {"multiplies", multiplies},
      {"sum_size", sum.size()},
      {"calls", calls},
      {"bytes_of_digits", bytes_of_digits}};
  return {{"weights", weights}, {"sums", sums}};
}

std::string plan_histogram(
    std::string dtype,
    std::vector<int64_t> sizes,
    std::vector<int64_t> strides,
    int64_t address,
    Gpu gpu,
    int64_t num_bins,
    std::vector<int64_t> dim,
    std::string edge_dtype,
    bool shared_edges,
    bool flow,
    bool is_one_call,
    std::string weight_dtype,
    std::vector<int64_t> weight_sizes,
    std::vector<int64_t> weight_strides,
    int64_t weight_address,
    bool rounds,
    int64_t calls,
    int64_t bytes_of_digits) {
  const Described input{dtype, sizes, strides, address};
  const Checked checked = check_numbers("histogram", input.description(), dim);
  const int64_t num_counts = Flow{flow}.num_counts(num_bins);
  const DescribedProblem asked(input, checked, num_counts);
  const Edges edges = Edges::all(nullptr, *element_type(edge_dtype), num_bins, shared_edges);
  Facts facts = asked.is_empty() ? facts_of_nothing("layout", asked, gpu)
                : gpu.empty()    ? numbers_on_cpu(asked, num_bins, {flow})
                                 : numbers_on_gpu(asked, edges, is_one_call, limits_of(gpu));
  if (!weight_dtype.empty()) {
    const Described weight{weight_dtype, weight_sizes, weight_strides, weight_address};
    const ElementType type = *element_type(weight_dtype);
    Copies copies;
    Problem problem = loops_as_problem(
        {{checked.element, input.dimensions()}, {type, weight.dimensions()}}, checked.kept,
        num_counts, copies);
    problem.sum_size = sum_layout(type).size();
    problem.operand(0).data = input.data(!copies[0].empty());
    problem.operand(1).data = weight.data(!copies[1].empty());
    const Facts more = facts_of_weights(problem, edges, gpu, rounds, calls, bytes_of_digits);
    facts.insert(facts.end(), more.begin(), more.end());
  }
  return json(facts);
}

} // namespace
} // namespace histo

STABLE_TORCH_LIBRARY_IMPL(histo, CompositeExplicitAutograd, m) {
  m.impl("_plan_channel_histogram", TORCH_BOX(&histo::plan_channel_histogram));
  m.impl("_plan_histogram", TORCH_BOX(&histo::plan_histogram));
}
