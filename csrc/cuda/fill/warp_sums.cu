// Sums of weights of many short channels that share their edges. A warp has a table in shared memory:
// it adds the weights of a channel, rounds the sums of bins that have some, and goes on.
#include "cuda/fill/warp_sums.h"

#include "cuda/axis/block_bins.cuh"
#include "cuda/storage/room.h"
#include "cuda/storage/rounded_words.cuh"
#include "cuda/storage/word_adders.cuh"
#include "cuda/walk/packs.cuh"
#include "cuda/walk/raw.cuh"
#include "cuda/walk/team.cuh"
#include "cuda/walk/walk.cuh"

namespace histo::cuda {
namespace {

constexpr int kMostThreads = static_cast<int>(kMostWarpsOfWarpSums) * kWarp;
constexpr unsigned kInFlight = kLoadsOfWarpSums, kAtOnce = kAdditionsOfWarpSums;

/// An element whose type is known only at run time and fits TheWide. It is loaded as raw bits, so that
/// loads overlap.
template <class TheWide>
struct RawElement {
  using Wide = TheWide;
  using Pack = RawBits;

  ElementType type;
  unsigned size;

  __device__ __forceinline__ explicit RawElement(ElementType of)
      : type(of), size(Untyped<Wide>(of).bytes()) {
  }
  __device__ __forceinline__ unsigned bytes() const {
    return size;
  }
  __device__ __forceinline__ void load_one(const char* at, int, Pack& pack) const {
    pack = load_raw(at, size);
  }
  __device__ __forceinline__ void widen(const Pack& pack, int, Wide (&elements)[1]) const {
    elements[0] = visit_raw(type, pack, [](auto element) {
      using T = decltype(element);
      constexpr bool kIsFloat = Number<T>::kIsFloat, kIsDouble = sizeof(Wide) == sizeof(double);
      if constexpr (kIsFloat ? sizeof(T) <= sizeof(Wide) : kIsDouble && sizeof(T) < 8) {
        return static_cast<Wide>(Number<T>::wide(element));
      } else {
        return Wide{}; // the host has refused it
      }
    });
  }
};

/// A row among the loops of rows, whose sizes are the same for all operands.
struct RowPlace {
  unsigned row;
  bool is_flat; // it is one of the last loop; otherwise `rows` has its number in each
  unsigned rows[3];

  /// Divisions of 64 bits take long, and there are few rows.
  __device__ __forceinline__ RowPlace(const Extent (&loops)[3], unsigned index)
      : row(index), is_flat(loops[0].size == 1 && loops[1].size == 1) {
    if (!is_flat) {
      const auto inner = static_cast<unsigned>(loops[2].size);
      const auto middle = static_cast<unsigned>(loops[1].size);
      const unsigned outer = row / inner;
      rows[0] = outer / middle;
      rows[1] = outer - rows[0] * middle;
      rows[2] = row - outer * inner;
    }
  }
  __device__ __forceinline__ int64_t offset(const Extent (&loops)[3]) const {
    return is_flat
               ? row * loops[2].stride
               : rows[0] * loops[0].stride + rows[1] * loops[1].stride + rows[2] * loops[2].stride;
  }
};

/// Adds weights to the slots of a warp's table, and tells in the flags of each slot what it has.
struct WarpAdder : FloatAdder {
  uint32_t* own; // the warp's table
  uint32_t address;

