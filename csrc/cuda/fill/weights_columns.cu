// Sums of weights of channels that lie side by side. A block has a stripe of columns, and a table
// [slot][word][column] in shared memory, in which a lane meets no other in a bank.
#include "cuda/axis/column_bins.cuh"
#include "cuda/fill/weights_packs.cuh"
#include "cuda/walk/pair_columns.cuh"
#include "cuda/walk/rotated_columns.cuh"

namespace histo::cuda {
namespace {

constexpr int kLogColumns = 5;
static_assert(1 << kLogColumns == kColumnsOfWeights);

/// The bins of a thread's columns: element i of a pack is of column i % kColumns.
template <class T, int kColumns>
struct BinsOfThread {
  using Bins = ColumnBins<T, 1, kLogColumns>;
  Bins bins[kColumns];
};

/// The same, found by one guess.
template <Guess kGuess, class T, int kColumns>
struct GuessedColumns {
  const BinsOfThread<T, kColumns>& of_thread;

  template <int kSize>
  __device__ __forceinline__ void find(const T (&values)[kSize], unsigned (&slots)[kSize]) const {
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      slots[j] = of_thread.bins[j % kColumns].template slot<kGuess>(values[j], 0);
    }
  }
};

/// The result of a block whose copies are columns.
template <class Columns>
__device__ __forceinline__ BlockResult result_of(
    const Columns& columns,
    const ChannelSums& all,
    const SlotPlaces& places,
    const WordTable& table,
    int origin,
    const uint32_t* memory,
    const unsigned* invalid,
    int64_t num_bins) {
  const WeightColumns& in = columns.in;
  const ChannelSums of_batch{
      all.of(columns.batch * in.channels * num_bins), all.layout, all.carries};
  return {
      of_batch,
      places,
      table,
      origin,
      address_of(memory),
      nullptr,
      ColumnsOfResult{num_bins, in.channels, columns.first_column(), in.columns, invalid}};
}

template <class Columns, class Adder, class Shape>
__global__ __launch_bounds__(Shape::kThreads, Shape::kBlocks) void sum_columns_kernel(
    const void* __restrict__ values,
    const void* __restrict__ weights,
    const __grid_constant__ WeightColumns in,
    ElementType value_type,
    ElementType weight_type,
    FoundColumns<typename Columns::Value> found,
    unsigned bins_of_channel,
    Flow flow,
    ChannelSums all) {
  using V = typename Columns::Value;
  constexpr int kColumns = Columns::kCopies;
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ unsigned limits[kColumnsOfWeights], invalid[kColumnsOfWeights];
  __shared__ BlockResult result;
  using Values = typename Columns::Values;
  using Weights = typename Columns::Weights;
  Columns columns(in, Values(value_type), Weights(weight_type), values, weights);
  const Origin origin = choose_origin<Adder>(columns, in.table);
  const unsigned slots = bins_of_channel + 3;
  Room room(shared);
  auto* thresholds = room.take<typename Stored<V>::Type>((bins_of_channel + 1) * kColumnsOfWeights);
  auto* memory = room.take<uint32_t>(0);
  clear_words(memory, in.table.size(slots));
  const int64_t stripe = found.stripe(columns.batch, columns.in, columns.stripe);
  const Guess found_guess =
      copy_stripe(found, stripe, kColumnsOfWeights, bins_of_channel, thresholds, limits, invalid);
  BinsOfThread<V, kColumns> bins;
#pragma unroll
  for (int i = 0; i < kColumns; ++i) {
    bins.bins[i] = bins_of_word<V, 1, kLogColumns>(
        found, stripe, bins_of_channel, thresholds, limits, found_guess, columns.copy(i));
  }
  if (threadIdx.x == 0) {
    const Edges all_bins{nullptr, value_type, bins_of_channel, true, 0, 0, true};
    result = result_of(
        columns, all, SlotPlaces::of_edges(all_bins, bins_of_channel, flow, true), in.table,
        origin.first, memory, invalid, flow.num_counts(bins_of_channel));
  }
  __syncthreads();
  const Adder adder(Words{result, in.table}, origin);
  const auto copies = copies_of(columns, memory);
  const unsigned nan_slot = flow.shown ? slots - 1 : 0;
  visit_guess<false, false>(found_guess, [&](auto guess) {
    using Guessed = GuessedColumns<guess(), V, kColumns>;
    const Guessed guessed{bins};
    columns.for_each(AddPacks<Columns, Guessed, Adder>{columns, guessed, adder, copies, nan_slot});
  });
  __syncthreads();
  put_columns(memory, result);
}

template <class Columns, class Adder, class Shape>
__global__ __launch_bounds__(Shape::kThreads, Shape::kBlocks) void sum_value_columns_kernel(
    const void* __restrict__ values,
    const void* __restrict__ weights,
    const __grid_constant__ WeightColumns in,
    ElementType value_type,
    ElementType weight_type,
    int64_t num_bins,
    ChannelSums all) {
  using Values = typename Columns::Values;
  using Weights = typename Columns::Weights;
  extern __shared__ __align__(16) uint32_t memory[];
  __shared__ BlockResult result;
  Columns columns(in, Values(value_type), Weights(weight_type), values, weights);
  const Origin origin = choose_origin<Adder>(columns, in.table);
  const auto places = SlotPlaces::of_values(num_bins);
  clear_words(memory, in.table.size(places.slots()));
  if (threadIdx.x == 0) {
    result = result_of(columns, all, places, in.table, origin.first, memory, nullptr, num_bins);
  }
  __syncthreads();
  wait_for_previous(); // it clears the sums
  const Adder adder(Words{result, in.table}, origin);
  const auto copies = copies_of(columns, memory);
  const ValueSlots bins{static_cast<uint64_t>(num_bins)};
  columns.for_each(AddPacks<Columns, ValueSlots, Adder>{columns, bins, adder, copies, 0});
  __syncthreads();
  put_columns(memory, result);
}

/// Values as V, float or double.
template <class V>
FoundColumns<V> find_columns_as(
    const WeightColumns& in, const EdgeSum& call, const Launch& launch) {
  Problem widened = call.problem;
  widened.type = sizeof(V) == 4 ? ElementType::kFloat32 : ElementType::kFloat64;
  widened.adds = true; // the sums are cleared already
  return find_columns<V>(in, widened, call.edges, launch);
}

/// Columns as a kernel reads them.
template <class Columns>
WeightColumns with_steps(WeightColumns in, const Problem& problem) {
  in.value_step = in.row_stride * Columns::kRowStep * bytes_of_type(problem.type);
  in.weight_step = in.weight_row * Columns::kRowStep * bytes_of_type(problem.operand(1).type);
  return in;
}

template <class Columns, class Adder, class Shape>
void start_columns(const WeightColumns& in, const EdgeSum& call, const Launch& launch) {
  using V = typename Columns::Value;
  const Problem& problem = call.problem;
  const View& weights = problem.operand(1);
  start(
      launch, "sum_columns", sum_columns_kernel<Columns, Adder, Shape>, grid_of(call.plan.blocks),
      dim3(Shape::kThreads), call.plan.shared_bytes, problem.data, weights.data,
      with_steps<Columns>(in, problem), problem.type, weights.type,
      find_columns_as<V>(in, call, launch), static_cast<unsigned>(call.edges.bins), call.flow,
      channel_sums(problem));
}

template <class Columns, class Adder, class Shape>
void start_value_columns(
    const WeightColumns& in,
    const WeightsPlan& plan,
    const Problem& problem,
    const Launch& launch) {
  const View& weights = problem.operand(1);
  start(
      launch, "sum_value_columns", sum_value_columns_kernel<Columns, Adder, Shape>,
      LaunchShape{
          grid_of(plan.blocks), Shape::kThreads, plan.shared_bytes, 1,
          launch.limits.has_clusters()},
      problem.data, weights.data, with_steps<Columns>(in, problem), problem.type, weights.type,
      problem.num_bins, channel_sums(problem));
}

using Shape = ReadShape<kThreadsOfMixedWeights, 1, 1>;

} // namespace

