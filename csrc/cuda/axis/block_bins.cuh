// The bins between edges, as a block finds them: thresholds in shared memory, and a guess that was
// checked against all of them.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/locate.h"
#include "cuda/plan/edge_plan.h"
#include "cuda/storage/shared.cuh"
#include "cuda/warp.cuh"

namespace histo::cuda {

/// Calls f with the guess as a constant. kKnowsExceptTop and kKnowsBits: whether channels may have
/// these guesses here. The tests compile it with -Werror=switch, which wants a case for each guess:
/// a trap behind the switch would make the kernels spill more registers.
template <bool kKnowsExceptTop, bool kKnowsBits, class F>
__device__ __forceinline__ void visit_guess(Guess guess, const F& f) {
  switch (guess) {
    case Guess::kAffine:
      return f(std::integral_constant<Guess, Guess::kAffine>{});
    case Guess::kAffineExceptTop:
      if constexpr (kKnowsExceptTop) {
        return f(std::integral_constant<Guess, Guess::kAffineExceptTop>{});
      } else {
        __trap(); // no channel has this guess here
      }
      break;
    case Guess::kAffineThenCompare:
      return f(std::integral_constant<Guess, Guess::kAffineThenCompare>{});
    case Guess::kBucketed:
      return f(std::integral_constant<Guess, Guess::kBucketed>{});
    case Guess::kBucketedBits:
      if constexpr (kKnowsBits) {
        return f(std::integral_constant<Guess, Guess::kBucketedBits>{});
      } else {
        __trap(); // no channel has this guess here
      }
      break;
  }
}

/// A bucket's word: the upper half counts its thresholds. The lower half is the slot of values that
/// reach the first of these, or of all values in a bucket without thresholds. Both fit 16 bits: a
/// block has 8 bytes or more of shared memory for each threshold, so fewer than 2^15 of them.
constexpr uint32_t kOneInBucket = 1u << 16;

/// The bins of one channel.
template <class T, int kLogCopies>
struct BlockBins {
  using Wide = typename Number<T>::Wide;
  using G = GuessOf<Wide>;

  const Wide* thresholds;  // of the edge below each slot; the copy of this thread
  const uint32_t* buckets; // their words
  unsigned bins;
  unsigned limit; // thresholds that exist
  bool valid;
  Guess guess;
  Line<G> line; // of the guess
  G end;        // the last edge, whose own value kAffineExceptTop does not find by the line
  BitBuckets<G> bit_buckets;

  template <Guess kGuess>
  __device__ __forceinline__ unsigned bucket_of(G value) const {
    return kGuess == Guess::kBucketedBits ? bit_buckets.at(value)
                                          : whole_part(line, value, bit_buckets.last);
  }

  __device__ __forceinline__ static Wide lowest() {
    return Number<T>::wide_at(Number<T>::kFirst);
  }
  __device__ __forceinline__ bool reaches(Wide value, unsigned slot) const {
    return value >= thresholds[word_of(slot, kLogCopies)];
  }
  /// The slots of values. The slot of NaN is unspecified, and may be no slot at all.
  template <Guess kGuess, int kSize>
  __device__ __forceinline__ void find(
      const Wide (&values)[kSize], unsigned (&slots)[kSize]) const {
    if constexpr (kGuess == Guess::kAffine) {
#pragma unroll
      for (int j = 0; j < kSize; ++j) {
        slots[j] = whole_part(line, static_cast<G>(values[j]), bins + 1);
      }
    } else if constexpr (kGuess == Guess::kAffineExceptTop) {
#pragma unroll
      for (int j = 0; j < kSize; ++j) {
        slots[j] = slot_except_top(line, end, values[j], bins);
      }
    } else if constexpr (kGuess == Guess::kAffineThenCompare) {
      find_by_comparison(values, slots);
    } else {
      static_assert(kGuess == Guess::kBucketed || kGuess == Guess::kBucketedBits, "not a guess");
      find_in_buckets<kGuess>(values, slots);
    }
  }

  template <int kSize>
  __device__ __forceinline__ void find_by_comparison(
      const Wide (&values)[kSize], unsigned (&slots)[kSize]) const {
    bool is_close[kSize];
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      const auto guess = close_slot(line, static_cast<G>(values[j]), bins);
      slots[j] = guess.slot;
      is_close[j] = guess.is_close;
    }
    compare(values, is_close, slots);
    // The largest integer reaches edges that do not exist: their threshold is that integer.
    if constexpr (!Number<T>::kIsFloat) {
#pragma unroll
      for (int j = 0; j < kSize; ++j) {
        slots[j] = min(slots[j], limit);
      }
    }
  }

