// The axis of one coordinate of a joint histogram, as a block finds it.
#pragma once

#include "core/joint.h"
#include "cuda/axis/block_bins.cuh"
#include "cuda/storage/room.h"
#include "cuda/walk/packs.cuh"

namespace histo::cuda {

/// Bins of consecutive integers: bin k holds `first` + k, and the last bin one number more if it is
/// closed by an edge that is an integer.
struct Consecutive {
  bool is_right;
  bool covers; // no value of the type is below or above
  int64_t first;
  unsigned most; // slot before `gap` is taken off
  unsigned gap;  // 1 if the last bin holds two numbers

  /// `least` and `last` are the extremes of what elements can be.
  template <class Bins>
  __device__ __forceinline__ static Consecutive of(const Bins& bins, int64_t least, int64_t last) {
    const auto at = [&](unsigned k) { return bins.thresholds[word_of(k + 1, 0u)]; };
    Consecutive found{false, false, static_cast<int64_t>(at(0)), bins.bins + 1, 0};
    if (bins.limit < bins.bins) {
      return found;
    }
    bool holds = true;
    for (unsigned k = threadIdx.x; k < bins.bins; k += blockDim.x) {
      holds = holds && at(k) - at(0) == k;
    }
    const int64_t top = found.first + bins.bins; // the number behind those of one bin each
    if (last < top) {
      found.most = bins.bins; // no value is above
    } else if (bins.limit > bins.bins) {
      found.gap = at(bins.bins) == top ? 0 : 1;
      found.most += found.gap;
      holds = holds && at(bins.bins) - top == found.gap;
    } else {
      holds = false; // all values above are in the last bin
    }
    found.is_right = __syncthreads_and(holds) != 0;
    found.covers = found.is_right && last < top && found.first <= least;
    return found;
  }
  /// The slot of a value is the value plus this, if no value is below or above.
  __device__ __forceinline__ unsigned shift() const {
    return 1 - static_cast<unsigned>(first);
  }
  /// The slot of a value before `gap` is taken off.
  __device__ __forceinline__ unsigned slot(int32_t value) const {
    const int32_t above = max(value - static_cast<int32_t>(first) + 1, 0);
    return min(static_cast<unsigned>(above), most);
  }
  __device__ __forceinline__ unsigned slot(int64_t value) const {
    const uint64_t beyond = static_cast<uint64_t>(value) - static_cast<uint64_t>(first);
    const unsigned above = beyond < most ? static_cast<unsigned>(beyond) + 1 : most;
    return value < first ? 0 : above;
  }
};

/// What is known about all axes when a loop is compiled.
enum class AxisWay {
  kAny,
  kFast,    // a line and a comparison find slots, or they are those of consecutive integers
  kCovered, // each value of a small integer type has a bin of its own
};

/// Whether values are integers of 8 or 16 bits, which are widened to int64 but fit int32.
template <class Values>
constexpr bool kAreSmall = false;
template <class T, int kSize>
constexpr bool kAreSmall<Typed<T, kSize, int64_t>> = sizeof(T) < 4;

/// The bins of one channel, for values of type V. kSmall: V is int64, but values have fewer than 32
/// bits.
template <class V, bool kSmall>
struct BinsOfAxis {
  using Bins = BlockBins<V, 0>;

  Bins bins;
  Consecutive consecutive; // integers alone
  const Bins* in_memory;   // the same in shared memory: what is rare takes no registers
  unsigned nan_slot;

