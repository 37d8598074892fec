// Adds elements of any strides to a quantile sketch: in the result, with the hot bins of a block in
// shared memory.
#include "cuda/fill/sketch_counters.cuh"
#include "cuda/storage/tile_table.cuh"
#include "cuda/walk/tile.cuh"

namespace histo::cuda {
namespace {

template <class T>
using SketchTiles = TileShape<(sizeof(T) > 1), true, true, kGenericUnroll / 2>;

template <class T, class Bits>
__global__ __launch_bounds__(kGenericThreads) void sketch_tiles_kernel(
    const T* __restrict__ data,
    const __grid_constant__ Generic in,
    const __grid_constant__ SketchIndex<Bits> index,
    const __grid_constant__ SketchCounters to) {
  extern __shared__ uint32_t memory[];
  TileOfBlock<T, SketchTiles<T>> tile(data, in);
  const TileInResult storage(tile, memory, to.num_counts, to.counts);
  tile.fetch_first(); // and the hot bins are cleared meanwhile
  storage.clear();
  ThreadExtremes<T, Bits> extremes;
  tile.for_each([&](T element) {
    const Bits bits = SketchElements<T, Bits>::bits(element);
    extremes.add(element, bits);
    storage.add(tile.channel, index(bits), Count::Step{});
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

void add_tiles_to_sketch(const SketchAdd& call, const Launch& launch) {
  visit_sketch_type(call.input.type, call.bins, [&](auto tag, auto bits) {
    using T = typename decltype(tag)::type;
    using Bits = typename decltype(bits)::type;
    start(
        launch, "sketch_tiles", sketch_tiles_kernel<T, Bits>, grid_of(call.plan.blocks),
        dim3(kGenericThreads), call.plan.shared_bytes, static_cast<const T*>(call.input.data),
        std::get<Generic>(call.plan.tiles.layout), SketchIndex<Bits>(call.bins), call.to);
  });
}

} // namespace histo::cuda
