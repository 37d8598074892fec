// Sums of weights for elements and weights of any types and strides, and for any number of bins: the
// generic walk, which adds to the result. The gradient walks in the same way.
#include "cuda/axis/search.cuh"
#include "cuda/axis/values.cuh"
#include "cuda/fill/fill.h"
#include "cuda/fill/weights.h"
#include "cuda/pdl.cuh"
#include "cuda/storage/sums.cuh"
#include "cuda/walk/tile.cuh"
#include "cuda/walk/walk.cuh"

namespace histo::cuda {
namespace {

// The types are known when the kernel runs, so elements are bytes for the walk. Finding a bin is
// much code, so few loads are in flight.
using Shape = TileShape<false, true, true, 2>;
using Tile = TileOfBlock<uint8_t, Shape>;

/// A value and where the other operand has its element.
struct Row {
  RawBits value;
  char* other;
};

struct Loader {
  const Tile& tile;
  const TileOperand& other;
  char* of_channel;
  unsigned value_bytes;

  __device__ __forceinline__
  Loader(const Tile& of_block, const TileOperand& operand, unsigned bytes, int64_t channel)
      : tile(of_block),
        other(operand),
        of_channel(static_cast<char*>(operand.data) + offset_in(operand.channels, channel)),
        value_bytes(bytes) {
  }
  __device__ __forceinline__ Row operator()(int64_t row) const {
    return {
        load_raw(tile.column + tile.offset(row), value_bytes),
        of_channel + offset_in(other.rows, row)};
  }
};

__device__ __forceinline__ int64_t channel_of(const Tile& tile) {
  return tile.first_channel + min(tile.channel, tile.channels - 1);
}

template <class Axis>
__global__ __launch_bounds__(kGenericThreads) void sum_tiles_kernel(
    const uint8_t* __restrict__ values,
    const __grid_constant__ WeightTiles in,
    const __grid_constant__ Axis axis,
    int64_t num_bins,
    ChannelSums all) {
  const Tile tile(values, in.tiles);
  const auto& of_thread = axis.of_thread(tile);
  const int64_t channel = channel_of(tile);
  const ChannelSums sums{all.of(channel * num_bins), all.layout, all.carries};
  const Loader load(tile, in.other, in.value_bytes, channel);
  wait_for_previous(); // it clears the sums
  struct Pair {
    RawBits value, weight;
  };
  tile.for_each_loaded(
      [&](int64_t row) {
        const Row loaded = load(row);
        return Pair{loaded.value, load_raw(loaded.other, in.other_bytes)};
      },
      [&](const Pair& pair) {
        const int64_t bin = of_thread.find(pair.value);
        if (bin != kNoBin) {
          visit_raw(in.other.type, pair.weight, [&](auto weight) { sums.add(bin, weight); });
        }
      });
}

template <class Axis>
__global__ __launch_bounds__(kGenericThreads) void gather_kernel(
    const uint8_t* __restrict__ values,
    const __grid_constant__ WeightTiles in,
    const __grid_constant__ Axis axis,
    int64_t num_bins,
    const double* __restrict__ gradient) {
  const Tile tile(values, in.tiles);
  const auto& of_thread = axis.of_thread(tile);
  const int64_t channel = channel_of(tile);
  const Loader load(tile, in.other, in.value_bytes, channel);
  tile.for_each_loaded(load, [&](const Row& row) {
    const int64_t bin = of_thread.find(row.value);
    *reinterpret_cast<double*>(row.other) = bin == kNoBin ? 0 : gradient[channel * num_bins + bin];
  });
}

/// The channels whose edges are valid, if a kernel of its own asks for them.
const uint8_t* valid_channels(
    const WeightTiles& in, const Problem& problem, const Edges& edges, const Launch& launch) {
  return in.tiles.tile_channels > 1 || in.tiles.chunks > 1
             ? check_channels(edges, problem.num_channels(), launch)
             : nullptr;
}

template <class Axis>
void sum_tiles(
    const WeightTiles& in,
    const WeightsPlan& plan,
    const Problem& problem,
    const Axis& axis,
    const Launch& launch) {
  const auto layout = sum_layout(problem.operand(1).type);
  start(
      launch, "sum_tiles", sum_tiles_kernel<Axis>, grid_of(plan.blocks), kGenericThreads, 0,
      static_cast<const uint8_t*>(problem.data), in, axis, problem.num_bins,
      ChannelSums{totals_of(problem), layout, problem.num_rows() > kMostUncarried});
}

template <class Axis>
void gather(
    const Problem& problem, const Axis& axis, const double* gradient, const Launch& launch) {
  const WeightsPlan plan = plan_weight_tiles(problem, launch.limits);
  start(
      launch, "gather", gather_kernel<Axis>, grid_of(plan.blocks), kGenericThreads, 0,
      static_cast<const uint8_t*>(problem.data), std::get<WeightTiles>(plan.layout), axis,
      problem.num_bins, gradient);
}

} // namespace

void sum_between(const WeightTiles& in, const EdgeSum& call, const Launch& launch) {
  const Problem& problem = call.problem;
  const uint8_t* valid = valid_channels(in, problem, call.edges, launch);
  const EdgeAxis<RawBits> axis{call.edges, call.flow, problem.type, valid};
  sum_tiles(in, call.plan, problem, axis, launch);
}

void sum_of_values(
    const WeightTiles& in, const WeightsPlan& plan, const Problem& problem, const Launch& launch) {
  sum_tiles(in, plan, problem, RawValues{problem.type, {problem.num_bins}}, launch);
}

void weight_gradient_between(
    const Problem& problem,
    const Edges& edges,
    const Flow& flow,
    const double* gradient,
    const Launch& launch) {
  const uint8_t* valid = check_channels(edges, problem.num_channels(), launch);
  gather(problem, EdgeAxis<RawBits>{edges, flow, problem.type, valid}, gradient, launch);
}

void weight_gradient_of_values(
    const Problem& problem, const double* gradient, const Launch& launch) {
  gather(problem, RawValues{problem.type, {problem.num_bins}}, gradient, launch);
}

} // namespace histo::cuda
