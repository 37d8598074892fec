// Counts short channels between their extremes, or in one range whose edges are float64. A team, which
// is a warp or a block, holds a channel in shared memory: so it is read once. It finds the extremes,
// counts in a table in shared memory, and writes edges and counts.
#include "cuda/axis/extremes.cuh"
#include "cuda/axis/uniform_bins.cuh"
#include "cuda/fill/short_channels.h"
#include "cuda/launch.h"
#include "cuda/storage/put_row.cuh"
#include "cuda/storage/team_table.cuh"
#include "cuda/walk/vec16s.cuh"

namespace histo::cuda {
namespace {

/// The vec16s of a channel in shared memory. A thread has those that it reads, so it waits for no
/// other.
template <class T, bool kIsWarp>
struct StagedVec16s {
  using Staged = Vec16<T>;
  static constexpr unsigned kOf = 16 / sizeof(T);
  const Team<kIsWarp>& team;
  Staged* memory;
  unsigned count; // of the channel

  /// Begins to copy.
  __device__ __forceinline__ void load(Vec16sOfThread<T, unsigned> from, const T* channel) const {
#pragma unroll 1
    for (unsigned i = team.thread; i < count; i += team.threads) {
      from.copy_next(channel, memory + i);
    }
  }
  /// Calls f(vec16), when all have come.
  template <class F>
  __device__ __forceinline__ void for_each(const F& f) const {
#pragma unroll 1
    for (unsigned i = team.thread; i < count; i += team.threads) {
      f(memory[i]);
    }
  }
};

/// Counts a channel in its bins.
template <class T, bool kIsWarp>
struct CountBetween {
  static constexpr int kOf = 16 / sizeof(T);
  const UniformBinsOfChannel<T>& bins;
  const TeamTable<kIsWarp>& table;

