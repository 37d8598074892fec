// One q of long channels. A sample of a channel gives a window of keys, in which the two values lie
// almost surely. A pass counts the values in the buckets of the window, above it and below. The
// bucket with both values is the window of the next pass. If the sample was bad, that is all keys
// above or below. If the two values lie in different buckets, one is the largest value of its bucket
// and the other the smallest of its own, and the next pass finds both.
//
// The host launches the passes that the worst data need. Those that are not needed end at once.
#include "cuda/pdl.cuh"
#include "cuda/policy_select.h"
#include "cuda/select/key_ranges.cuh"
#include "cuda/select/sample.h"
#include "cuda/select/window.cuh"
#include "cuda/storage/counts.cuh"
#include "cuda/walk/walk.cuh"

namespace histo::cuda {
namespace {

template <class Bits>
using SampledReads = ReadShape<threads_of_select_streams(sizeof(Bits)), 1, 4>;

/// Makes the first windows, and zeroes the counters.
template <class Bits>
__global__ __launch_bounds__(kThreadsOfDigits) void open_windows_kernel(
    const __grid_constant__ SampleEnds sample,
    KeyOrder<Bits> order,
    int64_t channels,
    Window* __restrict__ windows,
    unsigned long long* __restrict__ counts,
    int64_t size) {
  const int64_t i = int64_t{blockIdx.x} * kThreadsOfDigits + threadIdx.x;
  if (i < size) {
    counts[i] = 0;
  }
  if (i < channels) {
    const uint64_t smallest = order.smallest(), greatest = order.greatest();
    uint64_t low = order.key(static_cast<const Bits*>(sample.values)[i]);
    uint64_t high = order.key(static_cast<const Bits*>(sample.values)[channels + i]);
    // If all of the sample is NaN, these are keys of NaN.
    low = sample.q[0] > 0 ? min(low, greatest - 1) : smallest;
    high = sample.q[1] < 1 ? min(max(high, low + 1), greatest) : greatest;
    windows[i] = {low, high, 0, WindowSearch::kWindow};
  }
}

/// A thread's own counters, and the block's table of buckets. Values equal to an end of the window
/// have counters of the thread: they may be most values, and additions to one counter of the table
/// wait for each other.
template <class Bits>
struct WindowCounts {
  using Of = Distances<Bits>;
  using Distance = typename Of::Distance;

  Of distances; // from the key after `low`
  Buckets<Bits> buckets;
  Distance span;
  // Distances grow in this order: the window, `high`, the numbers above it, NaN, the numbers below
  // the window, `low`. These are the last distances of the middle four.
  Distance high;
  Distance greatest;
  Distance nan;
  Distance below;
  uint32_t table;
  uint32_t elsewhere; // a word for keys in no bucket: a branch would take longer
  uint32_t beyond_high = 0, beyond_greatest = 0, beyond_nan = 0, at_low = 0;

  __device__ __forceinline__ WindowCounts(
      const KeyOrder<Bits>& order,
      const Window& window,
      unsigned room,
      const uint32_t* counters,
      const uint32_t* idle) // [kWarp]
      : distances(order, window.low + 1),
        buckets(window.span(), room),
        span(Of::first_of(window.span())),
        high(Of::last_of(window.span())),
        greatest(Of::last_of(order.greatest() - window.low - 1)),
        nan(Of::last_of(order.smallest() - window.low - 2)),
        below(Of::last_of(~uint64_t{1})),
        table(address_of(counters)),
        elsewhere(address_of(idle + threadIdx.x % kWarp)) {
  }
  __device__ __forceinline__ void add(Distance distance) {
    const uint32_t counter = table + 4 * buckets.at(distance);
    add_shared(distance < span ? counter : elsewhere, 1);
    count_above(distance, high, beyond_high);
    count_above(distance, greatest, beyond_greatest);
    count_above(distance, nan, beyond_nan);
    count_above(distance, below, at_low);
  }
  __device__ __forceinline__ uint32_t sum(unsigned counter) const {
    return counter == kNans    ? beyond_greatest - beyond_nan
           : counter == kAbove ? beyond_high - beyond_greatest
           : counter == kBelow ? beyond_nan - at_low
                               : at_low;
  }
};

/// Counts elements and pairs.
template <class Bits>
struct AddTo {
  WindowCounts<Bits>& counts;