  __device__ __forceinline__ WarpAdder(const Words& table, uint32_t* of_warp)
      : FloatAdder(table, {0, 0}), own(of_warp), address(address_of(of_warp)) {
  }
  /// `has`: whether there is an element. All lanes call it.
  template <int kSize>
  __device__ __forceinline__ void add(
      const unsigned (&slots)[kSize],
      const float (&weights)[kSize],
      const bool (&has)[kSize]) const {
    Addend addends[kSize];
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      const unsigned slot = has[j] ? slots[j] : 0;
      const uint32_t base = address + slot * kBytesOfSlot;
      const Parts parts(has[j] ? weights[j] : 0.0f, 0);
      const bool is_finite = fits(parts);
      addends[j] = is_finite ? addend_of(base, parts) : Addend{base, 0, 0};
      if (has[j]) {
        atomicOr(own + slot * kWordsOfSlot + kFlags, is_finite ? kHasWeights : flag_of(weights[j]));
      }
    }
    add_to_words<false, false>(words, addends);
    __syncwarp();
  }
};

/// The channels of a warp.
template <class Values, class Weights, class Bins>
struct WarpChannels {
  using V = typename Values::Wide;
  const WarpSums& in;
  Values values;
  Weights weights;
  const char* value_data;
  const char* weight_data;
  const Bins& bins;
  const WarpAdder& adder;
  uint16_t* list; // of slots that have weights
  Flow flow;
  double* sums;

