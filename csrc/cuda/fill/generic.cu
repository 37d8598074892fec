// Counts any type over any strides, by any axis.
//
// A block takes a tile: a few channels and a chunk of rows. Neighbouring threads read neighbouring
// memory, along channels or along rows. A table in shared memory counts the tile. If the bins are
// too many for one, the block counts in the result, except for the hot bins.
#include <algorithm>

#include "cuda/axis/search.cuh"
#include "cuda/axis/values.cuh"
#include "cuda/count/sweeps.h"
#include "cuda/fill/fill.h"
#include "cuda/pdl.cuh"
#include "cuda/storage/tile_table.cuh"
#include "cuda/walk/tile.cuh"

namespace histo::cuda {
namespace {

template <class Storage, class Shape, class Axis, class T>
__global__ __launch_bounds__(kGenericThreads) void count_generic_kernel(
    const T* __restrict__ data,
    const __grid_constant__ Generic in,
    const __grid_constant__ Axis axis,
    int64_t num_slots,
    Count::Total* __restrict__ counts) {
  extern __shared__ uint32_t table[];
  TileOfBlock<T, Shape> tile(data, in);
  const Storage storage(tile, table, num_slots, counts);
  wait_for_previous(); // it may write what is counted
  let_next_start();
  tile.fetch_first(); // and the table is cleared meanwhile
  const auto& of_thread = axis.of_thread(tile);
  storage.clear();
  tile.for_each(
      [&](T element) { storage.add(tile.channel, of_thread.find(element), Count::Step{}); });
  storage.put();
}

/// A tile with a table counts rows of one loop in a kernel of their own, but not rows of three.
template <bool kSets>
using TableShape = TileShape<true, kSets, !kSets>;
/// With more bins than a table has, one kernel serves rows of one loop and of three. Bytes with so
/// many bins are rare, so there is no code for their vec16s. Elements of 8 bytes have fewer loads in
/// flight, or registers would spill.
template <class T>
using ResultShape =
    TileShape<(sizeof(T) > 1), true, true, sizeof(T) == 8 ? kGenericUnroll / 2 : kGenericUnroll>;

template <class T>
ValueAxis<T> axis_of(const Problem& problem, const ByteAxis& bytes) {
  if constexpr (sizeof(T) == 1) {
    return {{bytes}};
  } else {
    const bool is_signed = problem.type == ElementType::kInt16 ||
                           problem.type == ElementType::kInt32 ||
                           problem.type == ElementType::kInt64;
    const uint64_t values = uint64_t{1} << (8 * sizeof(T) - 1); // that are not negative
    const auto bins = static_cast<uint64_t>(problem.num_bins);
    return {{is_signed ? std::min(bins, values) : bins}};
  }
}

} // namespace

void count_generic(
    const CountPlan& plan, const Problem& problem, const ByteAxis& bytes, const Launch& launch) {
  const auto& in = std::get<Generic>(plan.layout);
  if (plan.clears) {
    clear_counts(launch, problem);
  }
  visit_unsigned_type(problem.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using Axis = ValueAxis<T>;
    using Table = TileTable<Count>;
    const auto kernel = in.table_stride == 0
                            ? count_generic_kernel<TileInResult, ResultShape<T>, Axis, T>
                        : in.sets ? count_generic_kernel<Table, TableShape<true>, Axis, T>
                                  : count_generic_kernel<Table, TableShape<false>, Axis, T>;
    start(
        launch, "count_generic", kernel,
        LaunchShape{
            grid_of(plan.blocks), dim3(static_cast<unsigned>(plan.threads)), plan.shared_bytes,
            plan.cluster, !plan.clears && launch.limits.has_clusters()},
        static_cast<const T*>(problem.data), in, axis_of<T>(problem, bytes), problem.num_bins,
        totals_of(problem));
  });
}

void count_layout(const Generic& in, const EdgeCount& call, const Launch& launch) {
  const uint8_t* valid = call.plan.checks_channels()
                             ? check_channels(call.edges, call.problem.num_channels(), launch)
                             : nullptr;
  visit_unsigned_type(call.problem.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using Axis = EdgeAxis<T>;
    // A search is much code, so it stands once.
    using Shape = TileShape<false, true, false, 1>;
    const auto kernel = in.has_table() ? count_generic_kernel<TileTable<Count>, Shape, Axis, T>
                                       : count_generic_kernel<TileInResult, Shape, Axis, T>;
    start(
        launch, "count_tiles", kernel,
        LaunchShape{
            grid_of(call.plan.blocks), dim3(static_cast<unsigned>(call.plan.threads)),
            call.plan.shared_bytes, in.cluster(), launch.limits.has_clusters()},
        static_cast<const T*>(call.problem.data), in,
        Axis{call.edges, call.flow, call.problem.type, valid}, call.problem.num_bins,
        totals_of(call.problem));
  });
}

} // namespace histo::cuda