  __device__ __forceinline__ void operator()(Bits number) const {
    counts.add(counts.distances.of(number));
  }
  __device__ __forceinline__ void operator()(Packed16 pair) const {
    counts.distances.for_both(pair, [&](uint32_t distance) { counts.add(distance); });
  }
};

/// Counts a block's values in a window.
template <class Bits>
__device__ __forceinline__ void count_in_window(
    const StreamOfBlock<Bits>& stream,
    const KeyOrder<Bits>& order,
    const Window& window,
    unsigned room,
    uint32_t* table,
    uint32_t* beside, // [kCountersBesideWindow + kWarp]
    unsigned long long* counts) {
  WindowCounts<Bits> own(order, window, room, table, beside + kCountersBesideWindow);
  for (unsigned i = threadIdx.x; i < own.buckets.count; i += SampledReads<Bits>::kThreads) {
    table[i] = 0;
  }
  if (threadIdx.x < kCountersBesideWindow + kWarp) {
    beside[threadIdx.x] = 0;
  }
  __syncthreads();
  stream.template for_each<SampledReads<Bits>>(AddTo<Bits>{own});
  for (unsigned counter = 0; counter < kCountersBesideWindow; ++counter) {
    const unsigned sum = sum_of_warp(own.sum(counter));
    if (threadIdx.x % kWarp == 0) {
      add_shared(address_of(beside + counter), sum);
    }
  }
  __syncthreads();
  if (threadIdx.x < kCountersBesideWindow) {
    put<true>(&counts[threadIdx.x], beside[threadIdx.x]);
  }
  for (unsigned i = threadIdx.x; i < own.buckets.count; i += SampledReads<Bits>::kThreads) {
    put<true>(&counts[kFirstBucket + i], table[i]);
  }
}

/// Finds the largest key below `split` and the smallest of the others. `found` are the former and the
/// complement of the latter; both begin as 0.
template <class Bits>
__device__ __forceinline__ void find_neighbours(
    const StreamOfBlock<Bits>& stream,
    const KeyOrder<Bits>& order,
    uint64_t split,
    unsigned long long* found) { // [2]
  using Word = typename Distances<Bits>::Distance;
  const auto first = static_cast<Word>(split);
  Word below = 0, above = 0;
  stream.template for_each<SampledReads<Bits>>([&](Bits number) {
    const Word key = order.key(number);
    below = max(below, key < first ? key : Word{0});
    above = max(above, key < first ? Word{0} : ~key);
  });
  below = max_of_warp(below);
  above = max_of_warp(above);
  if (threadIdx.x % kWarp == 0) {
    atomicMax(&found[0], static_cast<unsigned long long>(below));
    atomicMax(&found[1], static_cast<unsigned long long>(above));
  }
}

template <class Bits>
__global__ __launch_bounds__(SampledReads<Bits>::kThreads, 1) void search_window_kernel(
    const Bits* __restrict__ data,
    const __grid_constant__ ChannelStreams in,
    KeyOrder<Bits> order,
    unsigned room,
    const Window* __restrict__ windows,
    unsigned long long* __restrict__ counts,
    int64_t counters) {
  __shared__ uint32_t beside[kCountersBesideWindow + kWarp];
  extern __shared__ __align__(16) uint32_t memory[];
  const int64_t channel = blockIdx.x / in.chunks;
  const StreamOfBlock<Bits> stream(data, in, channel, blockIdx.x % in.chunks);
  wait_for_previous(); // it makes the windows
  const Window window = windows[channel];
  unsigned long long* own = counts + channel * counters;
  if (window.search == WindowSearch::kWindow) {
    count_in_window(stream, order, window, room, memory, beside, own);
  } else if (window.search == WindowSearch::kSplit) {
    find_neighbours(stream, order, window.low, own);
  }
}

/// A block has a channel: it finds the next window in the counters, or writes the result.
template <class Bits>
__global__ __launch_bounds__(kThreadsOfDigits) void narrow_windows_kernel(
    const __grid_constant__ SelectionPart part,
    KeyOrder<Bits> order,
    int64_t rows,
    unsigned room,
    Window* __restrict__ windows,
    unsigned long long* __restrict__ counts,
    int64_t counters) {
  __shared__ int64_t sums[kThreadsOfDigits / kWarp];
  __shared__ KeyRange ranges[kTargetsOfQ];
  const int64_t channel = blockIdx.x;
  unsigned long long* own = counts + channel * counters;
  wait_for_previous(); // it counts
  const Window window = windows[channel];
  __syncthreads(); // all have read the window
  const auto put_values = [&](const Ranks& ranks, uint64_t below, uint64_t above) {
    put_value(part, order, 0, channel, ranks, static_cast<Bits>(below));
    put_value(part, order, 1, channel, ranks, static_cast<Bits>(above));
  };
  if (window.search == WindowSearch::kWindow) {
    const auto nans = static_cast<int64_t>(own[kNans]);
    const Ranks ranks = ranks_of_target(part, 0, rows, nans);
    const Buckets<Bits> buckets(window.span(), room);
    find_ranges(order, window, buckets, own, rows, ranks, sums, ranges);
    for (unsigned i = threadIdx.x; i < kFirstBucket + buckets.count; i += kThreadsOfDigits) {
      own[i] = 0;
    }
    if (threadIdx.x == 0) {
      Window next = window_of(ranges[0], ranges[1], nans);
      if (ranks.is_nan || next.search == WindowSearch::kEnded) {
        next.search = WindowSearch::kEnded;
        put_values(ranks, ranges[0].first, ranges[1].first);
      }
      windows[channel] = next;
    }
  } else if (window.search == WindowSearch::kSplit && threadIdx.x == 0) {
    put_values(ranks_of_target(part, 0, rows, window.nans), own[0], ~own[1]);
    windows[channel].search = WindowSearch::kEnded;
  }
}

template <class Bits>
void select_bits(const SelectSampled& in, const SelectCall& call, const Launch& launch) {
  const Problem& problem = call.part.selection.problem;
  const int64_t channels = problem.num_channels(), counters = call.plan.counters;
  const int64_t size = channels * counters;
  const auto order = KeyOrder<Bits>::of(problem.type);
  auto* windows = static_cast<Window*>(launch.allocate(channels * int64_t{sizeof(Window)}));
  auto* counts =
      static_cast<unsigned long long*>(launch.allocate(call.plan.counter_bytes(channels)));
  const SampleEnds sample = find_sample_ends(call.part, in.sample, false, nullptr, 0, launch);
  start(
      launch, "open_windows", open_windows_kernel<Bits>,
      LaunchShape{grid_of(ceil_div(size, kThreadsOfDigits)), kThreadsOfDigits}, sample, order,
      channels, windows, counts, size);
  for (unsigned pass = 0; pass < in.passes; ++pass) {
    start(
        launch, "search_window", search_window_kernel<Bits>,
        shape_of(call.plan, 1, call.plan.overlaps), static_cast<const Bits*>(problem.data),
        in.streams, order, in.room, windows, counts, counters);
    start(
        launch, "narrow_windows", narrow_windows_kernel<Bits>,
        LaunchShape{grid_of(channels), kThreadsOfDigits, 0, 1, call.plan.overlaps}, call.part,
        order, problem.num_rows(), in.room, windows, counts, counters);
  }
}

} // namespace

void select_layout(const SelectSampled& in, const SelectCall& call, const Launch& launch) {
  visit_wide_bits(call.part.selection.problem.type, [&](auto tag) {
    select_bits<typename decltype(tag)::type>(in, call, launch);
  });
}

} // namespace histo::cuda
