#include "invariants.h"

namespace histo {
namespace {

using namespace cuda;

struct Path {
  std::string text;

  void add(bool holds, const std::string& word) {
    if (holds) {
      text += (text.empty() ? "" : " ") + word;
    }
  }
  void operator()(const Columns& in) {
    add(in.by == CountedBy::kColumns, "columns");
    add(in.by == CountedBy::kRows, "rows");
    add(in.by == CountedBy::kPlanes, "planes");
    add(in.by == CountedBy::kClustered, "clustered");
    add(in.access == Access::kQuad, "16-bytes");
    add(in.access == Access::kWord, "words");
    add(in.access == Access::kLoose, "loose-words");
    add(in.access == Access::kSplit, "split-words");
    add(in.is_stream(), "stream");
    add(in.outer.size > 1, "several-runs");
    add(in.parts < in.units() && in.units() > 1, "several-units-a-block");
    add(in.in_runs, "in-runs");
    add(in.by == CountedBy::kColumns && in.log_row_words < 5, "mixed-banks");
    add(in.counted < in.channels, "gaps");
    add(in.by == CountedBy::kRows && in.group_columns == kHalfColumns, "halves");
    add(in.one_piece, "one-piece");
    add(in.sums_columns, "sums-columns");
    add(in.channels == 1 && in.groups > 1, "dealt");
    add(in.paired && in.adds && !in.few_channels && !in.carries, "spills-or-adds");
    add(in.carries, "carries");
  }
  void operator()(const Runs& in) {
    text = "runs";
    add(in.run_bytes_between > 0, "joins");
    add(in.tables == 0, "columns-of-one-table");
    add(in.log_units > 0, "shared-blocks");
  }
  void operator()(const Tiles& in) {
    text = "tiles";
    add(in.table_stride == 0, "atomics");
    add(in.clustered, "clustered");
    add(in.quads, "16-bytes");
    add(in.along_rows, "along-rows");
    add(in.chunks > 1, "chunks");
    add(in.sets, "sets");
  }
  void operator()(const Exchange&) {
    text = "exchange";
  }
};

} // namespace

std::string path_of(const Plan& plan) {
  Path path;
  std::visit(path, plan.layout);
  path.add(plan.fold_blocks > 0, "folds");
  path.add(plan.fold_blocks > 0 && plan.fold_words == kFewFoldWords, "few-words");
  path.add(plan.fold_blocks > 0 && plan.fold_words == kManyFoldWords, "many-words");
  path.add(plan.cluster > 1, std::to_string(plan.cluster) + "-blocks");
  path.add(plan.clears, "clears");
  return path.text;
}

std::string violations(const Problem&, const Plan&, const DeviceLimits&) {
  return "";
}

} // namespace histo
