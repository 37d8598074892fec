// The plans of both engines as JSON; that of a GPU also where there is none.
#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include <torch/csrc/stable/library.h>

#include "arguments.h"
#include "cpu/plan.h"
#include "cpu/processor.h"
#include "cpu/schedule.h"
#include "cuda/plan.h"

namespace histo {
namespace {

class Json {
 public:
  void add(const char* key, int64_t value) {
    next(key) << value;
  }
  void add(const char* key, bool value) {
    next(key) << (value ? "true" : "false");
  }
  void add(const char* key, const char* value) {
    next(key) << '"' << value << '"';
  }
  std::string text() const {
    return "{" + text_.str() + "}";
  }

 private:
  std::ostream& next(const char* key) {
    text_ << (text_.tellp() > 0 ? ", " : "") << '"' << key << "\": ";
    return text_;
  }
  std::ostringstream text_;
};

void add_layout(Json& json, const cuda::Columns& in) {
  json.add("method", "columns");
  json.add(
      "access", in.access == cuda::Access::kQuad    ? "16 bytes"
                : in.access == cuda::Access::kWord  ? "words"
                : in.access == cuda::Access::kSplit ? "split words"
                                                    : "words put together");
  json.add("stream", in.is_stream());
  json.add(
      "counted_by", in.by == cuda::CountedBy::kRows        ? "rows"
                    : in.by == cuda::CountedBy::kPlanes    ? "planes"
                    : in.by == cuda::CountedBy::kClustered ? "clustered"
                                                           : "columns");
  json.add("columns", in.columns);
  json.add("runs", in.runs());
  json.add("gap_channels", in.channels - in.counted);
  json.add("groups", int64_t{in.groups});
  json.add("batches", int64_t{in.batches});
  json.add("rows_per_block", int64_t{in.share});
  json.add("table_rows", int64_t{is_one_byte(in.type) ? 256 : in.table_rows});
  json.add("upper_table", in.carries);
  json.add("table_counters_per_row", int64_t{in.paired ? 2 : 1} << in.log_row_words);
  json.add("counter_bits", int64_t{in.paired ? 16 : 32});
}

void add_layout(Json& json, const cuda::Runs& in) {
  json.add("method", "runs");
  json.add("access", "16 bytes");
  json.add("batches", int64_t{in.units});
  json.add("gap_channels", in.gap_channels());
  json.add("runs", int64_t{in.runs()});
  json.add("run_bytes", int64_t{in.run_bytes});
  json.add("run_bytes_between", int64_t{in.run_bytes_between});
  json.add("chunks", int64_t{in.chunks});
  json.add("units_per_block", int64_t{in.units_of_block()});
  json.add("loads_per_block", int64_t{in.share} << in.log_units);
  json.add("copies", int64_t{1} << in.log_copies);
  json.add("table_rows", int64_t{in.table_rows});
  json.add("table_counters_per_row", int64_t{in.columns} << in.log_copies);
  json.add("counter_bits", int64_t{32});
}

void add_layout(Json& json, const cuda::Tiles& in) {
  json.add("method", in.table_stride > 0 ? "tiles" : "atomics");
  json.add("access", in.quads ? "16 bytes" : "elements");
  json.add("tile_channels", int64_t{in.tile_channels});
  json.add("tiles", in.tiles);
  json.add("chunks", in.chunks);
  json.add("rows_per_block", in.rows_per_chunk);
  json.add("counter_bits", int64_t{in.table_stride > 0 ? 32 : 64});
}

void add_layout(Json& json, const cuda::Exchange& in) {
  json.add("method", "exchange");
  json.add("access", "16 bytes");
  json.add("owners", int64_t{1} << in.log_owners);
  json.add("bins_per_owner", int64_t{1} << in.log_owned);
  json.add("rounds", int64_t{in.rounds});
  json.add("rows_per_block", int64_t{in.rounds} * in.quads_of_tile * 16 / in.element_bytes);
  json.add("counter_bits", int64_t{32});
}

/// The problem of an input that is described, and need not be there. `op` is the operator that asks.
Problem problem_of(
    const char* op,
    const char* device,
    const std::string& dtype,
    const std::vector<int64_t>& sizes,
    const std::vector<int64_t>& strides,
    int64_t num_bins,
    const std::vector<int64_t>& dim,
    bool& copies,
    Json& json) {
  if (sizes.size() != strides.size()) {
    fail(
        std::string(op) + ": strides must be as many as sizes, " + std::to_string(sizes.size()) +
        ", got " + std::to_string(strides.size()));
  }
  const Description input{device, dtype, "strided", true, static_cast<int64_t>(sizes.size())};
  const Checked checked = check_channel_histogram(input, num_bins, dim, "auto");
  std::vector<Extent> dimensions;
  for (size_t d = 0; d < sizes.size(); ++d) {
    dimensions.push_back({sizes[d], strides[d]});
  }
  const Problem problem = loops_as_problem(dimensions, checked, num_bins, copies);
  json.add("bytes_read", problem.num_channels() * problem.num_rows() * cpu::size_of(problem.type));
  json.add("bytes_of_counts", problem.num_counts() * 8);
  json.add("copies_input", copies);
  return problem;
}

bool is_empty(const Problem& problem) {
  return problem.num_counts() == 0 || problem.num_rows() == 0;
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
    int64_t l2_bytes,
    int64_t capability) {
  Json json;
  bool copies = false;
  Problem problem = problem_of(
      "_plan_channel_histogram", "cuda", dtype, sizes, strides, num_bins, dim, copies, json);
  problem.data = reinterpret_cast<const void*>(static_cast<uintptr_t>(copies ? 0 : address));
  if (is_empty(problem)) {
    json.add("method", "nothing to count");
    json.add("launches", int64_t{problem.num_counts() > 0});
    return json.text();
  }
  const cuda::Plan plan = cuda::make_plan(
      problem, ValueBinning{num_bins},
      cuda::DeviceLimits{
          static_cast<int>(sm_count), shared_bytes_per_block, shared_bytes_per_sm, l2_bytes,
          static_cast<int>(capability)});
  std::visit([&](const auto& layout) { add_layout(json, layout); }, plan.layout);
  json.add("blocks", plan.blocks);
  json.add("threads", int64_t{plan.threads});
  json.add("cluster", int64_t{plan.cluster});
  json.add("shared_bytes", plan.shared_bytes);
  json.add("workspace_bytes", plan.workspace_bytes);
  json.add("clears_counts", plan.clears);
  json.add("shares_lines", plan.shares_lines);
  json.add("fold_blocks", plan.fold_blocks);
  json.add("launches", int64_t{plan.launches()});
  return json.text();
}

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
  Json json;
  bool copies = false;
  const Problem problem = problem_of(
      "_plan_channel_histogram_on_cpu", "cpu", dtype, sizes, strides, num_bins, dim, copies, json);
  json.add("loops", cpu::chosen_loops());
  if (is_empty(problem)) {
    json.add("method", "nothing to count");
    return json.text();
  }
  const cpu::Plan plan = cpu::plan_of(problem);
  json.add("method", plan.products ? "products" : name_of(plan.way));
  json.add("strip", plan.strip);
  json.add("counter_bits", counter_bits_of(plan));
  if (plan.way == cpu::Way::kDirect) {
    const cpu::Sharing sharing = cpu::sharing_of(problem, plan);
    const bool has_copies = sharing == cpu::Sharing::kCopies;
    json.add("threads", cpu::workers_of(problem));
    json.add(
        "sharing", sharing == cpu::Sharing::kChannels ? "channels"
                   : has_copies                       ? "copies"
                                                      : "atomic");
    json.add(
        "workspace_bytes", has_copies ? cpu::workers_of(problem) * problem.num_counts() * 8 : 0);
    return json.text();
  }
  const cpu::Schedule schedule(problem, plan);
  json.add("threads", schedule.workers);
  json.add("strips", schedule.strips.count);
  json.add("tasks", schedule.tasks);
  json.add("neighbours", plan.joint);
  json.add("byte_counters", plan.byte_values);
  json.add("tables", plan.few.tables + plan.many.tables);
  json.add("table_rows", std::max(plan.few.indices, plan.many.indices));
  json.add("table_bytes", plan.table_bytes);
  json.add("workspace_bytes", schedule.scratch_bytes(plan));
  return json.text();
}

} // namespace
} // namespace histo

STABLE_TORCH_LIBRARY_IMPL(histo, CompositeExplicitAutograd, m) {
  m.impl("_plan_channel_histogram", TORCH_BOX(&histo::plan_channel_histogram));
  m.impl("_plan_channel_histogram_on_cpu", TORCH_BOX(&histo::plan_on_cpu));
}
