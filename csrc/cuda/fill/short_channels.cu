// Counts short channels between edges that they share. A block finds the bins once. Its teams, which
// are its warps or itself, then count channels one after another.
#include "cuda/axis/block_bins.cuh"
#include "cuda/axis/uniform_bins.cuh"
#include "cuda/fill/short_channels.h"
#include "cuda/launch.h"
#include "cuda/storage/put_row.cuh"
#include "cuda/storage/room.h"
#include "cuda/storage/team_table.cuh"
#include "cuda/walk/vec16s.cuh"

namespace histo::cuda {
namespace {

/// Edges of one width, which each block computes; the first one writes them.
struct ComputedEdges {
  double low;
  double high;
  void* written;
};

template <class E>
__device__ __forceinline__ Edges compute(const ComputedEdges& from, const Edges& edges, E* shared) {
  UniformLine<double> line;
  const bool has_line = find_line<double, E>(from.low, from.high, edges.bins, line);
  for (auto k = static_cast<unsigned>(threadIdx.x); k <= edges.bins; k += blockDim.x) {
    double edge;
    if (has_line && k < edges.bins) {
      edge = line.edge(static_cast<double>(k));
    } else {
      edge = uniform_edge(from.low, from.high, edges.bins, k);
    }
    shared[k] = static_cast<E>(edge);
    if (blockIdx.x == 0) {
      static_cast<E*>(from.written)[k] = shared[k];
    }
  }
  __syncthreads();
  Edges computed = edges;
  computed.data = shared;
  return computed;
}

/// Counts the channels of a team.
template <class T, class Bins, bool kIsWarp>
struct CountChannels {
  static constexpr int kOf = 16 / sizeof(T);
  const T* data;
  const ShortChannels& in;
  const Team<kIsWarp>& team;
  const Bins& bins;
  const TeamTable<kIsWarp>& table;
  Flow flow;
  Count::Total* totals;

  template <Guess kGuess, int kSize>
  __device__ __forceinline__ void find(const Pack<T, kSize>& pack, unsigned (&slots)[kSize]) const {
    typename Number<T>::Wide values[kSize];
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      values[j] = Number<T>::wide(pack.elements[j]);
    }
    bins.template find<kGuess>(values, slots);
    if constexpr (Number<T>::kIsFloat) {
      const unsigned nan_slot = flow.shown ? in.bins + 2 : 0;
#pragma unroll
      for (int j = 0; j < kSize; ++j) {
        slots[j] = is_nan(values[j]) ? nan_slot : slots[j];
      }
    }
  }
  template <Guess kGuess>
  __device__ __forceinline__ void add(const Vec16<T>& vec16) const {
    unsigned slots[kOf];
    find<kGuess>(vec16, slots);
#pragma unroll
    for (int j = 0; j < kOf; ++j) {
      table.add(slots[j], 1);
    }
  }
  template <Guess kGuess>
  __device__ __forceinline__ void count(Vec16sOfThread<T, unsigned> from, const T* channel) const {
    constexpr unsigned kInFlight = 4;
    const auto vec16s = static_cast<unsigned>(in.vec16s.vec16s());
    for (unsigned first = team.thread; first < vec16s; first += kInFlight * team.threads) {
      uint4 loaded[kInFlight];
#pragma unroll
      for (unsigned j = 0; j < kInFlight; ++j) {
        if (first + j * team.threads < vec16s) {
          loaded[j] = from.next(channel);
        }
      }
#pragma unroll
      for (unsigned j = 0; j < kInFlight; ++j) {
        if (first + j * team.threads < vec16s) {
          add<kGuess>(bits_as<Vec16<T>>(loaded[j]));
        }
      }
    }
    const unsigned fillers = vec16s * kOf - static_cast<unsigned>(in.vec16s.rows());
    if (fillers > 0 && team.thread == 0) {
      unsigned slots[1];
      find<kGuess>(Pack<T, 1>{*channel}, slots);
      table.add(slots[0], 0 - fillers);
    }
  }
  template <Guess kGuess>
  __device__ __forceinline__ void all() const {
    const Vec16sOfThread<T, unsigned> first(in.vec16s, team.thread, team.threads);
    const int64_t channels = in.vec16s.num_channels();
    const auto num_counts = static_cast<unsigned>(flow.num_counts(in.bins));
    for (int64_t channel = team.index; channel < channels; channel += team.count) {
      count<kGuess>(first, data + offset_in(in.vec16s.channels, channel));
      team.wait();
      put_row(team, totals + channel * num_counts, num_counts, [&](unsigned i) {
        const unsigned slot = flow.shown ? i : i + 1;
        const uint32_t sum = table.empty(slot);
        return static_cast<Count::Total>(bins.valid || slot == in.bins + 2 ? sum : 0);
      });
      team.wait();
    }
  }
};

template <class T, bool kIsWarp>
__global__ __launch_bounds__(kThreadsOfSmOfShort) void count_short_channels_kernel(
    const T* __restrict__ data,
    const __grid_constant__ ShortChannels in,
    const __grid_constant__ Edges given,
    ComputedEdges computed,
    Flow flow,
    Count::Total* __restrict__ totals) {
  extern __shared__ __align__(16) unsigned char shared[];
  const auto team = Team<kIsWarp>::own();
  Room room(shared); // thresholds may be wide, so they come first
  auto* thresholds = room.take<typename Number<T>::Wide>(words_of(in.bins + 3, 0));
  auto* buckets = room.take<uint32_t>(in.buckets);
  auto* tables = room.take<unsigned char>(int64_t{blockDim.x / team.threads} * in.team_bytes);
  const TeamTable table(team, tables + team.of_block * in.team_bytes, in.bins + 3);
  const Edges edges = compute(computed, given, room.take<UniformEdgeOf<T>>(in.bins + 1));
  const auto bins = find_bins<T, 0>(edges, 0, thresholds, buckets, in.buckets);
  // The loops behind it spill less. Workaround nvcc-13.0-barrier-behind-bins: see docs/tuning.md.
  __syncthreads();
  const CountChannels<T, BlockBins<T, 0>, kIsWarp> channels{data,  in,   team,  bins,
                                                            table, flow, totals};
  visit_guess<kKnowsAffineExceptTop<T>, true>(
      bins.guess, [&](auto guess) { channels.template all<guess()>(); });
}

} // namespace

void count_short_channels(
    const ShortPlan& plan,
    const Problem& problem,
    const UniformBins& bins,
    const Flow& flow,
    const Launch& launch) {
  const Edges edges = Edges::all(bins.edges, bins.type, bins.bins, true);
  const ComputedEdges computed{bins.range[0], bins.range[1], bins.edges};
  visit_wide_type(problem.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<typename Number<T>::Wide, float>) {
      start(
          launch, "count_short_channels",
          plan.of_warps ? count_short_channels_kernel<T, true>
                        : count_short_channels_kernel<T, false>,
          grid_of(plan.blocks), dim3(static_cast<unsigned>(plan.threads)), plan.shared_bytes,
          static_cast<const T*>(problem.data), plan.in, edges, computed, flow, totals_of(problem));
    } else {
      no_kernel("count_short_channels");
    }
  });
}

} // namespace histo::cuda
