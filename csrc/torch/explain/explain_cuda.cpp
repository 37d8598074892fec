// Facts about the plan of a GPU, which need not be there.
#include <algorithm>

#include <torch/csrc/stable/library.h>

#include "cuda/plan/layouts.h"
#include "torch/arguments.h"
#include "torch/explain/explain.h"

namespace histo {
namespace {

using namespace cuda;

const char* name_of(Access access) {
  switch (access) {
    case Access::kVec16:
      return "16 bytes";
    case Access::kWord:
      return "words";
    case Access::kLoose:
      return "words put together";
  }
  fail("explain: an access without a name");
}

/// Two facts of a layout that are worked into others.
struct LayoutFacts {
  std::string kernel;        // the one that counts; a reduction may follow it
  int64_t bytes_of_gaps = 0; // bytes between rows, which are read and not counted
};

/// The facts in which the kernels of columns differ.
struct RowsOfColumns {
  std::string counted_by;
  Access access;
  bool is_stream;
  int64_t runs;
  int64_t of_block;
  bool in_16_bits; // counters
};

LayoutFacts add_columns(
    Facts& facts, const Problem& problem, const ColumnLayout& in, const RowsOfColumns& rows) {
  const int64_t bytes = element_bytes(in.type);
  const bool in_turn = in.columns % in.channels != 0;
  facts.add("method", "interleaved");
  facts.add("access", name_of(rows.access));
  facts.add("load_bytes", int64_t{bytes_of_load(rows.access, bytes)});
  facts.add("stream", rows.is_stream);
  facts.add("counted_by", rows.counted_by);
  facts.add("columns", in.columns);
  facts.add("columns_per_channel", in_turn ? 0 : in.columns / in.channels);
  facts.add("runs", rows.runs);
  facts.add("channels", in.counted);
  facts.add("gap_channels", in.channels - in.counted);
  facts.add("groups", int64_t{in.groups});
  facts.add("batches", int64_t{in.batches});
  facts.add("rows_per_block", rows.of_block);
  facts.add("table_keys", int64_t{bytes == 1 ? 256 : in.table_entries});
  facts.add("table_counters_per_key", int64_t{rows.in_16_bits ? 2 : 1} << in.log_entry_words);
  facts.add("counter_bits", int64_t{rows.in_16_bits ? 16 : 32});
  const int64_t rows_with_gaps = in.batches * problem.num_rows();
  return {"count_" + rows.counted_by, rows_with_gaps * (in.channels - in.counted) * bytes};
}

LayoutFacts add_layout(Facts& facts, const Problem& problem, const Interleaved& in) {
  return add_columns(
      facts, problem, in,
      {"interleaved", in.access, in.is_stream(), in.runs(), int64_t{in.share}, in.packed16});
}

LayoutFacts add_layout(Facts& facts, const Problem& problem, const WholeRows& in) {
  return add_columns(
      facts, problem, in, {"rows", Access::kVec16, false, 1, int64_t{in.rows_of_block()}, true});
}

LayoutFacts add_layout(Facts& facts, const Problem& problem, const Planar& in) {
  return add_columns(
      facts, problem, in,
      {"planar", Access::kVec16, true, in.outer.size, int64_t{in.share}, in.channels > 1});
}

LayoutFacts add_layout(Facts& facts, const Problem& problem, const Clustered& in) {
  return add_columns(
      facts, problem, in, {"clustered", in.access, false, 1, int64_t{in.share}, true});
}

LayoutFacts add_layout(Facts& facts, const Problem& problem, const Runs& in) {
  facts.add("method", "runs");
  facts.add("access", "16 bytes");
  facts.add("load_bytes", kVec16Bytes);
  facts.add("batches", int64_t{in.segments});
  facts.add("channels", in.channels);
  facts.add("gap_channels", in.gap_channels());
  facts.add("runs", in.runs());
  facts.add("run_bytes", int64_t{in.run_bytes});
  facts.add("run_bytes_between", int64_t{in.run_bytes_between});
  facts.add("chunks", int64_t{in.chunks});
  facts.add("segments_per_block", int64_t{in.segments_of_block()});
  facts.add("loads_per_block", int64_t{in.share} << in.log_segments);
  facts.add("copies", int64_t{1} << in.log_copies);
  facts.add("table_keys", int64_t{in.table_entries});
  facts.add("table_counters_per_key", int64_t{in.columns} << in.log_copies);
  facts.add("counter_bits", int64_t{32});
  const int64_t between_channels =
      in.segments * problem.num_rows() * in.gap_channels() * element_bytes(in.type);
  const int64_t between_rows = in.segments * in.runs() * in.run_bytes_between;
  return {"count_runs", between_channels + between_rows};
}

LayoutFacts add_layout(Facts& facts, const Problem& problem, const Generic& in) {
  const bool has_table = in.table_stride > 0;
  facts.add("method", has_table ? "generic" : "atomics");
  facts.add("access", in.vec16s ? "16 bytes" : "elements");
  facts.add("load_bytes", in.vec16s ? kVec16Bytes : element_bytes(problem.type));
  facts.add("tile_channels", int64_t{in.tile_channels});
  facts.add("tiles", in.tiles);
  facts.add("chunks", in.chunks);
  facts.add("rows_per_block", in.rows_per_chunk);
  facts.add("counter_bits", int64_t{has_table ? 32 : 64});
  return {"count_generic"};
}

LayoutFacts add_layout(Facts& facts, const Problem&, const Partitioned& in) {
  facts.add("method", "partitioned");
  facts.add("access", "16 bytes");
  facts.add("load_bytes", kVec16Bytes);
  facts.add("owners", int64_t{1} << in.log_owners);
  facts.add("bins_per_owner", int64_t{1} << in.log_owned);
  facts.add("rounds", int64_t{in.rounds});
  facts.add("rows_per_block", in.rounds * in.vec16s_of_tile * kVec16Bytes / in.element_bytes);
  facts.add("counter_bits", int64_t{32});
  return {"count_partitioned"};
}

/// The launches in order: kernels by name, and "zeroing" before them.
std::vector<std::string> steps_of(const CountPlan& plan, const std::string& kernel) {
  std::vector<std::string> steps;
  if (plan.clears) {
    steps.emplace_back("zeroing");
  }
  steps.push_back(kernel);
  if (plan.reduce_blocks > 0) {
    steps.emplace_back(kernel == "count_rows" ? "reduce_rows" : "reduce_columns");
  }
  return steps;
}

void add_steps(Facts& facts, const std::vector<std::string>& steps) {
  facts.add("steps", steps);
  facts.add("launches", static_cast<int64_t>(steps.size()));
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
  Facts facts;
  const Described input{dtype, sizes, strides};
  const Checked checked = check_channel_histogram(input.description("cuda"), num_bins, dim, "auto");
  const DescribedProblem asked =
      describe_problem("_plan_channel_histogram", input, checked, num_bins, facts);
  if (asked.is_empty()) {
    facts.add("method", "nothing to count");
    add_steps(facts, std::vector<std::string>(asked.problem.num_counts() > 0 ? 1 : 0, "zeroing"));
    facts.add("bytes_of_gaps", int64_t{0});
    add_bytes(facts, asked, 0);
    return facts.json();
  }
  Problem problem = asked.problem;
  problem.data =
      reinterpret_cast<const void*>(static_cast<uintptr_t>(asked.copies_input ? 0 : address));
  const DeviceLimits limits{
      static_cast<int>(sm_count), shared_bytes_per_block, shared_bytes_per_sm,
      static_cast<int>(capability)};
  const TableEntries entries = entries_of(problem, byte_axis(problem.type, ValueBinning{num_bins}));
  const CountPlan plan = make_plan(problem, entries, limits);
  const LayoutFacts of_layout = std::visit(
      [&](const auto& layout) { return add_layout(facts, problem, layout); }, plan.layout);
  facts.add("blocks", plan.blocks);
  facts.add("threads", int64_t{plan.threads});
  facts.add("cluster", int64_t{plan.cluster});
  facts.add("shared_bytes", plan.shared_bytes);
  facts.add("workspace_bytes", plan.workspace_bytes);
  facts.add("clears_counts", plan.clears);
  facts.add("shares_lines", plan.shares_lines);
  facts.add("reduce_blocks", plan.reduce_blocks);
  add_steps(facts, steps_of(plan, of_layout.kernel));
  facts.add("bytes_of_gaps", of_layout.bytes_of_gaps);
  add_bytes(facts, asked, of_layout.bytes_of_gaps);
  return facts.json();
}

} // namespace
} // namespace histo

STABLE_TORCH_LIBRARY_IMPL(histo, CompositeExplicitAutograd, m) {
  m.impl("_plan_channel_histogram", TORCH_BOX(&histo::plan_channel_histogram));
}
