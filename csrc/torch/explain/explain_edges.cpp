// Facts about the plan of a histogram between edges, on the CPU and on a GPU.
#include <algorithm>
#include <optional>
#include <string>

#include <torch/csrc/stable/library.h>

#include "cpu/digitize/digitize.h"
#include "cpu/digitize/patterns.h"
#include "cpu/processor.h"
#include "cuda/plan/uniform_plan.h"
#include "torch/arguments.h"
#include "torch/explain/explain.h"

namespace histo {
namespace {

std::string plan_on_cpu(
    int64_t num_bins,
    std::string dtype,
    std::vector<int64_t> sizes,
    std::vector<int64_t> strides,
    std::optional<std::vector<int64_t>> dim,
    bool flow) {
  Facts facts, counting;
  const Described input{dtype, sizes, strides};
  const Checked checked = check_numbers("histogram", input.description("cpu"), dim);
  const DescribedProblem asked = describe_problem(
      "_plan_histogram_on_cpu", input, checked, Flow{flow}.num_counts(num_bins), facts);
  counting.add("loops", cpu::chosen_loops());
  if (asked.is_empty()) {
    counting.add("method", "nothing to count");
    facts.add("layout", "nothing to count");
  } else {
    const std::optional<Problem> patterns = cpu::patterns_of(asked.problem);
    Problem counted = patterns.value_or(asked.problem); // patterns, or slots
    if (patterns) {
      add_plan(counting, counted, cpu::plan_of(counted));
    } else {
      counted.type = cpu::slot_type_of(asked.problem, num_bins, {flow});
      add_plan(counting, counted, cpu::plan_of_slots(counted));
    }
    facts.add("layout", patterns ? "patterns" : "staged");
    facts.add("key_bytes", cpu::size_of(counted.type));
    facts.add("workspace_bytes", patterns ? counted.num_counts() * int64_t{sizeof(int64_t)} : 0);
    facts.add("bins_by", "formula or cells");
  }
  add_bytes(facts, asked, 0);
  facts.add("keys", counting);
  return facts.json();
}

/// Extremes of parts of channels, or sums of raw bytes.
int64_t extremes_bytes(const Problem& problem, const cuda::DeviceLimits& limits) {
  const int64_t bytes = cuda::bytes_of_type(problem.type);
  if (bytes == 1) {
    return problem.num_channels() * 256 * int64_t{sizeof(int64_t)};
  }
  const int64_t parts = cuda::plan_extremes(problem, limits).parts();
  return parts > 1 ? problem.num_channels() * parts * 2 * std::max<int64_t>(bytes, 4) : 0;
}

/// Besides that of the count of raw bytes.
int64_t workspace_of(const Problem& problem, const Edges& edges, const cuda::EdgePlan& plan) {
  if (plan.layout == cuda::EdgeLayout::kBytes) {
    return problem.num_channels() * 256 * int64_t{sizeof(int64_t)};
  }
  if (plan.layout == cuda::EdgeLayout::kColumns) {
    return cuda::ColumnMemory::of(plan.columns, edges, problem.type).bytes();
  }
  return plan.checks_channels() ? (edges.shared ? 1 : problem.num_channels()) : 0;
}

/// The same of one call that makes the edges, too.
int64_t workspace_of(
    const Problem& problem,
    const Edges& edges,
    const cuda::UniformPlan& plan,
    const cuda::DeviceLimits& limits) {
  if (plan.layout == cuda::UniformLayout::kShort) {
    return 0;
  }
  const bool computes_edges = plan.computes_edges(edges);
  int64_t bytes = computes_edges ? 0 : workspace_of(problem, edges, plan.edges);
  if (!edges.shared) {
    const int64_t of_edge = edges.type == ElementType::kFloat32 ? 4 : 8;
    bytes += 2 * problem.num_channels() * of_edge;
    bytes += extremes_bytes(problem, limits);
  }
  return bytes;
}

/// The facts of columns in either table.
void add_columns(Facts& facts, const cuda::ChannelColumns& columns) {
  const int64_t places = columns.places();
  facts.add("columns", columns.columns);
  facts.add("rows", columns.rows * places);
  facts.add("left", columns.left);
  facts.add("batches", columns.batches);
  facts.add("stripes", int64_t{columns.stripes});
  facts.add("stripe_words", int64_t{1} << columns.log_words);
  facts.add("word_bytes", int64_t{columns.word_bytes});
  facts.add("chunks", int64_t{columns.chunks});
  facts.add("rows_per_block", columns.share * places);
}

using Steps = std::vector<std::string>;

/// The kernels that find the extremes of channels. Python puts in those that count raw bytes.
void add_extremes(Steps& steps, const Problem& problem, const cuda::DeviceLimits& limits) {
  if (cuda::bytes_of_type(problem.type) == 1) {
    steps.insert(steps.end(), {"raw_bytes", "extremes_of_bytes"});
    return;
  }
  const cuda::ExtremesPlan plan = cuda::plan_extremes(problem, limits);
  switch (plan.layout) {
    case cuda::ExtremesLayout::kVec16s:
      steps.emplace_back("vec16_extremes");
      break;
    case cuda::ExtremesLayout::kColumns:
      steps.emplace_back("column_extremes");
      break;
    case cuda::ExtremesLayout::kStrided:
      steps.emplace_back("strided_extremes");
      break;
  }
  if (plan.parts() > 1) {
    steps.emplace_back("reduce_extremes");
  }
}

void add_grid(Facts& facts, int64_t blocks, int threads, int64_t shared_bytes, bool clears) {
  facts.add("blocks", blocks);
  facts.add("threads", int64_t{threads});
  facts.add("shared_bytes", shared_bytes);
  facts.add("clears_counts", clears);
}

/// How bins are found: between edges of one width, or else between any.
const char* bins_by(cuda::EdgeLayout layout) {
  switch (layout) {
    case cuda::EdgeLayout::kTeams:
    case cuda::EdgeLayout::kStreams:
    case cuda::EdgeLayout::kStripes:
      return "formula or cells";
    case cuda::EdgeLayout::kColumns:
      return "formula or search";
    case cuda::EdgeLayout::kBytes:
    case cuda::EdgeLayout::kTiles:
      return "search";
  }
  fail("explain: a layout without a name");
}

/// Adds kernels to those before. `computes_edges`: in the kernel that counts.
void add_layout(Facts& facts, const cuda::EdgePlan& plan, bool computes_edges, Steps& steps) {
  const cuda::EdgeStreams& streams = plan.streams;
  const std::string count = computes_edges ? "count_own_" : "count_";
  switch (plan.layout) {
    case cuda::EdgeLayout::kBytes:
      facts.add("layout", "bytes");
      steps.insert(steps.end(), {"raw_bytes", "map_bytes"});
      break;
    case cuda::EdgeLayout::kTeams:
      facts.add("layout", "teams");
      facts.add("vec16s", true);
      facts.add("chunks", int64_t{plan.teams.parts});
      facts.add("teams", int64_t{plan.teams.teams});
      steps.emplace_back(count + "teams");
      break;
    case cuda::EdgeLayout::kStreams:
      facts.add("layout", "streams");
      facts.add("vec16s", streams.has_runs);
      facts.add("chunks", int64_t{streams.chunks});
      facts.add("rows_per_block", streams.share);
      facts.add("parts", int64_t{streams.parts});
      facts.add("part_bins", streams.part_bins);
      facts.add("copies", int64_t{1} << streams.log_copies);
      steps.emplace_back("count_streams");
      break;
    case cuda::EdgeLayout::kColumns:
      facts.add("layout", "columns");
      add_columns(facts, plan.columns);
      steps.insert(steps.end(), {"find_columns", "count_columns"});
      break;
    case cuda::EdgeLayout::kStripes:
      facts.add("layout", "stripes");
      add_columns(facts, plan.stripes);
      facts.add("copies", int64_t{1} << (plan.stripes.log_lanes - plan.stripes.log_words));
      steps.emplace_back(count + "stripes");
      break;
    case cuda::EdgeLayout::kTiles:
      facts.add("layout", plan.has_table() ? "tiles" : "scattered");
      steps.emplace_back("count_tiles");
      break;
  }
  facts.add("bins_by", bins_by(plan.layout));
  add_grid(facts, plan.blocks, plan.threads, plan.shared_bytes, plan.clears);
}

/// Edges are there.
void add_stored(Facts& facts, const cuda::EdgePlan& plan) {
  Steps steps;
  if (plan.clears) {
    steps.emplace_back(plan.overlaps ? "clear_counts" : "zeroing");
  }
  if (plan.checks_channels()) {
    steps.emplace_back("check_edges");
  }
  add_layout(facts, plan, false, steps);
  facts.add("steps", steps);
}

void add_short(Facts& facts, const cuda::ShortPlan& plan, bool computes_edges) {
  constexpr int kWarp = 32;
  facts.add("layout", "short");
  facts.add("bins_by", "formula or cells");
  facts.add("vec16s", true);
  facts.add("chunks", int64_t{1});
  facts.add("teams", int64_t{plan.of_warps ? plan.threads / kWarp : 1});
  add_grid(facts, plan.blocks, plan.threads, plan.shared_bytes, false);
  facts.add("steps", Steps{computes_edges ? "count_own_ranges" : "count_short_channels"});
}

/// One call of an operator makes the edges and counts.
void add_uniform(
    Facts& facts,
    const Problem& problem,
    const cuda::UniformPlan& plan,
    const Edges& edges,
    const cuda::DeviceLimits& limits) {
  const bool own = !edges.shared;
  const bool computes_edges = plan.computes_edges(edges);
  facts.add("computes_edges", computes_edges);
  if (plan.layout == cuda::UniformLayout::kShort) {
    return add_short(facts, plan.short_channels, computes_edges);
  }
  Steps steps;
  if (own) {
    add_extremes(steps, problem, limits);
  }
  if (!computes_edges) {
    steps.emplace_back("uniform_edges"); // it clears the counts, too
  } else if (plan.edges.clears) {
    steps.emplace_back(plan.edges.overlaps ? "clear_counts" : "zeroing");
  }
  if (!computes_edges && plan.edges.checks_channels()) {
    steps.emplace_back("check_edges");
  }
  add_layout(facts, plan.edges, computes_edges, steps);
  facts.add("steps", steps);
}

std::string plan_on_gpu(
    std::string edge_dtype,
    bool shared_edges,
    int64_t num_bins,
    std::string dtype,
    std::vector<int64_t> sizes,
    std::vector<int64_t> strides,
    int64_t address,
    std::optional<std::vector<int64_t>> dim,
    bool flow,
    int64_t sm_count,
    int64_t shared_bytes_per_block,
    int64_t shared_bytes_per_sm,
    int64_t capability,
    std::optional<bool> own_ranges) {
  Facts facts;
  const Described input{dtype, sizes, strides};
  const Checked checked = check_numbers("histogram", input.description("cuda"), dim);
  const DescribedProblem asked =
      describe_problem("_plan_histogram", input, checked, Flow{flow}.num_counts(num_bins), facts);
  add_bytes(facts, asked, 0);
  if (asked.is_empty()) {
    facts.add("layout", "nothing to count");
    facts.add("steps", std::vector<std::string>(asked.problem.num_counts() > 0 ? 1 : 0, "zeroing"));
    return facts.json();
  }
  Problem problem = asked.problem;
  problem.data =
      reinterpret_cast<const void*>(static_cast<uintptr_t>(asked.copies_input ? 0 : address));
  const cuda::DeviceLimits limits{
      static_cast<int>(sm_count), shared_bytes_per_block, shared_bytes_per_sm,
      static_cast<int>(capability)};
  const ElementType type = *element_type(edge_dtype);
  int64_t workspace;
  if (own_ranges.has_value()) {
    // Edges of one channel are its own if they lie between its extremes.
    const Edges made = Edges::all(nullptr, type, num_bins, !*own_ranges);
    const cuda::UniformPlan plan = cuda::plan_uniform(problem, made, limits);
    add_uniform(facts, problem, plan, made, limits);
    workspace = workspace_of(problem, made, plan, limits);
  } else {
    const Edges given = Edges::all(nullptr, type, num_bins, shared_edges);
    const cuda::EdgePlan plan = cuda::plan_edges(problem, given, limits);
    add_stored(facts, plan);
    workspace = workspace_of(problem, given, plan);
  }
  facts.add("workspace_bytes", workspace);
  return facts.json();
}

} // namespace
} // namespace histo

STABLE_TORCH_LIBRARY_IMPL(histo, CompositeExplicitAutograd, m) {
  m.impl("_plan_histogram", TORCH_BOX(&histo::plan_on_gpu));
  m.impl("_plan_histogram_on_cpu", TORCH_BOX(&histo::plan_on_cpu));
}
