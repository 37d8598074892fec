// Adds channels one after another to a quantile sketch. A block has a table of all counts of one
// channel in shared memory.
#include "cuda/fill/fill.h"
#include "cuda/fill/sketch_counters.cuh"
#include "cuda/storage/slot_table.cuh"
#include "cuda/walk/walk.cuh"

namespace histo::cuda {
namespace {

using SketchReads = ReadShape<kThreadsOfSketch, static_cast<int>(kBlocksOfSketch), 4>;
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
      counts[j] = static_cast<unsigned>(index(bits));
    }
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      table.add(counts[j], Count::Step{});
    }
  }
};

template <class T, class Bits>
__global__
__launch_bounds__(SketchReads::kThreads, SketchReads::kBlocks) void sketch_streams_kernel(
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
  table.template clear<SketchReads::kThreads>(num_counts);
  __syncthreads();
  ThreadExtremes<T, Bits> extremes;
  stream.template for_each<SketchReads>(FillSketchTable<T, Bits>{index, table, extremes});
  __syncthreads();
  Count::Total* counts = to.counts + channel * to.num_counts;
  for (unsigned i = threadIdx.x; i < num_counts; i += SketchReads::kThreads) {
    put<true>(&counts[i], table.sum(i));
  }
  ExtremeKeys keys = extremes.keys();
  keys.reduce(1);
  if (threadIdx.x % kWarp == 0) {
    keys.put(to, channel);
  }
}

} // namespace

void add_streams_to_sketch(const SketchAdd& call, const Launch& launch) {
  visit_sketch_type(call.input.type, call.bins, [&](auto tag, auto bits) {
    using T = typename decltype(tag)::type;
    using Bits = typename decltype(bits)::type;
    if constexpr (sizeof(T) > 1) {
      start(
          launch, "sketch_streams", sketch_streams_kernel<T, Bits>, grid_of(call.plan.blocks),
          dim3(SketchReads::kThreads), call.plan.shared_bytes,
          static_cast<const T*>(call.input.data), call.plan.streams, SketchIndex<Bits>(call.bins),
          call.to);
    } else {
      no_kernel("sketch_streams");
    }
  });
}

} // namespace histo::cuda
