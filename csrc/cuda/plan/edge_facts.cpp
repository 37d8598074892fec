// Facts about plans of histograms between edges.
#include <algorithm>

#include "cuda/plan/facts.h"

namespace histo::cuda {
namespace {

constexpr int kPatternsOfByte = 256;
// How bins are found between edges that lie evenly, or else between any.
constexpr const char* kByCells = "formula or cells";
constexpr const char* kByFormula = "formula or search";
constexpr const char* kBySearch = "search";

void append(PlanFacts& facts, const PlanFacts& more) {
  facts.groups.insert(facts.groups.end(), more.groups.begin(), more.groups.end());
  facts.steps.insert(facts.steps.end(), more.steps.begin(), more.steps.end());
  facts.workspace_bytes += more.workspace_bytes;
}

Fact grid(int64_t blocks, int threads, int64_t shared_bytes, bool clears) {
  return {
      "grid", Facts{
                  {"blocks", blocks},
                  {"threads", threads},
                  {"shared_bytes", shared_bytes},
                  {"clears_counts", clears}}};
}

/// Raw bytes are counted, with a sum for each of their values.
PlanFacts facts_of_bytes(const Problem& problem, const DeviceLimits& limits) {
  Problem bytes = problem;
  bytes.type = ElementType::kUInt8;
  bytes.num_bins = kPatternsOfByte;
  bytes.adds = false;
  const ByteAxis axis = byte_axis(bytes.type, ValueBinning{kPatternsOfByte});
  PlanFacts facts = facts_of(make_plan(bytes, entries_of(bytes, axis), limits), bytes);
  facts.groups.push_back(launches_of(facts.steps));
  facts.groups.emplace_back("memory", Facts{{"workspace_bytes", facts.workspace_bytes}});
  facts.groups.emplace_back("dtype", "uint8");
  facts.groups.emplace_back("num_bins", kPatternsOfByte);
  facts.workspace_bytes += problem.num_channels() * kPatternsOfByte * int64_t{sizeof(int64_t)};
  return facts;
}

/// The call that a plan is for: facts of layouts depend on it.
struct Counted {
  const Problem& problem;
  const Edges& edges;
  bool computes_edges; // the kernel that counts does
  const DeviceLimits& limits;

