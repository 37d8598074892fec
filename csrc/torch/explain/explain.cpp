#include "torch/explain/explain.h"

#include <algorithm>

#include <torch/csrc/stable/library.h>

#include "cpu/count/schedule.h"
#include "cpu/plan.h"
#include "cpu/processor.h"
#include "torch/arguments.h"

namespace histo {

namespace {

std::string quoted(const std::string& text) {
  return '"' + text + '"';
}

/// A list of what text_of(value) makes of each value.
template <class T, class F>
std::string list_of(const std::vector<T>& values, const F& text_of) {
  std::string text;
  for (const T& value : values) {
    text += (text.empty() ? "" : ", ") + text_of(value);
  }
  return '[' + text + ']';
}

} // namespace

void Facts::add_text(const char* name, const std::string& text) {
  text_ += (text_.empty() ? "" : ", ") + quoted(name) + ": " + text;
}
void Facts::add(const char* name, int64_t value) {
  add_text(name, std::to_string(value));
}
void Facts::add(const char* name, bool value) {
  add_text(name, value ? "true" : "false");
}
void Facts::add(const char* name, const std::string& value) {
  add_text(name, quoted(value));
}
void Facts::add(const char* name, const char* value) {
  add(name, std::string(value));
}
void Facts::add(const char* name, const std::vector<std::string>& values) {
  add_text(name, list_of(values, quoted));
}
void Facts::add(const char* name, const std::vector<Facts>& values) {
  add_text(name, list_of(values, [](const Facts& facts) { return facts.json(); }));
}
void Facts::add(const char* name, const Facts& values) {
  add_text(name, values.json());
}
std::string Facts::json() const {
  return '{' + text_ + '}';
}

DescribedProblem describe_problem(
    const char* op,
    const Described& input,
    const Checked& checked,
    int64_t num_counts,
    Facts& facts) {
  if (input.sizes.size() != input.strides.size()) {
    fail(
        std::string(op) + ": strides must be as many as sizes, " +
        std::to_string(input.sizes.size()) + ", got " + std::to_string(input.strides.size()));
  }
  std::vector<Extent> dimensions;
  int64_t last = 0; // element
  for (size_t d = 0; d < input.sizes.size(); ++d) {
    dimensions.push_back({input.sizes[d], input.strides[d]});
    last += (input.sizes[d] - 1) * input.strides[d];
  }
  DescribedProblem found{};
  found.problem = loops_as_problem(dimensions, checked, num_counts, found.copies_input);
  const int64_t size = visit_number_type(found.problem.type, [](auto tag) {
    return static_cast<int64_t>(sizeof(typename decltype(tag)::type));
  });
  found.bytes_read = found.problem.num_channels() * found.problem.num_rows() * size;
  found.bytes_of_counts = found.problem.num_counts() * int64_t{sizeof(int64_t)};
  found.bytes_spanned = (last + 1) * size;
  facts.add("bytes_read", found.bytes_read);
  facts.add("bytes_of_counts", found.bytes_of_counts);
  facts.add("copies_input", found.copies_input);
  return found;
}

void add_bytes(Facts& facts, const DescribedProblem& asked, int64_t bytes_of_gaps) {
  const int64_t read = std::min(asked.bytes_read + bytes_of_gaps, asked.bytes_spanned);
  facts.add(
      "bytes_moved",
      read + asked.bytes_of_counts + (asked.copies_input ? 2 : 0) * asked.bytes_read);
}

namespace {

const char* name_of(cpu::Way way) {
  switch (way) {
    case cpu::Way::kDirect:
      return "direct";
    case cpu::Way::kStreams:
      return "streams";
    case cpu::Way::kColumns:
      return "columns";
    case cpu::Way::kBitPlanes:
      return "bit planes";
    case cpu::Way::kProducts:
      return "products";
  }
  fail("explain: a way of counting without a name");
}

/// The widest counters of a table; values that differ may have narrower ones besides.
int64_t counter_bits_of(const cpu::CpuPlan& plan) {
  const bool narrow = plan.counting == cpu::Counting::kIn16Bits;
  return plan.way == cpu::Way::kDirect || plan.way == cpu::Way::kBitPlanes ? 64
         : plan.way == cpu::Way::kProducts || !narrow                      ? 32
                                                                           : 16;
}

} // namespace

void add_plan(Facts& facts, const Problem& problem, const cpu::CpuPlan& plan) {
  facts.add("method", plan.products ? "products" : name_of(plan.way));
  facts.add("strip", plan.strip);
  facts.add("counter_bits", counter_bits_of(plan));
  if (plan.way == cpu::Way::kDirect) {
    const cpu::Sharing sharing = cpu::sharing_of(problem, plan);
    const bool has_copies = sharing == cpu::Sharing::kCopies;
    facts.add("threads", cpu::workers_of(problem));
    facts.add(
        "sharing", sharing == cpu::Sharing::kChannels ? "channels"
                   : has_copies                       ? "copies"
                                                      : "atomic");
    facts.add(
        "workspace_bytes", has_copies ? cpu::workers_of(problem) * problem.num_counts() * 8 : 0);
    return;
  }
  const cpu::Schedule schedule(problem, plan);
  facts.add("threads", schedule.workers);
  facts.add("strips", schedule.strips.count);
  facts.add("tasks", schedule.tasks);
  facts.add("neighbours", plan.joint);
  facts.add("byte_counters", plan.byte_values);
  facts.add("tables", plan.tables_if_distinct.tables + plan.tables_if_repeated.tables);
  facts.add(
      "table_keys", std::max(plan.tables_if_distinct.indices, plan.tables_if_repeated.indices));
  facts.add("table_bytes", plan.table_bytes);
  facts.add("workspace_bytes", schedule.scratch_bytes(plan));
}

namespace {

std::string plan_on_cpu(
    std::string dtype,
    std::vector<int64_t> sizes,
    std::vector<int64_t> strides,
    int64_t num_bins,
    std::vector<int64_t> dim) {
  Facts facts;
  const Described input{dtype, sizes, strides};
  const Checked checked = check_channel_histogram(input.description("cpu"), num_bins, dim, "auto");
  const DescribedProblem asked =
      describe_problem("_plan_channel_histogram_on_cpu", input, checked, num_bins, facts);
  facts.add("loops", cpu::chosen_loops());
  if (asked.is_empty()) {
    facts.add("method", "nothing to count");
  } else {
    add_plan(facts, asked.problem, cpu::plan_of(asked.problem));
  }
  return facts.json();
}

} // namespace
} // namespace histo

STABLE_TORCH_LIBRARY_IMPL(histo, CompositeExplicitAutograd, m) {
  m.impl("_plan_channel_histogram_on_cpu", TORCH_BOX(&histo::plan_on_cpu));
}
