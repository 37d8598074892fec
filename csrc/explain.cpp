// The plan of the CUDA engine as JSON: where there is a GPU, and where there is none.
#include <sstream>
#include <string>
#include <vector>

#include <torch/csrc/stable/library.h>

#include "arguments.h"
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
  if (sizes.size() != strides.size()) {
    fail(
        "_plan_channel_histogram: strides must be as many as sizes, " +
        std::to_string(sizes.size()) + ", got " + std::to_string(strides.size()));
  }
  const Description input{"cuda", dtype, "strided", true, static_cast<int64_t>(sizes.size())};
  const Checked checked = check_channel_histogram(input, num_bins, dim, "auto");
  std::vector<Extent> dimensions;
  for (size_t d = 0; d < sizes.size(); ++d) {
    dimensions.push_back({sizes[d], strides[d]});
  }
  bool copies = false;
  Problem problem = loops_as_problem(dimensions, checked, num_bins, copies);
  problem.data = reinterpret_cast<const void*>(static_cast<uintptr_t>(copies ? 0 : address));

  Json json;
  const int64_t size = visit_element_type(
      problem.type, [](auto tag) { return int64_t{sizeof(typename decltype(tag)::type)}; });
  json.add("bytes_read", problem.num_channels() * problem.num_rows() * size);
  json.add("bytes_of_counts", problem.num_counts() * 8);
  json.add("copies_input", copies);
  if (problem.num_counts() == 0 || problem.num_rows() == 0) {
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

} // namespace
} // namespace histo

STABLE_TORCH_LIBRARY_IMPL(histo, CompositeExplicitAutograd, m) {
  m.impl("_plan_channel_histogram", TORCH_BOX(&histo::plan_channel_histogram));
}
