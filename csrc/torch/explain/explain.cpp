#include "torch/explain/explain.h"

#include <algorithm>
#include <optional>

#include <torch/csrc/stable/library.h>

#include "cpu/count/schedule.h"
#include "cpu/digitize/digitize.h"
#include "cpu/digitize/patterns.h"
#include "cpu/plan.h"
#include "cpu/processor.h"

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

/// How integers are counted.
struct CountFacts {
  Facts groups{{"layout", Facts{{"method", "nothing to count"}}}};
  int64_t workspace_bytes = 0;

  CountFacts() = default;
  CountFacts(const Problem& problem, const cpu::CpuPlan& plan)
      : groups(facts_of(plan, problem)), workspace_bytes(cpu::workspace_bytes(plan, problem)) {
  }
};

std::string plan_values_on_cpu(
    std::string dtype,
    std::vector<int64_t> sizes,
    std::vector<int64_t> strides,
    int64_t num_bins,
    std::vector<int64_t> dim) {
  const Described input{dtype, sizes, strides};
  const Checked checked = check_channel_histogram(input.description("cpu"), num_bins, dim, "auto");
  const DescribedProblem asked(input, checked, num_bins);
  CountFacts facts;
  if (!asked.is_empty()) {
    facts = {asked.problem, cpu::plan_of(asked.problem)};
  }
  facts.groups.push_back(asked.memory(facts.workspace_bytes, 0));
  facts.groups.emplace_back("processor", Facts{{"loops", cpu::chosen_loops()}});
  return json(facts.groups);
}

std::string plan_numbers_on_cpu(
    int64_t num_bins,
    std::string dtype,
    std::vector<int64_t> sizes,
    std::vector<int64_t> strides,
    Dims dim,
    bool flow) {
  const Described input{dtype, sizes, strides};
  const Checked checked = check_numbers("histogram", input.description("cpu"), dim);
  const DescribedProblem asked(input, checked, Flow{flow}.num_counts(num_bins));
  Facts layout{{"layout", "nothing to count"}};
  CountFacts keys;
  Problem counted = asked.problem; // patterns, or slots
  counted.type = ElementType::kUInt8;
  int64_t workspace = 0;
  if (!asked.is_empty()) {
    const std::optional<Problem> patterns = cpu::patterns_of(asked.problem);
    if (patterns) {
      counted = *patterns;
      workspace = counted.num_counts() * int64_t{sizeof(int64_t)};
    } else {
      counted.type = cpu::slot_type_of(asked.problem, num_bins, {flow});
    }
    keys = {counted, patterns ? cpu::plan_of(counted) : cpu::plan_of_slots(counted)};
    layout = {
        {"layout", patterns ? "patterns" : "staged"},
        {"key_bytes", cpu::size_of(counted.type)},
        {"bins_by", "formula or cells"}};
  }
  workspace += keys.workspace_bytes;
  keys.groups.emplace_back("memory", Facts{{"workspace_bytes", keys.workspace_bytes}});
  const Fact processor("processor", Facts{{"loops", cpu::chosen_loops()}});
  keys.groups.push_back(processor);
  keys.groups.emplace_back("dtype", "uint" + std::to_string(8 * cpu::size_of(counted.type)));
  keys.groups.emplace_back("num_bins", counted.num_bins);
  return json({{"layout", layout}, {"keys", keys.groups}, asked.memory(workspace, 0), processor});
}

} // namespace
} // namespace histo

STABLE_TORCH_LIBRARY_IMPL(histo, CompositeExplicitAutograd, m) {
  m.impl("_plan_channel_histogram_on_cpu", TORCH_BOX(&histo::plan_values_on_cpu));
  m.impl("_plan_histogram_on_cpu", TORCH_BOX(&histo::plan_numbers_on_cpu));
}
