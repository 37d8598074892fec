// Counts channels one after another between edges that all of them share. Teams of warps have a
// table each, and take channels in turns; the bins are found once for a block.
#include "cuda/fill/fill.h"
#include "cuda/fill/slots.cuh"
#include "cuda/pdl.cuh"
#include "cuda/storage/room.h"
#include "cuda/storage/slot_table.cuh"
#include "cuda/walk/teams.cuh"

namespace histo::cuda {
namespace {

template <class Accumulator, bool kWhole, class T>
__global__ __launch_bounds__(kThreadsOfTeams, 1) void count_teams_kernel(
    const T* __restrict__ data,
    const __grid_constant__ EdgeTeams in,
    const __grid_constant__ Edges edges,
    Flow flow,
    typename Accumulator::Total* __restrict__ totals) {
  using Table = SlotTable<Accumulator, 0>;
  extern __shared__ __align__(16) unsigned char shared[];
  const WarpTeam team(in);
  team.for_first_item(in, [&](unsigned channel, unsigned part) {
    ItemOfTeam<T, kWhole>(data, in, channel, part).fetch_first(team, kFetchedAhead / in.teams);
  });
  const auto slots = static_cast<unsigned>(edges.bins) + 3;
  Room room(shared); // thresholds may be wide, so they come first
  auto* thresholds = room.take<typename Number<T>::Wide>(words_of(slots, 0));
  auto* buckets = room.take<uint32_t>(in.buckets);
  auto* tables = room.take<typename Accumulator::Local>(0);
  for (unsigned i = threadIdx.x; i < in.teams * words_of(slots, 0); i += blockDim.x) {
    tables[i] = 0;
  }
  const Table table(tables + team.index * words_of(slots, 0));
  const auto bins = find_bins<T, 0>(edges, 0, thresholds, buckets, in.buckets);
  visit_guess<kKnowsAffineExceptTop<T>, true>(bins.guess, [&](auto guess) {
    const GuessedBins<guess(), T, 0> guessed{bins};
    const FillTable<T, decltype(guessed), Table> fill{guessed, table, flow.shown ? slots - 1 : 0};
    team.for_each_item(in, [&](unsigned channel, unsigned part) {
      ItemOfTeam<T, kWhole>(data, in, channel, part).for_each(team, fill);
      team.sync();
      wait_for_previous(); // it clears the result
      put_slots(
          SlotsToPut{team.thread, team.size, flow, bins.valid, in.adds}, edges, edges.bins,
          totals + channel * flow.num_counts(edges.bins),
          [&](unsigned slot) { return table.take(slot); });
      team.sync();
    });
  });
}

} // namespace

void count_layout(const EdgeTeams& in, const EdgeCount& call, const Launch& launch) {
  visit_wide_type(call.problem.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto with = [&](auto kernel) {
      start(
          launch, "count_teams", kernel,
          LaunchShape{
              grid_of(call.plan.blocks), dim3(call.plan.threads), call.plan.shared_bytes, 1,
              call.plan.overlaps},
          static_cast<const T*>(call.problem.data), in, call.edges, call.flow,
          totals_of(call.problem));
    };
    visit_whole<T>(in.whole, [&](auto whole) { with(count_teams_kernel<Count, whole(), T>); });
  });
}

} // namespace histo::cuda