  template <Guess kGuess>
  __device__ __forceinline__ unsigned slot_of(const typename Values::Pack& pack) const {
    V value[1];
    unsigned slot[1];
    values.widen(pack, 0, value);
    bins.template find<kGuess>(value, slot);
    return is_nan(value[0]) ? in.slots - 1 : slot[0];
  }
  /// Adds the weights of a channel.
  template <Guess kGuess>
  __device__ __forceinline__ void add(const char* own_values, const char* own_weights) const {
    const unsigned lane = threadIdx.x % kWarp;
#pragma unroll 1
    for (unsigned first = 0; first < in.num_rows; first += kInFlight * kWarp) {
      typename Values::Pack value[kInFlight] = {};
      typename Weights::Pack weight[kInFlight] = {};
#pragma unroll
      for (unsigned j = 0; j < kInFlight; ++j) {
        const unsigned row = first + j * kWarp + lane;
        if (row < in.num_rows) {
          const RowPlace place(in.rows, row);
          values.load_one(own_values + place.offset(in.rows) * values.bytes(), 0, value[j]);
          weights.load_one(
              own_weights + place.offset(in.weight_rows) * weights.bytes(), 0, weight[j]);
        }
      }
#pragma unroll
      for (unsigned j = 0; j < kInFlight; j += kAtOnce) {
        if (first + j * kWarp < in.num_rows) { // or no lane has an element
          unsigned slots[kAtOnce];
          float wide[kAtOnce];
          bool has[kAtOnce];
#pragma unroll
          for (unsigned i = 0; i < kAtOnce; ++i) {
            float one[1];
            has[i] = first + (j + i) * kWarp + lane < in.num_rows;
            slots[i] = slot_of<kGuess>(value[j + i]);
            weights.widen(weight[j + i], 0, one);
            wide[i] = one[0];
          }
          adder.add(slots, wide, has);
        }
      }
    }
  }
  __device__ __forceinline__ void put(double* own, unsigned slot, double sum) const {
    const unsigned bin = flow.shown ? slot : slot - 1;
    if (bin < flow.num_counts(in.slots - 3)) {
      __stcs(own + bin, bins.valid || slot == in.slots - 1 ? sum : 0.0);
    }
  }
  /// Writes the sums of a channel, and clears the table. Lanes round the sums of slots that have
  /// weights one after another, because these may be few.
  __device__ __forceinline__ void finish(double* own) const {
    const unsigned lane = threadIdx.x % kWarp;
    unsigned listed = 0;
    for (unsigned first = 0; first < in.slots; first += kWarp) {
      const unsigned slot = first + lane;
      const bool has = slot < in.slots && adder.own[slot * kWordsOfSlot + kFlags] != kNoFlags;
      if (slot < in.slots && !has) {
        put(own, slot, 0);
      }
      const unsigned all = __ballot_sync(kAllLanes, has);
      if (has) {
        list[listed + __popc(all & ((1u << lane) - 1))] = static_cast<uint16_t>(slot);
      }
      listed += __popc(all);
    }
    __syncwarp();
#pragma unroll 1
    for (unsigned i = lane; i < listed; i += kWarp) {
      put(own, list[i], take_rounded(adder.own + list[i] * kWordsOfSlot));
    }
    __syncwarp();
  }
  template <Guess kGuess>
  __device__ __forceinline__ void all() const {
    const auto team = Team<true>::own();
    const int64_t num_counts = flow.num_counts(in.slots - 3);
#pragma unroll 1
    for (int64_t channel = team.index; channel < in.num_channels; channel += team.count) {
      add<kGuess>(
          value_data + offset_in(in.channels, channel) * values.bytes(),
          weight_data + offset_in(in.weight_channels, channel) * weights.bytes());
      finish(sums + channel * num_counts);
    }
  }
};

template <class Values, class Weights>
__global__ __launch_bounds__(kMostThreads) void sum_in_warps_kernel(
    const void* __restrict__ values,
    const void* __restrict__ weights,
    const __grid_constant__ WarpSums in,
    ElementType value_type,
    ElementType weight_type,
    const __grid_constant__ Edges edges,
    Flow flow,
    double* __restrict__ sums) {
  using V = typename Values::Wide;
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ BlockResult result; // for carries, which look for words
  const unsigned warp = threadIdx.x / kWarp, warps = blockDim.x / kWarp;
  Room room(shared); // thresholds may be wide, so they come first
  auto* thresholds = room.take<V>(words_of(in.slots, 0u));
  auto* buckets = room.take<uint32_t>(in.buckets);
  auto* tables = room.take<uint32_t>(in.words_of_tables(warps));
  auto* lists = room.take<uint16_t>(0);
  clear_words(tables, in.words_of_tables(warps));
  const auto bins = find_bins<V, 0>(edges, 0, thresholds, buckets, in.buckets);
  if (threadIdx.x == 0) {
    result = {
        {nullptr, sum_layout(ElementType::kFloat32), false},
        SlotPlaces::of_edges(edges, edges.bins, flow, bins.valid),
        in.table,
        0,
        address_of(tables),
        nullptr,
        {}};
  }
  __syncthreads();
  const WarpAdder adder(Words{result, in.table}, tables + warp * in.slots * kWordsOfSlot);
  const WarpChannels<Values, Weights, BlockBins<V, 0>> channels{
      in,
      Values(value_type),
      Weights(weight_type),
      static_cast<const char*>(values),
      static_cast<const char*>(weights),
      bins,
      adder,
      lists + warp * in.slots,
      flow,
      sums};
  visit_guess<kKnowsAffineExceptTop<V>, true>(
      bins.guess, [&](auto guess) { channels.template all<guess()>(); });
}

template <class Values, class Weights>
void start_warps(
    const WarpSumsPlan& plan,
    const Problem& problem,
    const Edges& edges,
    const Flow& flow,
    double* rounded,
    const Launch& launch) {
  const View& weights = problem.operand(1);
  start(
      launch, "sum_in_warps", sum_in_warps_kernel<Values, Weights>, grid_of(plan.blocks),
      dim3(static_cast<unsigned>(plan.threads)), plan.shared_bytes, problem.data, weights.data,
      plan.in, problem.type, weights.type, edges, flow, rounded);
}

} // namespace

void sum_in_warps(
    const WarpSumsPlan& plan,
    const Problem& problem,
    const Edges& edges,
    const Flow& flow,
    double* rounded,
    const Launch& launch) {
  const auto with = [&](auto sum) { sum(plan, problem, edges, flow, rounded, launch); };
  const ElementType type = problem.type;
  using Weights = Typed<float, 1>;
  if (problem.operand(1).type == ElementType::kFloat32) {
    switch (type) {
      case ElementType::kFloat32:
        return with(start_warps<Typed<float, 1>, Weights>);
      case ElementType::kBFloat16:
        return with(start_warps<Typed<BFloat16, 1>, Weights>);
      case ElementType::kFloat16:
        return with(start_warps<Typed<Float16, 1>, Weights>);
      case ElementType::kFloat64:
        return with(start_warps<Typed<double, 1>, Weights>);
      default:
        break;
    }
  }
  if (value_kind(type) == WordKind::kFloat32) {
    return with(start_warps<RawElement<float>, RawElement<float>>);
  }
  with(start_warps<RawElement<double>, RawElement<float>>);
}

} // namespace histo::cuda