  std::string kernel(const char* of) const {
    return (computes_edges ? "count_own_" : "count_") + std::string(of);
  }
};

PlanFacts facts_of(const EdgeBytes&, const Counted& of) {
  PlanFacts facts = facts_of_bytes(of.problem, of.limits);
  facts.groups = {
      {"layout", Facts{{"layout", "bytes"}, {"bins_by", kBySearch}}}, {"raw_bytes", facts.groups}};
  facts.steps.emplace_back("map_bytes");
  return facts;
}

PlanFacts facts_of(const EdgeStreams& in, const Counted&) {
  const Facts layout{
      {"layout", "streams"},          {"vec16s", in.has_runs}, {"chunks", in.chunks},
      {"rows_per_block", in.share},   {"parts", in.parts},     {"part_bins", in.part_bins},
      {"copies", 1 << in.log_copies}, {"bins_by", kByCells}};
  return {{{"layout", layout}}, {"count_streams"}};
}

PlanFacts facts_of(const EdgeTeams& in, const Counted& of) {
  const Facts layout{
      {"layout", "teams"},
      {"vec16s", true},
      {"chunks", in.parts},
      {"teams", in.teams},
      {"bins_by", kByCells}};
  return {{{"layout", layout}}, {of.kernel("teams")}};
}

Facts facts_of(const ChannelColumns& in, const char* layout, const char* bins_by) {
  const int64_t places = in.places();
  return {
      {"layout", layout},
      {"columns", in.columns},
      {"rows", in.rows * places},
      {"left", in.left},
      {"batches", in.batches},
      {"stripes", in.stripes},
      {"stripe_words", 1 << in.log_words},
      {"word_bytes", in.word_bytes},
      {"chunks", in.chunks},
      {"rows_per_block", in.share * places},
      {"bins_by", bins_by}};
}

PlanFacts facts_of(const ChannelColumns& in, const Counted& of) {
  return {
      {{"layout", facts_of(in, "columns", kByFormula)}},
      {"find_columns", "count_columns"},
      ColumnMemory::of(in, of.edges, of.problem.type).bytes()};
}

PlanFacts facts_of(const EdgeStripes& in, const Counted& of) {
  Facts layout = facts_of(in, "stripes", kByCells);
  layout.emplace_back("copies", 1 << (in.log_lanes - in.log_words));
  return {{{"layout", layout}}, {of.kernel("stripes")}};
}

PlanFacts facts_of(const Generic& in, const Counted&) {
  const Facts layout{{"layout", in.has_table() ? "tiles" : "scattered"}, {"bins_by", kBySearch}};
  return {{{"layout", layout}}, {"count_tiles"}};
}

PlanFacts facts_of(const ShortPlan& plan, bool computes_edges) {
  const Facts layout{
      {"layout", "short"},
      {"vec16s", true},
      {"chunks", 1},
      {"teams", plan.teams()},
      {"bins_by", kByCells}};
  const Fact blocks = grid(plan.blocks, plan.threads, plan.shared_bytes, false);
  return {
      {{"layout", layout}, blocks}, {computes_edges ? "count_own_ranges" : "count_short_channels"}};
}

/// The kernel that counts, and those before it that it needs.
PlanFacts facts_of_count(const EdgePlan& plan, const Counted& of) {
  PlanFacts facts = std::visit([&](const auto& in) { return facts_of(in, of); }, plan.layout);
  facts.groups.insert(
      facts.groups.begin() + 1, grid(plan.blocks, plan.threads, plan.shared_bytes, plan.clears));
  return facts;
}

/// The kernel that asks which channels have valid edges, and that which counts.
PlanFacts facts_of_search(
    const EdgePlan& plan, const Problem& problem, const Edges& edges, const DeviceLimits& limits) {
  PlanFacts facts;
  if (plan.checks_channels()) {
    facts.steps = {"check_edges"};
    facts.workspace_bytes = edges.shared ? 1 : problem.num_channels();
  }
  append(facts, facts_of_count(plan, {problem, edges, false, limits}));
  return facts;
}

Steps steps_of_clearing(const EdgePlan& plan) {
  return plan.clears ? Steps{plan.overlaps ? "clear_counts" : "zeroing"} : Steps{};
}

// The kernels of ExtremesPlan.
const char* kernel_of(const ChunkedVec16s&) {
  return "vec16_extremes";
}
const char* kernel_of(const ChunkedStreams&) {
  return "strided_extremes";
}
const char* kernel_of(const ChannelColumns&) {
  return "column_extremes";
}
const char* kernel_of(const ChannelWords&) {
  return "short_extremes";
}
const char* kernel_of(const CountedBytes&) {
  return "extremes_of_bytes";
}

/// The kernels that find the extremes of channels.
PlanFacts facts_of_extremes(
    const Problem& problem, const Edges& edges, const DeviceLimits& limits) {
  PlanFacts facts;
  const int64_t bytes = bytes_of_type(problem.type), channels = problem.num_channels();
  const ExtremesPlan plan = plan_extremes(problem, limits);
  if (std::holds_alternative<CountedBytes>(plan.layout)) {
    facts = facts_of_bytes(problem, limits);
    facts.groups.clear();
  }
  facts.steps.emplace_back(std::visit([](const auto& in) { return kernel_of(in); }, plan.layout));
  if (plan.parts > 1) {
    facts.steps.emplace_back("reduce_extremes");
    facts.workspace_bytes = channels * plan.parts * 2 * std::max<int64_t>(bytes, 4);
  }
  facts.workspace_bytes += 2 * channels * (edges.type == ElementType::kFloat32 ? 4 : 8);
  return facts;
}

} // namespace

PlanFacts facts_of(
    const EdgePlan& plan, const Problem& problem, const Edges& edges, const DeviceLimits& limits) {
  PlanFacts facts{{}, steps_of_clearing(plan)};
  append(facts, facts_of_search(plan, problem, edges, limits));
  return facts;
}

PlanFacts facts_of(
    const UniformPlan& plan,
    const Problem& problem,
    const Edges& edges,
    const DeviceLimits& limits) {
  PlanFacts facts{{{"bins", Facts{{"computes_edges", plan.computes_edges}}}}, {}};
  if (const auto* in = std::get_if<ShortPlan>(&plan.layout)) {
    append(facts, facts_of(*in, plan.computes_edges));
    return facts;
  }
  const auto& in = std::get<EdgePlan>(plan.layout);
  if (!edges.shared) {
    append(facts, facts_of_extremes(problem, edges, limits));
  }
  if (plan.computes_edges) {
    append(facts, {{}, steps_of_clearing(in)});
    append(facts, facts_of_count(in, {problem, edges, true, limits}));
  } else {
    append(facts, {{}, {"uniform_edges"}}); // it clears the counts, too
    append(facts, facts_of_search(in, problem, edges, limits));
  }
  return facts;
}

} // namespace histo::cuda
