// Types of one byte: the integer engine counts raw bytes, and here the 256 sums of a channel become
// the counts of its bins, or tell its extremes.
#include "cuda/axis/extremes.cuh"
#include "cuda/axis/search.cuh"
#include "cuda/count/dispatch.h"
#include "cuda/fill/byte_sums.h"
#include "cuda/fill/extremes.h"
#include "cuda/pdl.cuh"
#include "cuda/storage/put_row.cuh"
#include "cuda/walk/walk.cuh"
#include "cuda/warp.cuh"

namespace histo::cuda {

unsigned long long* count_bytes(const Problem& problem, const Launch& launch) {
  const int64_t channels = problem.num_channels();
  Problem bytes = problem;
  bytes.type = ElementType::kUInt8;
  bytes.num_bins = kBytes;
  bytes.adds = false;
  bytes.counts = static_cast<int64_t*>(
      launch.allocate(channels * kBytes * static_cast<int64_t>(sizeof(int64_t))));
  count(bytes, ValueBinning{kBytes}, launch);
  return totals_of(bytes);
}

namespace {

using Sum = Count::Total;

// Counts that are written at a time.
constexpr int64_t kMostPut = int64_t{1} << 30;
// Bounds that a block keeps in shared memory. A warp has room for those of 256 bins.
constexpr int kMostKeptBounds = 8 * 260;

/// The 256 bytes in the order of their values. Those of NaN come before kFirst, and from kEnd on.
template <class T>
struct ByteOrder {
  using Order = Number<T>;
  static constexpr bool kIsFloat = Order::kIsFloat;
  static constexpr int kPlusZero = 128; // -0 comes before it
  static constexpr int kFirst = kIsFloat ? kPlusZero - 1 + static_cast<int>(Order::kFirst) : 0;
  static constexpr int kEnd = kIsFloat ? kPlusZero + 1 + static_cast<int>(Order::kLast) : kBytes;

  /// Negative floats lie the other way round.
  __device__ __forceinline__ static unsigned byte_at(unsigned place) {
    if constexpr (kIsFloat) {
      return place < kPlusZero ? kBytes - 1 - place : place - kPlusZero;
    } else {
      return std::is_signed_v<T> ? place ^ kPlusZero : place;
    }
  }
  /// The first place whose value reaches an edge.
  __device__ __forceinline__ static int place_of(Real edge, bool is_closed) {
    if constexpr (kIsFloat) {
      bool exists;
      const int ordinal = Thresholds<T>::ordinal(edge, is_closed, exists);
      return exists ? ordinal + kPlusZero - (ordinal <= 0 ? 1 : 0) : kEnd;
    } else { // each edge near a byte's value is a double
      const double least = is_closed ? floor(edge.high) + 1 : ceil(edge.high);
      constexpr auto kLow = static_cast<double>(Order::kFirst);
      constexpr auto kHigh = static_cast<double>(Order::kLast + 1);
      const int place = static_cast<int>(fmin(fmax(least, kLow), kHigh) - kLow);
      return place > Order::kLast - Order::kFirst ? kEnd : place; // true has many bytes
    }
  }
};

/// The place at which each bin begins, among the bytes in their order.
template <class T>
struct ByteBounds {
  const Edges& edges;
  uint16_t* kept; // those of a channel, or null if there is no room

