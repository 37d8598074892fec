// Counts channels one after another between their edges. A block has a table of one channel in
// shared memory: [slot][copy].
#include "cuda/axis/block_bins.cuh"
#include "cuda/fill/fill.h"
#include "cuda/pdl.cuh"
#include "cuda/storage/counts.cuh"
#include "cuda/walk/walk.cuh"

namespace histo::cuda {
namespace {

template <class T>
using ShapeOf = ReadShape<threads_of_streams(sizeof(T)), 1, 4>;

/// Counts elements in a table. NaN has a slot of its own, which is that of underflow where neither
/// is shown.
template <Guess kGuess, class T, int kLogCopies>
struct CountInTable {
  const BlockBins<T, kLogCopies>& bins;
  uint32_t counters; // the copies of this thread
  unsigned nan_slot;

  __device__ __forceinline__ void operator()(T element) const {
    (*this)(Pack<T, 1>{element});
  }
  /// All slots are found before one is counted, so that loads do not wait for each other.
  template <int kSize>
  __device__ __forceinline__ void operator()(const Pack<T, kSize>& pack) const {
    typename Number<T>::Wide values[kSize];
    unsigned slots[kSize];
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      values[j] = Number<T>::wide(pack.elements[j]);
    }
    bins.template find<kGuess>(values, slots);
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      if constexpr (Number<T>::kIsFloat) {
        slots[j] = is_nan(values[j]) ? nan_slot : slots[j];
      }
      add_shared(counters + 4 * word_of(slots[j], kLogCopies), 1);
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
  const auto slots = static_cast<unsigned>(part.bins + 3);
  for (unsigned slot = threadIdx.x; slot < slots; slot += blockDim.x) {
    const bool is_nan_slot = slot == slots - 1;
    const bool is_bin = slot > 0 && slot <= part.bins;
    const bool is_shown = flow.shown && (slot == 0 || is_nan_slot ? part.first == 0 : part.closed);
    if (!is_bin && !is_shown) {
      continue;
    }
    uint32_t sum = 0;
    for (unsigned copy = 0; copy < 1u << kLogCopies; ++copy) {
      // Lanes begin with different copies, so that they meet in no bank.
      sum += table[word_of(slot, kLogCopies) + ((copy + threadIdx.x) & ((1u << kLogCopies) - 1))];
    }
    const int64_t of_channel = is_nan_slot ? edges.bins + 2 : part.first + slot;
    put_or_add(&histogram[of_channel - (flow.shown ? 0 : 1)], valid || is_nan_slot ? sum : 0, add);
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
  using Wide = typename Number<T>::Wide;
  extern __shared__ __align__(16) unsigned char shared[];
  // Neighbouring blocks read the same rows.
  const unsigned index = blockIdx.x % in.parts, block = blockIdx.x / in.parts;
  const int64_t channel = block / in.chunks;
  const StreamOfBlock<T> stream(data, in, channel, block % in.chunks);
  stream.fetch_first(); // while the bins are found
  const Edges part = in.part(edges, index);
  const auto bins_of_part = static_cast<unsigned>(part.bins);
  const unsigned words = words_of(bins_of_part + 3, kLogCopies);
  // Wide thresholds come first, because they must be aligned.
  auto* thresholds = reinterpret_cast<Wide*>(shared);
  auto* buckets = reinterpret_cast<uint32_t*>(thresholds + words);
  uint32_t* table = buckets + in.buckets;
  for (unsigned i = threadIdx.x; i < words; i += Shape::kThreads) {
    table[i] = 0;
  }
  const auto bins = find_bins<T, kLogCopies>(part, channel, thresholds, buckets, in.buckets);
  const unsigned nan_slot = flow.shown ? bins_of_part + 2 : 0;
  visit_guess<kKnowsAffineExceptTop<T>, true>(bins.guess, [&](auto guess) {
    const uint32_t counters = address_of(table) + 4 * (threadIdx.x & ((1u << kLogCopies) - 1));
    stream.template for_each<Shape>(CountInTable<guess(), T, kLogCopies>{bins, counters, nan_slot});
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
          LaunchShape{
              grid_of(plan.blocks), ShapeOf<T>::kThreads, plan.shared_bytes, 1, plan.overlaps},
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