  __device__ __forceinline__ bool is_fast() const {
    return Number<V>::kIsFloat ? bins.guess == Guess::kAffineThenCompare : consecutive.is_right;
  }
  template <AxisWay kWay, int kSize>
  __device__ __forceinline__ void find_by(
      const V (&values)[kSize], unsigned (&slots)[kSize]) const {
    if constexpr (kWay == AxisWay::kAny) {
      find(values, slots);
    } else if constexpr (kWay == AxisWay::kFast) {
      find_fast(values, slots);
    } else {
#pragma unroll
      for (int j = 0; j < kSize; ++j) {
        slots[j] = static_cast<unsigned>(values[j]) + consecutive.shift();
      }
    }
  }
  /// The slots of values, if the axis is fast. NaN has a slot that is not shown, or its own.
  template <int kSize>
  __device__ __forceinline__ void find_fast(
      const V (&values)[kSize], unsigned (&slots)[kSize]) const {
    if constexpr (Number<V>::kIsFloat) {
      bins.template find<Guess::kAffineThenCompare>(values, slots);
    }
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      if constexpr (Number<V>::kIsFloat) {
        // NaN is below the edge of its slot. As float32 that is slot 0, so it has slot -1.
        const bool is_above = sizeof(V) == 4 ? slots[j] > nan_slot : is_nan(values[j]);
        slots[j] = is_above ? nan_slot : slots[j];
      } else {
        using Whole = std::conditional_t<kSmall, int32_t, int64_t>;
        const unsigned slot = consecutive.slot(static_cast<Whole>(values[j]));
        slots[j] = slot - (slot > bins.bins ? consecutive.gap : 0);
      }
    }
  }
  /// The same for any axis. (By visit_guess, with its traps, the kernel of float32 would spill.)
  template <int kSize>
  __device__ __forceinline__ void find(const V (&values)[kSize], unsigned (&slots)[kSize]) const {
    if (is_fast()) {
      return find_fast(values, slots);
    }
    if (bins.guess == Guess::kAffine) {
      in_memory->template find<Guess::kAffine>(values, slots);
    } else if (kKnowsAffineExceptTop<V> && bins.guess == Guess::kAffineExceptTop) {
      find_except_top(values, slots);
    } else if (bins.guess == Guess::kAffineThenCompare) {
      in_memory->template find<Guess::kAffineThenCompare>(values, slots);
    } else if (bins.guess == Guess::kBucketed) {
      in_memory->template find<Guess::kBucketed>(values, slots);
    } else {
      in_memory->template find<Guess::kBucketedBits>(values, slots);
    }
    if constexpr (Number<V>::kIsFloat) {
#pragma unroll
      for (int j = 0; j < kSize; ++j) {
        slots[j] = is_nan(values[j]) ? nan_slot : slots[j];
      }
    }
  }

 private:
  template <int kSize>
  __device__ __forceinline__ void find_except_top(
      const V (&values)[kSize], unsigned (&slots)[kSize]) const {
    if constexpr (kKnowsAffineExceptTop<V>) {
      in_memory->template find<Guess::kAffineExceptTop>(values, slots);
    }
  }
};

/// Finds the bins of axis kAxis in the steps of `BinsFinder`. All axes take a step together, each with
/// other threads.
template <int kAxis, class Values>
class AxisFinder {
 public:
  using V = typename Values::Wide;
  using Axis = BinsOfAxis<V, kAreSmall<Values>>;

  __device__ __forceinline__
  AxisFinder(const Edges& edges, int64_t channel, int32_t buckets, Room& room)
      : bins_{
            edges,
            channel,
            room.take<V>(words_of(static_cast<unsigned>(edges.bins) + 3, 0u)),
            room.take<uint32_t>(buckets),
            buckets,
            shared_memory().found} {
  }
  __device__ __forceinline__ void begin() const {
    if (threadIdx.x == kAxis * kWarp) {
      bins_.begin();
    }
  }
  __device__ __forceinline__ void check() const {
    const unsigned thread = threadIdx.x + kAxis * (blockDim.x / kMostAxes);
    bins_.check(thread < blockDim.x ? thread : thread - blockDim.x);
  }
  /// `least` and `last` are the extremes of an integer type.
  __device__ __forceinline__ Axis end(int64_t least, int64_t last) const {
    Axis axis{};
    axis.bins = bins_.end();
    __syncthreads(); // other axes use the same memory to find buckets
    if (threadIdx.x == 0) {
      shared_memory().bins = axis.bins;
    }
    if constexpr (!Number<V>::kIsFloat) {
      axis.consecutive = Consecutive::of(axis.bins, least, last);
    }
    axis.in_memory = &shared_memory().bins;
    axis.nan_slot = axis.bins.bins + 2;
    return axis;
  }

 private:
  using Bins = BlockBins<V, 0>;
  struct SharedMemory {
    FoundEdges<typename Bins::G> found;
    Bins bins;
  };
  __device__ __forceinline__ static SharedMemory& shared_memory() {
    __shared__ SharedMemory memory;
    return memory;
  }

  BinsFinder<V, 0, true> bins_;
};

} // namespace histo::cuda
