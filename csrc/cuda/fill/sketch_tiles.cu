// Adds elements of any strides to a quantile sketch. A block has a table of its channels in shared
// memory, or counts in the result, with its hot bins in shared memory.
#include "cuda/fill/sketch_counters.cuh"
#include "cuda/storage/tile_table.cuh"
#include "cuda/walk/tile.cuh"

namespace histo::cuda {
namespace {

/// Channels with tables lie side by side. Elements without them are rows that may be vec16s.
template <class T, bool kHasTable>
using SketchTiles = std::conditional_t<
    kHasTable,
    TileShape<false, true, false, kGenericUnroll>,
    TileShape<(sizeof(T) > 1), true, false, kGenericUnroll / 2>>;

template <class Storage, class T, class Bits>
__global__ __launch_bounds__(kGenericThreads) void sketch_tiles_kernel(
    const T* __restrict__ data,
    const __grid_constant__ Generic in,
    const __grid_constant__ SketchIndex<Bits> index,
    const __grid_constant__ SketchCounters to) {
  extern __shared__ uint32_t memory[];
  TileOfBlock<T, SketchTiles<T, Storage::kShared>> tile(data, in);
  const Storage storage(tile, memory, to.num_counts, to.counts);
  tile.fetch_first(); // and the storage is cleared meanwhile
  storage.clear();
  ThreadExtremes<T, Bits> extremes;
  tile.for_each([&](T element) {
    const Bits bits = SketchElements<T, Bits>::bits(element);
    extremes.add(element, bits);
    storage.add(tile.channel, index.of_lane(bits), Count::Step{});
  });
  storage.put();
  // Lanes of a warp have one channel, or channels that lie side by side in turns.
  const int of_warp = in.along_rows ? 1 : min(in.tile_channels, kWarp);
  ExtremeKeys keys = extremes.keys();
  keys.reduce(of_warp);
  if (static_cast<int>(threadIdx.x % kWarp) < of_warp) {
    keys.put(to, tile.first_channel + tile.channel);
  }
}

} // namespace

void add_layout(const Generic& in, const SketchAdd& call, const Launch& launch) {
  visit_sketch_type(call.input.type, call.bins, [&](auto tag, auto bits) {
    using T = typename decltype(tag)::type;
    using Bits = typename decltype(bits)::type;
    const auto with = [&](auto kernel) {
      start(
          launch, "sketch_tiles", kernel, grid_of(call.plan.blocks), dim3(kGenericThreads),
          call.plan.shared_bytes, static_cast<const T*>(call.input.data), in,
          SketchIndex<Bits>(call.bins), call.to);
    };
    if constexpr (sizeof(T) > 1) {
      if (in.has_table()) {
        return with(sketch_tiles_kernel<TileTable<Count>, T, Bits>);
      }
    }
    if (in.has_table()) {
      no_kernel("sketch_tiles");
    }
    with(sketch_tiles_kernel<TileInResult, T, Bits>);
  });
}

} // namespace histo::cuda
