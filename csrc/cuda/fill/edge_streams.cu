// Counts channels one after another between their edges. A block has a table of one channel in
// shared memory: [slot][copy].
#include <algorithm>

#include "cuda/axis/search.cuh"
#include "cuda/fill/fill.h"
#include "cuda/fill/slots.cuh"
#include "cuda/pdl.cuh"
#include "cuda/storage/room.h"
#include "cuda/storage/slot_table.cuh"
#include "cuda/walk/walk.cuh"

namespace histo::cuda {
namespace {

template <class T>
using EdgeStreamReads = ReadShape<threads_of_streams(sizeof(T)), 1, 4>;

constexpr int kThreadsOfCheck = 1024;

template <class Accumulator, int kLogCopies, class Shape, class T>
__global__ __launch_bounds__(Shape::kThreads, Shape::kBlocks) void count_streams_kernel(
    const T* __restrict__ data,
    const __grid_constant__ EdgeStreams in,
    const __grid_constant__ Edges edges,
    Flow flow,
    const uint8_t* __restrict__ valid, // of channels with parts
    typename Accumulator::Total* __restrict__ totals) {
  using Table = SlotTable<Accumulator, kLogCopies>;
  extern __shared__ __align__(16) unsigned char shared[];
  // Neighbouring blocks read the same rows.
  const unsigned index = blockIdx.x % in.parts, block = blockIdx.x / in.parts;
  const int64_t channel = block / in.chunks;
  const StreamOfBlock<T> stream(data, in, channel, block % in.chunks);
  stream.fetch_first(); // while the bins are found
  const Edges part = in.part(edges, index);
  const auto slots_of_part = static_cast<unsigned>(part.bins) + 3;
  Room room(shared); // thresholds may be wide, so they come first
  auto* thresholds = room.take<typename Number<T>::Wide>(words_of(slots_of_part, kLogCopies));
  auto* buckets = room.take<uint32_t>(in.buckets);
  const Table table(room.take<typename Accumulator::Local>(0));
  table.template clear<Shape::kThreads>(slots_of_part);
  const auto bins = find_bins<T, kLogCopies>(part, channel, thresholds, buckets, in.buckets);
  const unsigned nan_slot = flow.shown ? slots_of_part - 1 : 0;
  visit_guess<kKnowsAffineExceptTop<T>, true>(bins.guess, [&](auto guess) {
    const GuessedBins<guess(), T, kLogCopies> guessed{bins};
    stream.template for_each<Shape>(
        FillTable<T, decltype(guessed), Table>{guessed, table, nan_slot});
  });
  __syncthreads();
  wait_for_previous(); // it clears the result
  const bool is_valid = valid == nullptr ? bins.valid : valid[edges.shared ? 0 : channel] != 0;
  put_slots(
      SlotsToPut{threadIdx.x, Shape::kThreads, flow, is_valid, in.adds}, part, edges.bins,
      totals + channel * flow.num_counts(edges.bins),
      [&](unsigned slot) { return table.sum(slot); });
}

__global__ __launch_bounds__(kThreadsOfCheck) void check_edges_kernel(
    const __grid_constant__ Edges edges, int64_t channels, uint8_t* __restrict__ valid) {
  for (int64_t channel = blockIdx.x; channel < channels; channel += gridDim.x) {
    const bool is_valid = are_valid(edges, channel);
    if (threadIdx.x == 0) {
      valid[channel] = is_valid;
    }
  }
}

} // namespace

const uint8_t* check_channels(const Edges& edges, int64_t channels, const Launch& launch) {
  const int64_t checked = edges.shared ? 1 : channels;
  auto* valid = static_cast<uint8_t*>(launch.allocate(checked));
  start(
      launch, "check_edges", check_edges_kernel, grid_of(std::min<int64_t>(checked, 1 << 16)),
      dim3(kThreadsOfCheck), 0, edges, checked, valid);
  return valid;
}

void count_layout(const EdgeStreams& in, const EdgeCount& call, const Launch& launch) {
  const uint8_t* valid = call.plan.checks_channels()
                             ? check_channels(call.edges, call.problem.num_channels(), launch)
                             : nullptr;
  visit_wide_type(call.problem.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto with = [&](auto kernel) {
      start(
          launch, "count_streams", kernel,
          LaunchShape{
              grid_of(call.plan.blocks), EdgeStreamReads<T>::kThreads, call.plan.shared_bytes, 1,
              call.plan.overlaps},
          static_cast<const T*>(call.problem.data), in, call.edges, call.flow, valid,
          totals_of(call.problem));
    };
    if constexpr (sizeof(T) == 2 && Number<T>::kIsFloat) {
      if (in.log_copies == 5) {
        return with(count_streams_kernel<Count, 5, EdgeStreamReads<T>, T>);
      }
      if (in.log_copies == 3) {
        return with(count_streams_kernel<Count, 3, EdgeStreamReads<T>, T>);
      }
    }
    if (in.log_copies != 0) {
      no_kernel("count_streams");
    }
    with(count_streams_kernel<Count, 0, EdgeStreamReads<T>, T>);
  });
}

} // namespace histo::cuda