  /// Takes 1 off each slot whose edge the value does not reach. Only slots that `may_be_less` are
  /// compared. The slots of NaN are wrong, and may wrap.
  template <int kSize>
  __device__ __forceinline__ void compare(
      const Wide (&values)[kSize],
      const bool (&may_be_less)[kSize],
      unsigned (&slots)[kSize]) const {
    Wide edges[kSize];
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      edges[j] = lowest();
      if (may_be_less[j]) {
        edges[j] = thresholds[word_of(slots[j], kLogCopies)];
      }
    }
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      if (!(values[j] >= edges[j])) {
        --slots[j];
      }
    }
  }

  template <Guess kGuess, int kSize>
  __device__ __forceinline__ void find_in_buckets(
      const Wide (&values)[kSize], unsigned (&slots)[kSize]) const {
    uint32_t of_bucket[kSize];
    bool has_edges[kSize], any_has_more = false;
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      of_bucket[j] = buckets[bucket_of<kGuess>(static_cast<G>(values[j]))];
    }
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      slots[j] = of_bucket[j] % kOneInBucket;
      has_edges[j] = of_bucket[j] >= kOneInBucket;
      any_has_more = any_has_more || of_bucket[j] >= 2 * kOneInBucket;
    }
    compare(values, has_edges, slots);
    if (!any_has_more) {
      return;
    }
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      if (of_bucket[j] < 2 * kOneInBucket) {
        continue;
      }
      unsigned high = of_bucket[j] % kOneInBucket + of_bucket[j] / kOneInBucket - 1;
      while (slots[j] < high) {
        const unsigned middle = (slots[j] + high + 1) / 2;
        if (reaches(values[j], middle)) {
          slots[j] = middle;
        } else {
          high = middle - 1;
        }
      }
    }
  }
};

/// Replaces the count of each bucket by its word. Returns the largest count.
__device__ inline unsigned sum_buckets(uint32_t* buckets, unsigned count) {
  __shared__ unsigned of_warps[kWarp];
  __shared__ unsigned most;
  constexpr unsigned kOfLane = 4; // neighbours
  auto* vec16s = reinterpret_cast<uint4*>(buckets);
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, size = count / kOfLane;
  const unsigned share = (size + blockDim.x - 1) / blockDim.x * kWarp; // of a warp
  const unsigned first = warp * share + lane, last = min((warp + 1) * share, size);
  unsigned sum = 0, largest = 0;
  for (unsigned i = first; i < last; i += kWarp) {
    const uint4 vec16 = vec16s[i];
    sum += vec16.x + vec16.y + vec16.z + vec16.w;
    largest = max(max(max(largest, vec16.x), max(vec16.y, vec16.z)), vec16.w);
  }
  if (threadIdx.x < kWarp) {
    of_warps[lane] = 0;
  }
  if (threadIdx.x == 0) {
    most = 0;
  }
  __syncthreads();
  atomicAdd(&of_warps[warp], sum);
  atomicMax(&most, largest);
  __syncthreads();
  unsigned begin = 0;
  for (unsigned before = 0; before < warp; ++before) {
    begin += of_warps[before];
  }
  for (unsigned i = first; i < last; i += kWarp) {
    const uint4 own = vec16s[i];
    const unsigned of_lane = own.x + own.y + own.z + own.w;
    const unsigned end = begin + sum_upto_lane(of_lane);
    unsigned below = end - of_lane;
    const auto word_of = [&](unsigned thresholds) {
      const uint32_t word = below + (thresholds > 0 ? 1 : 0) + thresholds * kOneInBucket;
      below += thresholds;
      return word;
    };
    vec16s[i] = {word_of(own.x), word_of(own.y), word_of(own.z), word_of(own.w)};
    begin = __shfl_sync(kAllLanes, end, kWarp - 1);
  }
  __syncthreads();
  return most;
}

/// Counts the thresholds in each bucket, and sums them.
template <Guess kGuess, class T, int kLogCopies>
__device__ unsigned fill_buckets(const BlockBins<T, kLogCopies>& bins, uint32_t* buckets) {
  const auto count = static_cast<unsigned>(bins.bit_buckets.last) + 1;
  for (unsigned i = threadIdx.x; i < count; i += blockDim.x) {
    buckets[i] = 0;
  }
  __syncthreads();
  for (unsigned k = threadIdx.x; k < bins.limit; k += blockDim.x) {
    using G = typename BlockBins<T, kLogCopies>::G;
    const auto threshold = static_cast<G>(bins.thresholds[word_of(k + 1, kLogCopies)]);
    atomicAdd(&buckets[bins.template bucket_of<kGuess>(threshold)], 1);
  }
  __syncthreads();
  return sum_buckets(buckets, count);
}

/// Buckets over the values, or over their bits where these share the thresholds out better.
template <class T, int kLogCopies>
__device__ void choose_buckets(
    Real low, Real high, uint32_t* buckets, int32_t count, BlockBins<T, kLogCopies>& bins) {
  using G = typename BlockBins<T, kLogCopies>::G;
  bins.line = bucket_line<G>(low, high, count);
  bins.bit_buckets = BitBuckets<G>::between(low, high, count);
  bins.guess = Guess::kBucketedBits;
  const unsigned most_by_bits = fill_buckets<Guess::kBucketedBits>(bins, buckets);
  if (most_by_bits > 1 && bins.line.rises()) {
    if (fill_buckets<Guess::kBucketed>(bins, buckets) > most_by_bits) {
      fill_buckets<Guess::kBucketedBits>(bins, buckets);
    } else {
      bins.guess = Guess::kBucketed;
    }
  }
}

