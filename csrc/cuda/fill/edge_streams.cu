// Counts channels one after another between their edges. A block has a table of one channel in
// shared memory: [place][copy].
#include "cuda/axis/block_bins.cuh"
#include "cuda/fill/fill.h"
#include "cuda/pdl.cuh"
#include "cuda/storage/counts.cuh"
#include "cuda/walk/walk.cuh"

namespace histo::cuda {
namespace {

template <class T>
using ShapeOf = ReadShape<threads_of_streams(sizeof(T)), 1, 4>;

/// Counts elements in a table. NaN has a place of its own, which is that of underflow where neither
/// is shown.
template <Guess kGuess, class T, int kLogCopies>
struct CountInTable {
  const BlockBins<T, kLogCopies>& bins;
  uint32_t counters; // the copies of this thread
  unsigned nan_place;

  __device__ __forceinline__ void operator()(T element) const {
    (*this)(Few<T, 1>{element});
  }
  /// All places are found before one is counted, so that loads do not wait for each other.
  template <int kSize>
  __device__ __forceinline__ void operator()(const Few<T, kSize>& few) const {
    typename Number<T>::Key values[kSize];
    unsigned places[kSize];
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      values[j] = Number<T>::key(few.elements[j]);
    }
    bins.template find<kGuess>(values, places);
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      if constexpr (Number<T>::kIsFloat) {
        places[j] = is_nan(values[j]) ? nan_place : places[j];
      }
      add_shared(counters + 4 * slot_of(places[j], kLogCopies), 1);
    }
  }
};

/// Writes the counts of a part of the bins, or adds them. Underflow belongs to the first part,
/// overflow to the last; NaN is counted by the first.
template <int kLogCopies>
__device__ __forceinline__ void put_counts(
    const uint32_t* table,
    const Edges& part,
    const Edges& edges,
    bool valid,
    Flow flow,
    bool add,
    unsigned long long* histogram) {
  const auto places = static_cast<unsigned>(part.bins + 3);
  for (unsigned place = threadIdx.x; place < places; place += blockDim.x) {
    const bool is_nan_place = place == places - 1;
    const bool is_bin = place > 0 && place <= part.bins;
    const bool is_shown =
        flow.shown && (place == 0 || is_nan_place ? part.first == 0 : part.closed);
    if (!is_bin && !is_shown) {
      continue;
    }
    uint32_t sum = 0;
    for (unsigned copy = 0; copy < 1u << kLogCopies; ++copy) {
      // Lanes begin with different copies, so that they meet in no bank.
      sum += table[slot_of(place, kLogCopies) + ((copy + threadIdx.x) & ((1u << kLogCopies) - 1))];
    }
    const int64_t of_channel = is_nan_place ? edges.bins + 2 : part.first + place;
    put_or_add(&histogram[of_channel - (flow.shown ? 0 : 1)], valid || is_nan_place ? sum : 0, add);
  }
}

template <int kLogCopies, class Shape, class T>
__global__ __launch_bounds__(Shape::kThreads, Shape::kBlocks) void count_streams_kernel(
    const T* __restrict__ data,
    const __grid_constant__ EdgeStreams in,
    const __grid_constant__ Edges edges,
    Flow flow,
    const uint8_t* __restrict__ valid, // of channels with parts
    unsigned long long* __restrict__ counts) {
  using Key = typename Number<T>::Key;
  extern __shared__ __align__(16) unsigned char shared[];
  // Neighbouring blocks read the same rows.
  const unsigned index = blockIdx.x % in.parts, block = blockIdx.x / in.parts;
  const int64_t channel = block / in.chunks;
  const StreamOfBlock<T> stream(data, in, channel, block % in.chunks);
  stream.fetch_first(); // while the bins are found
  const Edges part = in.part(edges, index);
  const auto bins_of_part = static_cast<unsigned>(part.bins);
  const unsigned slots = slots_of(bins_of_part + 3, kLogCopies);
  // Wide keys come first, because they must be aligned.
  auto* thresholds = reinterpret_cast<Key*>(shared);
  auto* cells = reinterpret_cast<uint32_t*>(thresholds + slots);
  uint32_t* table = cells + in.cells;
  for (unsigned i = threadIdx.x; i < slots; i += Shape::kThreads) {
    table[i] = 0;
  }
  const auto bins = find_bins<T, kLogCopies>(part, channel, thresholds, cells, in.cells);
  const unsigned nan_place = flow.shown ? bins_of_part + 2 : 0;
  visit_guess<kKnowsOpenFormula<T>, true>(bins.guess, [&](auto guess) {
    const uint32_t counters = address_of(table) + 4 * (threadIdx.x & ((1u << kLogCopies) - 1));
    stream.template for_each<Shape>(
        CountInTable<guess(), T, kLogCopies>{bins, counters, nan_place});
  });
  __syncthreads();
  wait_for_previous(); // it clears the counts
  const bool is_valid = valid == nullptr ? bins.valid : valid[edges.shared ? 0 : channel] != 0;
  put_counts<kLogCopies>(
      table, part, edges, is_valid, flow, in.chunks > 1,
      counts + channel * flow.num_counts(edges.bins));
}

} // namespace

void count_streams_between(
    const EdgePlan& plan,
    const Problem& problem,
    const Edges& edges,
    const Flow& flow,
    const Launch& launch) {
  const uint8_t* valid =
      plan.checks_channels() ? check_channels(edges, problem.num_channels(), launch) : nullptr;
  visit_wide_type(problem.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto with = [&](auto kernel) {
      start(
          launch, "count_streams", kernel,
          Shape{grid_of(plan.blocks), ShapeOf<T>::kThreads, plan.shared_bytes, 1, plan.overlaps},
          static_cast<const T*>(problem.data), plan.streams, edges, flow, valid,
          reinterpret_cast<unsigned long long*>(problem.counts));
    };
    if constexpr (sizeof(T) == 2 && Number<T>::kIsFloat) {
      if (plan.streams.log_copies == 5) {
        return with(count_streams_kernel<5, ShapeOf<T>, T>);
      }
      if (plan.streams.log_copies == 3) {
        return with(count_streams_kernel<3, ShapeOf<T>, T>);
      }
    }
    if (plan.streams.log_copies != 0) {
      no_kernel("count_streams");
    }
    with(count_streams_kernel<0, ShapeOf<T>, T>);
  });
}

} // namespace histo::cuda
