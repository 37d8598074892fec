// Sums of weights of channels one after another. A block has a table of one channel in shared memory.
#pragma once

#include "cuda/fill/weights_packs.cuh"
#include "cuda/walk/pairs.cuh"

namespace histo::cuda {

template <class Values, class Weights, class Adder, class Shape>
__global__ __launch_bounds__(Shape::kThreads, Shape::kBlocks) void sum_streams_kernel(
    const void* __restrict__ values,
    const void* __restrict__ weights,
    const __grid_constant__ WeightStreams in,
    ElementType value_type,
    ElementType weight_type,
    const __grid_constant__ Edges edges,
    Flow flow,
    const uint8_t* __restrict__ valid, // of channels with parts
    ChannelSums all) {
  using Stream = StreamOfPairs<Values, Weights, Shape>;
  using V = typename Values::Wide;
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ BlockResult result;
  // Neighbouring blocks read the same rows.
  const unsigned index = blockIdx.x % in.parts, block = blockIdx.x / in.parts;
  const int64_t channel = block / in.chunks;
  const Stream stream(
      in, Values(value_type), Weights(weight_type), values, weights, channel, block % in.chunks);
  const Origin origin = choose_origin<Adder>(stream, in.table);
  const Edges part = in.part(edges, index);
  const auto slots = static_cast<unsigned>(part.bins) + 3;
  Room room(shared); // thresholds may be wide, so they come first
  auto* thresholds = room.take<V>(words_of(slots, 0u));
  auto* buckets = room.take<uint32_t>(in.buckets);
  auto* memory = room.take<uint32_t>(0);
  clear_words(memory, in.table.size(slots));
  unsigned* non_finite = clear_non_finite(memory, in.table, slots, in.writes);
  const auto bins = find_bins<V, 0>(part, channel, thresholds, buckets, in.buckets);
  if (threadIdx.x == 0) {
    const bool is_valid = valid == nullptr ? bins.valid : valid[edges.shared ? 0 : channel] != 0;
    const ChannelSums sums{all.of(channel * flow.num_counts(edges.bins)), all.layout, all.carries};
    result = {
        sums,
        SlotPlaces::of_edges(part, edges.bins, flow, is_valid),
        in.table,
        origin.first,
        address_of(memory),
        non_finite,
        {}};
  }
  __syncthreads();
  wait_for_previous(); // it clears the sums
  const Adder adder(Words{result, in.table}, origin);
  const auto copies = copies_of(stream, memory);
  const unsigned nan_slot = flow.shown ? slots - 1 : 0;
  visit_guess<kKnowsAffineExceptTop<V>, true>(bins.guess, [&](auto guess) {
    using Bins = GuessedBins<guess(), V, 0>;
    const Bins guessed{bins};
    stream.for_each(AddPacks<Stream, Bins, Adder>{stream, guessed, adder, copies, nan_slot});
  });
  __syncthreads();
  put_or_write_words(memory, result);
}

template <class Values, class Weights, class Adder, class Shape>
__global__ __launch_bounds__(Shape::kThreads, Shape::kBlocks) void sum_value_streams_kernel(
    const void* __restrict__ values,
    const void* __restrict__ weights,
    const __grid_constant__ WeightStreams in,
    ElementType value_type,
    ElementType weight_type,
    int64_t num_bins,
    ChannelSums all) {
  using Stream = StreamOfPairs<Values, Weights, Shape>;
  extern __shared__ __align__(16) uint32_t memory[];
  __shared__ BlockResult result;
  const int64_t channel = blockIdx.x / in.chunks;
  const Stream stream(
      in, Values(value_type), Weights(weight_type), values, weights, channel,
      blockIdx.x % in.chunks);
  const Origin origin = choose_origin<Adder>(stream, in.table);
  const auto places = SlotPlaces::of_values(num_bins);
  clear_words(memory, in.table.size(places.slots()));
  unsigned* non_finite = clear_non_finite(memory, in.table, places.slots(), in.writes);
  if (threadIdx.x == 0) {
    const ChannelSums sums{all.of(channel * num_bins), all.layout, all.carries};
    result = {sums, places, in.table, origin.first, address_of(memory), non_finite, {}};
  }
  __syncthreads();
  wait_for_previous(); // it clears the sums
  const Adder adder(Words{result, in.table}, origin);
  const auto copies = copies_of(stream, memory);
  const ValueSlots bins{static_cast<uint64_t>(num_bins)};
  stream.for_each(AddPacks<Stream, ValueSlots, Adder>{stream, bins, adder, copies, 0});
  __syncthreads();
  put_or_write_words(memory, result);
}

/// The streams of a kernel with so many threads, and packs of so many elements.
inline WeightStreams with_threads(WeightStreams in, int threads, int pack_size) {
  in.teams = teams_of_weights(in, threads, pack_size);
  in.pack_step = in.turns * threads / in.teams;
  in.weight_step = in.pack_step * in.weight_rows[2].stride;
  return in;
}

/// Starts a kernel of streams between edges.
template <class Values, class Weights, class Adder, int kInFlight, int kThreads = kThreadsOfWeights>
void start_edge_sums(
    const WeightStreams& in, const EdgeSum& call, const uint8_t* valid, const Launch& launch) {
  const WeightsPlan& plan = call.plan;
  const Problem& problem = call.problem;
  const View& weights = problem.operand(1);
  const int threads = std::min(plan.threads, kThreads);
  start(
      launch, "sum_streams",
      sum_streams_kernel<Values, Weights, Adder, ReadShape<kThreads, 1, kInFlight>>,
      LaunchShape{
          grid_of(plan.blocks), dim3(static_cast<unsigned>(threads)), plan.shared_bytes, 1,
          launch.limits.has_clusters()},
      problem.data, weights.data, with_threads(in, threads, Values::kSize), problem.type,
      weights.type, call.edges, call.flow, valid, channel_sums(problem));
}

/// The same of streams of values.
template <class Values, class Weights, class Adder, int kInFlight, int kThreads = kThreadsOfWeights>
void start_value_sums(
    const WeightStreams& in,
    const WeightsPlan& plan,
    const Problem& problem,
    const Launch& launch) {
  const View& weights = problem.operand(1);
  const int threads = std::min(plan.threads, kThreads);
  start(
      launch, "sum_value_streams",
      sum_value_streams_kernel<Values, Weights, Adder, ReadShape<kThreads, 1, kInFlight>>,
      LaunchShape{
          grid_of(plan.blocks), dim3(static_cast<unsigned>(threads)), plan.shared_bytes, 1,
          launch.limits.has_clusters()},
      problem.data, weights.data, with_threads(in, threads, Values::kSize), problem.type,
      weights.type, problem.num_bins, channel_sums(problem));
}

} // namespace histo::cuda