  /// NaN has slot 0. The conversion of float64 makes another number of it.
  template <bool kHasLine>
  __device__ __forceinline__ unsigned slot(T element) const {
    const auto value = Number<T>::wide(element);
    const unsigned slot = bins.template slot<kHasLine>(value);
    if constexpr (std::is_same_v<T, double>) {
      return is_nan(value) ? 0 : slot;
    }
    return slot;
  }
  template <bool kHasLine>
  __device__ __forceinline__ void add(const Vec16<T>& vec16) const {
    if constexpr (kHasLine) {
      unsigned slots[kOf];
#pragma unroll
      for (int j = 0; j < kOf; ++j) {
        slots[j] = slot<true>(vec16.elements[j]);
      }
#pragma unroll
      for (int j = 0; j < kOf; ++j) {
        table.add(slots[j], 1);
      }
    } else { // rare, so the code is to be short
#pragma unroll 1
      for (int j = 0; j < kOf; ++j) {
        table.add(slot<false>(vec16.elements[j]), 1);
      }
    }
  }
  /// `fillers`: how often the first element was staged too often. NaN is counted as underflow.
  template <bool kHasLine>
  __device__ __forceinline__ void add_all(
      const StagedVec16s<T, kIsWarp>& staged, unsigned fillers, const T* channel) const {
    staged.for_each([&](const Vec16<T>& vec16) { add<kHasLine>(vec16); });
    if (fillers > 0 && table.team.thread == 0) {
      table.add(slot<kHasLine>(*channel), 0 - fillers);
    }
  }
  /// Moves the count of NaN to a slot of its own.
  __device__ __forceinline__ void move_nan(
      const StagedVec16s<T, kIsWarp>& staged, unsigned fillers, const T* channel) const {
    unsigned found = 0;
    staged.for_each([&](const Vec16<T>& vec16) {
#pragma unroll
      for (int j = 0; j < kOf; ++j) {
        found += is_nan(Number<T>::wide(vec16.elements[j])) ? 1 : 0;
      }
    });
    if (table.team.thread == 0 && is_nan(Number<T>::wide(*channel))) {
      found -= fillers;
    }
    if (found != 0) {
      table.add(0, 0 - found);
      table.add(bins.bins + 2, found);
    }
  }
};

/// The range of all channels, if they have no ranges of their own.
struct GivenRange {
  bool yes;
  double low;
  double high;
};

/// The bins of a channel: between its extremes, or in the given range.
template <class T, bool kIsWarp>
__device__ __forceinline__ UniformBinsOfChannel<T> bins_of(
    const StagedVec16s<T, kIsWarp>& staged, const GivenRange& given, unsigned bins) {
  if constexpr (std::is_same_v<UniformEdgeOf<T>, double>) {
    if (given.yes) {
      return UniformBinsOfChannel<T>(given.low, given.high, bins);
    }
  }
  RunningExtremes<T> own;
  staged.for_each([&](const Vec16<T>& vec16) { own.add(bits_as<uint4>(vec16)); });
  const Extremes<T> extremes = extremes_of(staged.team, own.all());
  auto low = extremes.rounded_low(), high = extremes.rounded_high();
  range_of_extremes(low, high);
  return UniformBinsOfChannel<T>(low, high, bins);
}

template <class T, bool kIsWarp>
__global__ __launch_bounds__(kMostThreadsOfShort, kBlocksOfShort) void count_own_ranges_kernel(
    const T* __restrict__ data,
    const __grid_constant__ ShortChannels in,
    GivenRange given,
    Flow flow,
    UniformEdgeOf<T>* __restrict__ edges,
    Count::Total* __restrict__ totals) {
  extern __shared__ __align__(16) unsigned char shared[];
  const auto team = Team<kIsWarp>::own();
  unsigned char* own = shared + team.of_block * in.team_bytes;
  const auto count = static_cast<unsigned>(in.vec16s.vec16s());
  const StagedVec16s<T, kIsWarp> staged{team, reinterpret_cast<Vec16<T>*>(own), count};
  const TeamTable table(team, own + count * 16, in.bins + 3);
  const Vec16sOfThread<T, unsigned> first(in.vec16s, team.thread, team.threads);
  const auto channel_data = [&](int64_t channel) {
    return data + offset_in(in.vec16s.channels, channel);
  };
  const unsigned fillers =
      count * StagedVec16s<T, kIsWarp>::kOf - static_cast<unsigned>(in.vec16s.rows());
  const auto num_counts = static_cast<unsigned>(flow.num_counts(in.bins));
  const int64_t channels = in.vec16s.num_channels();
  if (team.index < channels) {
    staged.load(first, channel_data(team.index));
  }
  for (int64_t channel = team.index; channel < channels; channel += team.count) {
    wait_for_copies();
    const auto bins = bins_of(staged, given, in.bins);
    const CountBetween<T, kIsWarp> counting{bins, table};
    bins.has_line ? counting.template add_all<true>(staged, fillers, channel_data(channel))
                  : counting.template add_all<false>(staged, fillers, channel_data(channel));
    if (Number<T>::kIsFloat && flow.shown) {
      counting.move_nan(staged, fillers, channel_data(channel));
    }
    team.wait();
    if (channel + team.count < channels) {
      staged.load(first, channel_data(channel + team.count));
    }
    put_row(team, totals + channel * num_counts, num_counts, [&](unsigned i) {
      return static_cast<Count::Total>(table.empty(flow.shown ? i : i + 1));
    });
    if (!given.yes || channel == 0) {
      put_row(team, edges + channel * (in.bins + 1), in.bins + 1, [&](unsigned k) {
        return bins.edge(k);
      });
    }
    team.wait();
  }
}

} // namespace

void count_own_ranges(
    const ShortPlan& plan,
    const Problem& problem,
    const UniformBins& bins,
    const Flow& flow,
    const Launch& launch) {
  GivenRange given{};
  if (bins.range != nullptr) {
    given = {true, bins.range[0], bins.range[1]};
  }
  visit_number_type(problem.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    start(
        launch, "count_own_ranges",
        plan.of_warps ? count_own_ranges_kernel<T, true> : count_own_ranges_kernel<T, false>,
        grid_of(plan.blocks), dim3(static_cast<unsigned>(plan.threads)), plan.shared_bytes,
        static_cast<const T*>(problem.data), plan.in, given, flow,
        static_cast<UniformEdgeOf<T>*>(bins.edges), totals_of(problem));
  });
}

} // namespace histo::cuda