template <int kLogCopies, class Wide>
__device__ __forceinline__ void put_threshold(Wide* thresholds, unsigned slot, Wide threshold) {
  for (unsigned copy = 0; copy < 1u << kLogCopies; ++copy) {
    thresholds[word_of(slot, kLogCopies) + copy] = threshold;
  }
}

/// Facts about the edges of a channel. The threads of a block find them together.
template <class G>
struct FoundEdges {
  unsigned limit; // edges that exist
  unsigned flaws;
  Lines<G> lines;
};

/// Finds the bins of a channel in three steps, with a barrier of the block between them. `thresholds`
/// has a copy for each of 2^kLogCopies lanes, `buckets` room for `num_buckets`, a power of two.
/// kCompares: a line and a comparison is taken before a line alone.
template <class T, int kLogCopies, bool kCompares>
struct BinsFinder {
  using Bins = BlockBins<T, kLogCopies>;
  using G = typename Bins::G;
  enum Flaw : unsigned { kInvalid = 1, kNoAffine = 2, kNoAffineExceptTop = 4, kNoThenCompare = 8 };

  const Edges& edges;
  int64_t channel;
  typename Bins::Wide* thresholds;
  uint32_t* buckets;
  int32_t num_buckets;
  FoundEdges<G>& found; // in shared memory

  /// By one thread: it divides, and there are few units for doubles.
  __device__ __forceinline__ void begin() const {
    found.limit = found.flaws = 0;
    put_threshold<kLogCopies>(thresholds, 0, Bins::lowest());
    found.lines =
        Lines<G>::between(edges.at(channel, 0), edges.at(channel, edges.bins), edges.bins);
  }
  /// By all threads of the block, which are numbered.
  __device__ __forceinline__ void check(unsigned thread) const {
    unsigned existing = 0, flaws = 0;
    const auto last = static_cast<unsigned>(edges.bins);
    for (unsigned k = thread; k <= last; k += blockDim.x) {
      const CheckedEdge<T> edge = check_edge<T>(edges, channel, k, found.lines);
      flaws |= (edge.valid ? 0 : kInvalid) | (edge.affine_is_right ? 0 : kNoAffine) |
               (edge.affine_except_top_is_right ? 0 : kNoAffineExceptTop) |
               (edge.then_compare_is_right ? 0 : kNoThenCompare);
      existing += edge.exists;
      put_threshold<kLogCopies>(thresholds, k + 1, Thresholds<T>::value(edge.ordinal, edge.exists));
    }
    if (existing > 0) {
      atomicAdd(&found.limit, existing);
    }
    if (flaws > 0) {
      atomicOr(&found.flaws, flaws);
    }
  }
  /// By all threads.
  __device__ __forceinline__ Bins end() const {
    Bins bins{};
    const unsigned flaws = found.flaws;
    bins.valid = !(flaws & kInvalid);
    const bool compares = !(flaws & kNoThenCompare), is_line = !(kCompares && compares);
    bins.guess = best_guess(
        is_line && !(flaws & kNoAffine),
        is_line && kKnowsAffineExceptTop<T> && !(flaws & kNoAffineExceptTop), compares);
    const Lines<G>& lines = found.lines;
    bins.line = bins.guess == Guess::kAffine            ? lines.affine
                : bins.guess == Guess::kAffineExceptTop ? lines.affine_except_top
                                                        : lines.then_compare;
    bins.end = lines.end_of(edges);
    bins.bins = static_cast<unsigned>(edges.bins);
    bins.limit = found.limit;
    bins.thresholds = thresholds;
    bins.buckets = buckets;
    if (bins.guess == Guess::kBucketed) {
      choose_buckets(
          edges.at(channel, 0), edges.at(channel, edges.bins), buckets, num_buckets, bins);
    }
    bins.thresholds += threadIdx.x & ((1u << kLogCopies) - 1);
    return bins;
  }
};

/// The bins of a channel, with all threads of the block.
template <class T, int kLogCopies>
__device__ __forceinline__ BlockBins<T, kLogCopies> find_bins(
    const Edges& edges,
    int64_t channel,
    typename Number<T>::Wide* thresholds,
    uint32_t* buckets,
    int32_t num_buckets) {
  using Finder = BinsFinder<T, kLogCopies, false>;
  using Found = FoundEdges<typename Finder::G>;
  __shared__ Found found;
  const Finder finder{edges, channel, thresholds, buckets, num_buckets, found};
  if (threadIdx.x == 0) {
    finder.begin();
  }
  __syncthreads();
  finder.check(threadIdx.x);
  __syncthreads();
  return finder.end();
}

} // namespace histo::cuda
