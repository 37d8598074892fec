// Counts channels one after another in bins of one width, each in a range of its own. An edge is
// computed where it is needed: nothing is prepared, and none is read.
#include "cuda/fill/fill.h"
#include "cuda/fill/slots.cuh"
#include "cuda/pdl.cuh"
#include "cuda/storage/slot_table.cuh"
#include "cuda/walk/teams.cuh"

namespace histo::cuda {
namespace {

template <class Accumulator, bool kWhole, class T>
__global__ __launch_bounds__(kThreadsOfTeams, 1) void count_own_teams_kernel(
    const T* __restrict__ data,
    const __grid_constant__ EdgeTeams in,
    Ranges<UniformEdgeOf<T>> ranges,
    const __grid_constant__ Edges edges,
    UniformEdgeOf<T>* __restrict__ edges_of_channels,
    Flow flow,
    typename Accumulator::Total* __restrict__ totals) {
  using Table = SlotTable<Accumulator, 0>;
  extern __shared__ __align__(16) unsigned char shared[];
  auto* tables = reinterpret_cast<typename Accumulator::Local*>(shared);
  const WarpTeam team(in);
  const auto num_bins = static_cast<unsigned>(edges.bins), slots = num_bins + 3;
  for (unsigned i = threadIdx.x; i < in.teams * words_of(slots, 0); i += blockDim.x) {
    tables[i] = 0;
  }
  __syncthreads();
  wait_for_previous(); // it finds the ranges
  const Table table(tables + team.index * words_of(slots, 0));
  const unsigned nan_slot = flow.shown ? slots - 1 : 0;
  team.for_each_item(in, [&](unsigned channel, unsigned part) {
    const ItemOfTeam<T, kWhole> item(data, in, channel, part);
    const UniformBinsOfChannel<T> bins(ranges.low[channel], ranges.high[channel], num_bins);
    const auto count = [&](auto has_line) {
      const ComputedBins<has_line(), T> computed{bins};
      item.for_each(team, FillTable<T, decltype(computed), Table>{computed, table, nan_slot});
    };
    bins.has_line ? count(std::true_type{}) : count(std::false_type{});
    const int64_t first_edge = channel * (edges.bins + 1);
    for (unsigned k = team.thread; part == 0 && k <= num_bins; k += team.size) {
      edges_of_channels[first_edge + k] = bins.edge(k);
    }
    team.sync();
    put_slots(
        SlotsToPut{team.thread, team.size, flow, true, in.adds}, edges, edges.bins,
        totals + channel * flow.num_counts(edges.bins),
        [&](unsigned slot) { return table.take(slot); });
    team.sync();
  });
}

} // namespace

template <class E>
void count_own_teams(
    const EdgePlan& plan,
    const Problem& problem,
    const E* low,
    const E* high,
    const UniformBins& bins,
    const Flow& flow,
    const Launch& launch) {
  const auto& in = std::get<EdgeTeams>(plan.layout);
  const Edges edges = Edges::all(bins.edges, bins.type, bins.bins, false);
  visit_wide_type(problem.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_same_v<E, UniformEdgeOf<T>>) {
      no_kernel("count_own_teams");
    } else {
      const auto with = [&](auto kernel) {
        start(
            launch, "count_own_teams", kernel,
            LaunchShape{
                grid_of(plan.blocks), dim3(plan.threads), plan.shared_bytes, 1,
                launch.limits.has_clusters()},
            static_cast<const T*>(problem.data), in, Ranges<E>{low, high}, edges,
            static_cast<E*>(bins.edges), flow, totals_of(problem));
      };
      visit_whole<T>(
          in.whole, [&](auto whole) { with(count_own_teams_kernel<Count, whole(), T>); });
    }
  });
}
template void count_own_teams(
    const EdgePlan&,
    const Problem&,
    const float*,
    const float*,
    const UniformBins&,
    const Flow&,
    const Launch&);
template void count_own_teams(
    const EdgePlan&,
    const Problem&,
    const double*,
    const double*,
    const UniformBins&,
    const Flow&,
    const Launch&);

} // namespace histo::cuda
