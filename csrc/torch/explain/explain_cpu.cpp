// Facts about the plan of the CPU.
#include <optional>

#include "cpu/count/schedule.h"
#include "cpu/digitize/digitize.h"
#include "cpu/digitize/patterns.h"
#include "cpu/plan.h"
#include "cpu/processor.h"
#include "torch/explain/explain.h"

namespace histo {

Fact processor() {
  return {"processor", Facts{{"loops", cpu::chosen_loops()}}};
}

Facts values_on_cpu(const DescribedProblem& asked) {
  const cpu::CpuPlan plan = cpu::plan_of(asked.problem);
  Facts facts = facts_of(plan, asked.problem);
  facts.push_back(asked.memory(cpu::workspace_bytes(plan, asked.problem), 0));
  facts.push_back(processor());
  return facts;
}

Facts numbers_on_cpu(const DescribedProblem& asked, int64_t num_bins, const Flow& flow) {
  const std::optional<Problem> patterns = cpu::patterns_of(asked.problem);
  Problem counted = patterns.value_or(asked.problem); // patterns, or slots
  if (!patterns) {
    counted.type = cpu::slot_type_of(asked.problem, num_bins, flow);
  }
  const cpu::CpuPlan plan = patterns ? cpu::plan_of(counted) : cpu::plan_of_slots(counted);
  const int64_t workspace = cpu::workspace_bytes(plan, counted);
  const int64_t key_bytes = cpu::size_of(counted.type);
  Facts keys = facts_of(plan, counted);
  keys.emplace_back("memory", Facts{{"workspace_bytes", workspace}});
  keys.push_back(processor());
  keys.emplace_back("dtype", "uint" + std::to_string(8 * key_bytes));
  keys.emplace_back("num_bins", counted.num_bins);
  const Facts layout{
      {"layout", patterns ? "patterns" : "staged"},
      {"key_bytes", key_bytes},
      {"bins_by", "formula or cells"}};
  const int64_t of_patterns = patterns ? counted.num_counts() * int64_t{sizeof(int64_t)} : 0;
  return {
      {"layout", layout}, {"keys", keys}, asked.memory(workspace + of_patterns, 0), processor()};
}

} // namespace histo
