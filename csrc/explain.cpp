#include "explain.h"

#include <algorithm>

#include <torch/csrc/stable/library.h>

#include "arguments.h"
#include "cpu/plan.h"
#include "cpu/processor.h"
#include "cpu/schedule.h"

namespace histo {

std::ostream& Facts::next(const char* name) {
  text_ << (text_.tellp() > 0 ? ", " : "") << '"' << name << "\": ";
  return text_;
}
void Facts::add(const char* name, int64_t value) {
  next(name) << value;
}
void Facts::add(const char* name, bool value) {
  next(name) << (value ? "true" : "false");
}
void Facts::add(const char* name, const std::string& value) {
  next(name) << '"' << value << '"';
}
void Facts::add(const char* name, const char* value) {
  add(name, std::string(value));
}
void Facts::add(const char* name, const std::vector<std::string>& values) {
  std::ostream& text = next(name);
  const char* between = "[";
  for (const std::string& value : values) {
    text << between << '"' << value << '"';
    between = ", ";
  }
  text << (values.empty() ? "[]" : "]");
}
std::string Facts::json() const {
  return "{" + text_.str() + "}";
}

DescribedProblem describe_problem(
    const char* op, const char* device, const Described& input, Facts& facts) {
  const auto ndim = static_cast<int64_t>(input.sizes.size());
  if (input.sizes.size() != input.strides.size()) {
    fail(
        std::string(op) + ": strides must be as many as sizes, " + std::to_string(ndim) + ", got " +
        std::to_string(input.strides.size()));
  }
  const Checked checked = check_channel_histogram(
      {device, input.dtype, "strided", true, ndim}, input.num_bins, input.dim, "auto");
  std::vector<Extent> dimensions;
  int64_t last = 0; // element
  for (size_t d = 0; d < input.sizes.size(); ++d) {
    dimensions.push_back({input.sizes[d], input.strides[d]});
    last += (input.sizes[d] - 1) * input.strides[d];
  }
  DescribedProblem found{};
  found.problem = loops_as_problem(dimensions, checked, input.num_bins, found.copies_input);
  const int64_t size = cpu::size_of(found.problem.type);
  found.bytes_read = found.problem.num_channels() * found.problem.num_rows() * size;
  found.bytes_of_counts = found.problem.num_counts() * int64_t{sizeof(int64_t)};
  found.bytes_spanned = (last + 1) * size;
  facts.add("bytes_read", found.bytes_read);
  facts.add("bytes_of_counts", found.bytes_of_counts);
  facts.add("copies_input", found.copies_input);
  return found;
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
int64_t counter_bits_of(const cpu::Plan& plan) {
  const bool narrow = plan.counting == cpu::Counting::kIn16Bits;
  return plan.way == cpu::Way::kDirect || plan.way == cpu::Way::kBitPlanes ? 64
         : plan.way == cpu::Way::kProducts || !narrow                      ? 32
                                                                           : 16;
}

std::string plan_on_cpu(
    std::string dtype,
    std::vector<int64_t> sizes,
    std::vector<int64_t> strides,
    int64_t num_bins,
    std::vector<int64_t> dim) {
  Facts facts;
  const DescribedProblem asked = describe_problem(
      "_plan_channel_histogram_on_cpu", "cpu", {dtype, sizes, strides, num_bins, dim}, facts);
  const Problem& problem = asked.problem;
  facts.add("loops", cpu::chosen_loops());
  if (asked.is_empty()) {
    facts.add("method", "nothing to count");
    return facts.json();
  }
  const cpu::Plan plan = cpu::plan_of(problem);
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
    return facts.json();
  }
  const cpu::Schedule schedule(problem, plan);
  facts.add("threads", schedule.workers);
  facts.add("strips", schedule.strips.count);
  facts.add("tasks", schedule.tasks);
  facts.add("neighbours", plan.joint);
  facts.add("byte_counters", plan.byte_values);
  facts.add("tables", plan.few.tables + plan.many.tables);
  facts.add("table_keys", std::max(plan.few.indices, plan.many.indices));
  facts.add("table_bytes", plan.table_bytes);
  facts.add("workspace_bytes", schedule.scratch_bytes(plan));
  return facts.json();
}

} // namespace
} // namespace histo

STABLE_TORCH_LIBRARY_IMPL(histo, CompositeExplicitAutograd, m) {
  m.impl("_plan_channel_histogram_on_cpu", TORCH_BOX(&histo::plan_on_cpu));
}
