// Adds channels one after another to a quantile sketch. A block has a table of all counts of one
// channel in shared memory.
#include "cuda/fill/fill.h"
#include "cuda/fill/sketch_counters.cuh"
#include "cuda/storage/slot_table.cuh"
#include "cuda/walk/walk.cuh"

namespace histo::cuda {
namespace {

using ShortReads = ReadShape<kThreadsOfShortSketch, kBlocksOfShortSketch, 4>;
using LongReads = ReadShape<kThreadsOfLongSketch, 1, 4>;
using SketchTable = SlotTable<Count, 0>;

/// Adds elements to a table of one channel.
template <class T, class Bits>
struct FillSketchTable {
  const SketchIndex<Bits>& index;
  const SketchTable& table;
  ThreadExtremes<T, Bits>& extremes;

  __device__ __forceinline__ void operator()(T element) const {
    (*this)(Pack<T, 1>{element});
  }
  /// All counts are found before one is added to, so that loads do not wait for each other.
  template <int kSize>
  __device__ __forceinline__ void operator()(const Pack<T, kSize>& pack) const {
    unsigned counts[kSize];
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      const Bits bits = SketchElements<T, Bits>::bits(pack.elements[j]);
      extremes.add(pack.elements[j], bits);
      counts[j] = static_cast<unsigned>(index.of_lane(bits));
    }
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      table.add(counts[j], Count::Step{});
    }
  }
};

/// The slot of a word that is not left out (word_of).
__device__ __forceinline__ unsigned slot_of_word(unsigned word) {
  return word - word / (kBanks + 1);
}

template <class Shape, class T, class Bits>
__global__ __launch_bounds__(Shape::kThreads, Shape::kBlocks) void sketch_streams_kernel(
    const T* __restrict__ data,
    const __grid_constant__ ChannelStreams in,
    const __grid_constant__ SketchIndex<Bits> index,
    const __grid_constant__ SketchCounters to) {
  extern __shared__ __align__(16) uint32_t memory[];
  const int64_t channel = blockIdx.x / in.chunks;
  const StreamOfBlock<T> stream(data, in, channel, blockIdx.x % in.chunks);
  stream.fetch_first(); // while the table is cleared
  const SketchTable table(memory);
  const auto num_counts = static_cast<unsigned>(to.num_counts);
  for (unsigned i = threadIdx.x; i < words_of(num_counts, 0) / 4; i += Shape::kThreads) {
    reinterpret_cast<uint4*>(memory)[i] = {};
  }
  __syncthreads();
  ThreadExtremes<T, Bits> extremes;
  stream.template for_each<Shape>(FillSketchTable<T, Bits>{index, table, extremes});
  __syncthreads();
  Count::Total* counts = to.counts + channel * to.num_counts;
  // Most counts are zero.
  const auto* vec16s = reinterpret_cast<const uint4*>(memory);
  for (unsigned i = threadIdx.x; i < words_of(num_counts, 0) / 4; i += Shape::kThreads) {
    const uint4 sums = vec16s[i];
    if ((sums.x | sums.y | sums.z | sums.w) != 0) {
      put<true>(&counts[slot_of_word(4 * i)], sums.x);
      put<true>(&counts[slot_of_word(4 * i + 1)], sums.y);
      put<true>(&counts[slot_of_word(4 * i + 2)], sums.z);
      put<true>(&counts[slot_of_word(4 * i + 3)], sums.w);
    }
  }
  ExtremeKeys keys = extremes.keys();
  keys.reduce(1);
  if (threadIdx.x % kWarp == 0) {
    keys.put(to, channel);
  }
}

} // namespace

void add_layout(const ChannelStreams& in, const SketchAdd& call, const Launch& launch) {
  visit_sketch_type(call.input.type, call.bins, [&](auto tag, auto bits) {
    using T = typename decltype(tag)::type;
    using Bits = typename decltype(bits)::type;
    if constexpr (sizeof(T) > 1) {
      const auto kernel = call.plan.threads == LongReads::kThreads
                              ? sketch_streams_kernel<LongReads, T, Bits>
                              : sketch_streams_kernel<ShortReads, T, Bits>;
      start(
          launch, "sketch_streams", kernel, grid_of(call.plan.blocks),
          dim3(static_cast<unsigned>(call.plan.threads)), call.plan.shared_bytes,
          static_cast<const T*>(call.input.data), in, SketchIndex<Bits>(call.bins), call.to);
    } else {
      no_kernel("sketch_streams");
    }
  });
}

} // namespace histo::cuda