  __device__ __forceinline__ static int place(const Edges& edges, Real edge, int64_t k) {
    return ByteOrder<T>::place_of(edge, edges.closed && k == edges.bins);
  }
  /// Keeps every `step`th bound. Returns whether the edges there do not decrease and none is NaN.
  __device__ __forceinline__ bool keep(int64_t channel, unsigned first, unsigned step) const {
    bool valid = true;
    for (int64_t k = first; k <= edges.bins; k += step) {
      const Real edge = edges.at(channel, k);
      if (kept != nullptr) {
        kept[k] = static_cast<uint16_t>(place(edges, edge, k));
      }
      valid &= k == edges.bins || is_at_most(edge, edges.at(channel, k + 1));
    }
    return valid;
  }
  __device__ __forceinline__ int at(int64_t channel, int64_t k) const {
    return kept != nullptr ? kept[k] : place(edges, edges.at(channel, k), k);
  }
};

/// The sums of a channel, added up in the order of values: below[i] elements come before place i.
template <class T>
__device__ __forceinline__ void add_up(const Sum* __restrict__ sums, Sum* below) {
  constexpr unsigned kOfLane = kBytes / kWarp;
  const unsigned first = threadIdx.x % kWarp * kOfLane;
  const unsigned low =
      min(ByteOrder<T>::byte_at(first), ByteOrder<T>::byte_at(first + kOfLane - 1));
  const bool descends = ByteOrder<T>::byte_at(first) != low;
  Sum own[kOfLane];
#pragma unroll
  for (unsigned j = 0; j < kOfLane; j += 2) {
    const auto pair = bits_as<Pack<Sum, 2>>(*reinterpret_cast<const uint4*>(sums + low + j));
    own[j] = pair.elements[0];
    own[j + 1] = pair.elements[1];
  }
  Sum all = 0;
#pragma unroll
  for (unsigned j = 0; j < kOfLane; ++j) {
    all += own[j];
  }
  Sum before = sum_upto_lane(all) - all;
#pragma unroll
  for (unsigned j = 0; j < kOfLane; ++j) {
    below[first + j] = before;
    before += descends ? own[kOfLane - 1 - j] : own[j];
  }
  if (first + kOfLane == kBytes) {
    below[kBytes] = before;
  }
}

/// A warp takes one channel after another, or a block takes a channel.
template <class T, bool kIsWarp>
__global__ __launch_bounds__(kThreadsOfBytes) void map_bytes_kernel(
    const Sum* __restrict__ sums,
    const __grid_constant__ Edges edges,
    Flow flow,
    bool adds,
    int64_t channels,
    Sum* __restrict__ counts) {
  using Order = ByteOrder<T>;
  constexpr int kTeams = kIsWarp ? kThreadsOfBytes / kWarp : 1;
  __shared__ __align__(16) Sum all_below[kTeams][kBytes + 2];
  __shared__ uint16_t bounds[kMostKeptBounds];
  wait_for_previous(); // it counts the bytes
  const auto team = Team<kIsWarp>::own();
  const int64_t room = edges.shared ? kMostKeptBounds : kMostKeptBounds / kTeams;
  uint16_t* kept = edges.shared ? bounds : bounds + team.of_block * room;
  const ByteBounds<T> bound{edges, edges.bins < room ? kept : nullptr};
  bool valid = edges.shared && bound.keep(0, threadIdx.x, kThreadsOfBytes);
  valid = __syncthreads_and(valid);
  Sum* below = all_below[team.of_block];
  const int64_t num_counts = flow.num_counts(edges.bins);
  for (int64_t channel = team.index; channel < channels; channel += team.count) {
    if (!edges.shared) {
      valid = bound.keep(channel, team.thread, team.threads);
      valid = kIsWarp ? __all_sync(kAllLanes, valid) : __syncthreads_and(valid);
    }
    if (team.thread < kWarp) {
      add_up<T>(sums + channel * kBytes, below);
    }
    team.wait();
    Sum* row = counts + channel * num_counts;
    const auto count = [&](int64_t i) {
      const int64_t slot = flow.shown ? i : i + 1;
      Sum found = 0;
      if (slot == edges.bins + 2) {
        found = below[Order::kFirst] + below[kBytes] - below[Order::kEnd]; // NaN
      } else if (valid) {
        const int begin = slot == 0 ? Order::kFirst : bound.at(channel, slot - 1);
        const int end = slot == edges.bins + 1 ? Order::kEnd : bound.at(channel, slot);
        found = below[end] - below[begin];
      }
      return adds ? row[i] + found : found;
    };
    for (int64_t first = 0; first < num_counts; first += kMostPut) {
      const auto size = static_cast<unsigned>(min(num_counts - first, kMostPut));
      put_row(team, row + first, size, [&](unsigned i) { return count(first + i); });
    }
    team.wait();
  }
}

/// The extremes of the values of a channel that were counted.
template <class T>
__global__ __launch_bounds__(kBytes) void extremes_of_bytes_kernel(
    const Sum* __restrict__ sums,
    Widened widened,
    UniformEdgeOf<T>* __restrict__ low,
    UniformEdgeOf<T>* __restrict__ high) {
  wait_for_previous(); // it counts the bytes
  const int64_t channel = blockIdx.x;
  Extremes<T> own;
  if (sums[channel * kBytes + threadIdx.x] > 0) {
    own.add(bits_as<T>(static_cast<uint8_t>(threadIdx.x)));
  }
  const auto team = Team<false>::own();
  put_extremes(team, extremes_of(team, own), widened, low + channel, high + channel);
}

} // namespace

void count_layout(const EdgeBytes& in, const EdgeCount& call, const Launch& launch) {
  const Sum* sums = count_bytes(call.problem, launch);
  visit_byte_type(call.problem.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    start(
        launch, "map_bytes", in.of_warps ? map_bytes_kernel<T, true> : map_bytes_kernel<T, false>,
        LaunchShape{
            grid_of(call.plan.blocks), dim3(static_cast<unsigned>(call.plan.threads)), 0, 1,
            launch.limits.has_clusters()},
        sums, call.edges, call.flow, call.problem.adds, call.problem.num_channels(),
        totals_of(call.problem));
  });
}

template <class E>
void find_extremes_of_bytes(
    const Problem& problem, Widened widened, E* low, E* high, const Launch& launch) {
  const Sum* sums = count_bytes(problem, launch);
  visit_byte_type(problem.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<E, UniformEdgeOf<T>>) {
      start(
          launch, "extremes_of_bytes", extremes_of_bytes_kernel<T>,
          LaunchShape{grid_of(problem.num_channels()), kBytes, 0, 1, launch.limits.has_clusters()},
          sums, widened, low, high);
    } else {
      throw InternalError("find_extremes_of_bytes: not the type of the edges");
    }
  });
}
template void find_extremes_of_bytes(const Problem&, Widened, float*, float*, const Launch&);
template void find_extremes_of_bytes(const Problem&, Widened, double*, double*, const Launch&);

} // namespace histo::cuda
