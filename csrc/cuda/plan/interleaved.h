// The common part of the plans of interleaved.cu, rows.cu and planar.cu.
#pragma once

#include "cuda/plan/facts.h"
#include "cuda/plan/partition.h"

namespace histo::cuda {

/// Sets the fields that all their kernels read. `adds`: the counts are zeroed, and added to.
void set_columns(
    ColumnLayout& in,
    const Request& request,
    const Geometry& geometry,
    const Partition& partition,
    bool adds);

/// Makes the plan without its layout, of which `in` is a part, and without the shared memory.
CountPlan plan_without_layout(
    const Request& request,
    const Geometry& geometry,
    const Partition& partition,
    const ColumnLayout& in,
    int64_t shared_bytes);

/// What the kernels of columns tell differently.
struct ColumnFacts {
  std::string counted_by;
  Access access;
  bool is_stream;
  int64_t runs;
  int64_t rows_of_block;
  bool in_16_bits; // counters
};
LayoutFacts facts_of_columns(
    const ColumnLayout& in, const ColumnFacts& own, const Problem& problem);

/// Whether a counter of the result has one writer: if a column is a channel, or the reduction sums
/// the columns of a channel.
bool has_one_writer(const Request& request, const Geometry& geometry, const Partition& partition);

CountPlan plan_interleaved(
    const Request& request, const Geometry& geometry, const Partition& partition);
CountPlan plan_planar(const Request& request, const Geometry& geometry, const Partition& partition);
std::optional<CountPlan> plan_whole_rows(
    const Request& request, const Geometry& geometry, const Partition& partition);

/// The plan of one of the three kernels, if the elements lie as it needs.
std::optional<CountPlan> plan_interleaved(const Request& request, const Gaps& gaps);

} // namespace histo::cuda