void sum_between(const WeightColumns& in, const EdgeSum& call, const Launch& launch) {
  const auto with = [&](auto sum) { sum(in, call, launch); };
  const ElementType type = call.problem.type, weight = call.problem.operand(1).type;
  if (in.in_vec16s) {
    using Columns = RotatedColumns<Typed<float, 4>, Typed<float, 4>, Shape>;
    return with(start_columns<Columns, FloatAdder, Shape>);
  }
  if (type == ElementType::kFloat32 && weight == ElementType::kFloat32) {
    using Columns = ColumnsOfPairs<Typed<float, 4>, Typed<float, 4>, Shape>;
    return with(start_columns<Columns, FloatAdder, Shape>);
  }
  if (value_kind(type) == WordKind::kFloat64) {
    using Columns = ColumnsOfPairs<Untyped<double>, Typed<double, 4>, Shape>;
    return with(start_columns<Columns, DoubleAdder, Shape>);
  }
  if (word_kind(weight) == WordKind::kInteger) {
    using Columns = ColumnsOfPairs<Untyped<float>, Untyped<int64_t>, Shape>;
    return with(start_columns<Columns, IntegerAdder, Shape>);
  }
  using Columns = ColumnsOfPairs<Untyped<float>, Untyped<float>, Shape>;
  with(start_columns<Columns, FloatAdder, Shape>);
}

void sum_of_values(
    const WeightColumns& in,
    const WeightsPlan& plan,
    const Problem& problem,
    const Launch& launch) {
  const auto with = [&](auto sum) { sum(in, plan, problem, launch); };
  if (word_kind(problem.operand(1).type) == WordKind::kInteger) {
    using Columns = ColumnsOfPairs<Untyped<int64_t>, Untyped<int64_t>, Shape>;
    return with(start_value_columns<Columns, IntegerAdder, Shape>);
  }
  using Columns = ColumnsOfPairs<Untyped<int64_t>, Untyped<float>, Shape>;
  with(start_value_columns<Columns, FloatAdder, Shape>);
}

} // namespace histo::cuda
