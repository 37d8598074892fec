// Adds types of one byte to a quantile sketch: the integer engine counts raw bytes, and here the 256
// sums of a channel are added to its counts.
#include "cuda/fill/byte_sums.h"
#include "cuda/fill/sketch_counters.cuh"
#include "cuda/pdl.cuh"
#include "cuda/storage/counts.cuh"

namespace histo::cuda {
namespace {

template <class T>
__global__ __launch_bounds__(kBytes) void sketch_bytes_kernel(
    const unsigned long long* __restrict__ sums,
    const __grid_constant__ SketchIndex<uint32_t> index,
    const __grid_constant__ SketchCounters to) {
  wait_for_previous(); // it counts the bytes
  const int64_t channel = blockIdx.x;
  const unsigned long long sum = sums[channel * kBytes + threadIdx.x];
  ThreadExtremes<T, uint32_t> extremes;
  if (sum > 0) {
    const T element = bits_as<T>(static_cast<uint8_t>(threadIdx.x));
    const uint32_t bits = SketchElements<T, uint32_t>::bits(element);
    extremes.add(element, bits);
    put<true>(&to.counts[channel * to.num_counts + index.of_lane(bits)], sum);
  }
  ExtremeKeys keys = extremes.keys();
  keys.reduce(1);
  if (threadIdx.x % kWarp == 0) {
    keys.put(to, channel);
  }
}

} // namespace

void add_layout(const SketchBytes&, const SketchAdd& call, const Launch& launch) {
  const unsigned long long* sums = count_bytes(call.input, launch);
  visit_byte_type(call.input.type, [&](auto tag) {
    start(
        launch, "sketch_bytes", sketch_bytes_kernel<typename decltype(tag)::type>,
        LaunchShape{grid_of(call.plan.blocks), kBytes, 0, 1, launch.limits.has_clusters()}, sums,
        SketchIndex<uint32_t>(call.bins), call.to);
  });
}

} // namespace histo::cuda
