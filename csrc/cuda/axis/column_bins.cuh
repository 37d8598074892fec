// The bins of channels that lie side by side. A kernel of its own finds them, once for all blocks
// that count. These do not start before it ends: on an idle GPU neighbouring blocks come to
// multiprocessors that share the way to the cache, and they read the same rows.
#pragma once

#include <cstdint>

#include "cuda/axis/block_bins.cuh"
#include "cuda/launch.h"
#include "cuda/pdl.cuh"
#include "cuda/plan/edge_plan.h"
#include "cuda/storage/room.h"

namespace histo::cuda {

/// A threshold in memory: floats of 16 bits as such, others as what is compared.
template <class T>
struct Stored {
  static constexpr bool kIsSmall = sizeof(T) == 2 && Number<T>::kIsFloat;
  using Wide = typename Number<T>::Wide;
  using Type = std::conditional_t<kIsSmall, T, Wide>;

  __device__ __forceinline__ static Type of(typename Number<T>::Ordinal ordinal, bool exists) {
    if constexpr (kIsSmall) {
      return exists ? Number<T>::value_at(ordinal) : T{0x7fff}; // NaN
    } else {
      return Thresholds<T>::value(ordinal, exists);
    }
  }
  __device__ __forceinline__ static Wide wide(Type stored) {
    if constexpr (kIsSmall) {
      return Number<T>::wide(stored);
    } else {
      return stored;
    }
  }
};

/// The slot of a column's threshold in a row of thresholds. Lanes that each read one threshold of
/// their words do not meet in a bank.
template <class T>
__device__ __forceinline__ unsigned threshold_word(
    unsigned word, unsigned of_word, unsigned words) {
  constexpr unsigned kOfBank = sizeof(typename Stored<T>::Type) == 2 ? 2 : 1;
  return (of_word / kOfBank * words + word) * kOfBank + of_word % kOfBank;
}

/// Four counts tell what the checks of some edges of a column found. They fit the bytes of a word.
struct Checks {
  unsigned existing = 0; // thresholds that some value reaches
  unsigned invalid = 0;
  unsigned affine_is_wrong = 0;
  unsigned nearest_is_wrong = 0;

  __device__ __forceinline__ uint32_t packed() const {
    return existing | invalid << 8 | affine_is_wrong << 16 | nearest_is_wrong << 24;
  }
  __device__ __forceinline__ static Checks of(uint32_t packed) {
    return {packed & 0xff, packed >> 8 & 0xff, packed >> 16 & 0xff, packed >> 24};
  }
};

/// The bins of all stripes, in global memory, or of one if all channels share their edges.
template <class T>
struct FoundColumns {
  using Threshold = typename Stored<T>::Type;
  using TheLines = Lines<GuessOf<typename Number<T>::Wide>>;

  TheLines* lines;       // [stripe][column]
  Threshold* thresholds; // [stripe][k][column]
  uint32_t* checks;      // [stripe][part][column]: Checks of a part of the edges
  unsigned parts;
  int64_t stripes; // of all batches

  __device__ __forceinline__ int64_t
  stripe(int64_t batch, const ChannelColumns& in, int64_t of_batch) const {
    return stripes == 1 ? 0 : batch * in.stripes + of_batch;
  }
};

/// Finds the bins of a part of the edges of a stripe, and clears counts.
template <class T>
__global__ __launch_bounds__(kThreadsOfFoundColumns) void find_columns_kernel(
    const __grid_constant__ ChannelColumns in,
    const __grid_constant__ Edges edges,
    FoundColumns<T> found,
    unsigned long long* __restrict__ counts,
    int64_t num_counts) {
  __shared__ uint32_t checks[kMostBytesOfWord / sizeof(T) * kWarp];
  const unsigned width = in.width(sizeof(T)), column = threadIdx.x % width;
  if (threadIdx.x < width) {
    checks[threadIdx.x] = 0;
  }
  __syncthreads();
  wait_for_previous(); // it may make the edges, or read the memory that the counts have now
  const int64_t step = int64_t{gridDim.x} * kThreadsOfFoundColumns;
  for (int64_t i = blockIdx.x * int64_t{kThreadsOfFoundColumns} + threadIdx.x; i < num_counts;
       i += step) {
    counts[i] = 0;
  }
  const unsigned part = blockIdx.x % found.parts;
  const int64_t stripe = blockIdx.x / found.parts;
  if (stripe >= found.stripes) {
    return; // it only clears
  }
  const int64_t channel = in.channel(stripe / in.stripes, stripe % in.stripes * width + column);
  const auto last = static_cast<unsigned>(edges.bins);
  const auto lines =
      FoundColumns<T>::TheLines::between(edges.at(channel, 0), edges.at(channel, last), edges.bins);
  const unsigned words = 1u << in.log_words, of_word = width / words;
  const unsigned slot = threshold_word<T>(column / of_word, column % of_word, words);
  Checks own;
  const unsigned size = ColumnMemory::edges_of_part(width), rows = kThreadsOfFoundColumns / width;
  const unsigned end = min((part + 1) * size, last + 1);
  for (unsigned k = part * size + threadIdx.x / width; k < end; k += rows) {
    const CheckedEdge<T> edge = check_edge<T>(edges, channel, k, lines);
    own.existing += edge.exists;
    own.invalid += !edge.valid;
    own.affine_is_wrong += !edge.affine_is_right;
    own.nearest_is_wrong += !edge.nearest_is_right;
    found.thresholds[(stripe * (last + 1) + k) * width + slot] =
        Stored<T>::of(edge.ordinal, edge.exists);
  }
  atomicAdd(&checks[column], own.packed());
  __syncthreads();
  if (threadIdx.x < width) {
    found.checks[(stripe * found.parts + part) * width + column] = checks[column];
    if (part == 0) {
      found.lines[stripe * width + column] = lines;
    }
  }
}

template <class T>
FoundColumns<T> find_columns(
    const ChannelColumns& in, const Problem& problem, const Edges& edges, const Launch& launch) {
  using Found = FoundColumns<T>;
  const auto room = ColumnMemory::of(in, edges, problem.type);
  Room memory(launch.allocate(room.bytes())); // all parts begin at multiples of 16 bytes
  const int64_t columns = room.stripes * in.width(sizeof(T));
  auto* lines = memory.take<typename Found::TheLines>(columns);
  auto* thresholds = memory.take<typename Found::Threshold>(columns * (edges.bins + 1));
  auto* checks = memory.take<uint32_t>(columns * room.parts);
  const Found found{lines, thresholds, checks, static_cast<unsigned>(room.parts), room.stripes};
  const int64_t cleared = problem.adds ? 0 : problem.num_counts();
  const int64_t clearing =
      std::min(ceil_div(cleared, kThreadsOfFoundColumns), int64_t{launch.limits.sm_count});
  start(
      launch, "find_columns", find_columns_kernel<T>,
      LaunchShape{
          grid_of(std::max(room.stripes * room.parts, clearing)), kThreadsOfFoundColumns, 0, 1,
          launch.limits.has_clusters()},
      in, edges, found, totals_of(problem), cleared);
  return found;
}

/// The bins of the columns of a thread's word.
template <class T, int kOfWord, int kLogWords>
struct ColumnBins {
  using Wide = typename Number<T>::Wide;
  using G = GuessOf<Wide>;
  static constexpr unsigned kWords = 1u << kLogWords, kWidth = kOfWord * kWords;

  const typename Stored<T>::Type* thresholds; // of the word
  unsigned bins;
  unsigned limit[kOfWord];
  Line<G> line[kOfWord];

  __device__ __forceinline__ bool reaches(Wide value, unsigned k, int of_word) const {
    return value >= Stored<T>::wide(thresholds[k * kWidth + threshold_word<T>(0, of_word, kWords)]);
  }
  template <Guess kGuess>
  __device__ __forceinline__ unsigned slot(Wide value, int of_word) const {
    if constexpr (kGuess == Guess::kAffine) {
      return whole_part(line[of_word], static_cast<G>(value), bins + 1);
    } else if constexpr (kGuess == Guess::kAffineThenCompare) {
      const unsigned k = whole_part(line[of_word], static_cast<G>(value), bins);
      const unsigned slot = k + (reaches(value, k, of_word) ? 1 : 0);
      return Number<T>::kIsFloat ? slot : min(slot, limit[of_word]);
    } else {
      static_assert(kGuess == Guess::kBucketed, "not a guess");
      unsigned low = 0, high = limit[of_word]; // all thresholds are one bucket
      while (low < high) {
        const unsigned middle = (low + high) / 2;
        if (reaches(value, middle, of_word)) {
          low = middle + 1;
        } else {
          high = middle;
        }
      }
      return low;
    }
  }
};

/// Copies the bins of a stripe to shared memory: the thresholds, how many there are of each column
/// (`limits`), and whether its edges are `invalid`, both [columns].
template <class T>
__device__ __forceinline__ Guess copy_stripe(
    const FoundColumns<T>& found,
    int64_t stripe,
    unsigned width,
    unsigned last,
    typename Stored<T>::Type* thresholds,
    unsigned* limits,
    unsigned* invalid) {
  if (threadIdx.x < width) {
    limits[threadIdx.x] = invalid[threadIdx.x] = 0;
  }
  __syncthreads();
  const unsigned size = (last + 1) * width * sizeof(*thresholds) / sizeof(uint4);
  const auto* from = reinterpret_cast<const uint4*>(found.thresholds + stripe * (last + 1) * width);
  for (unsigned i = threadIdx.x; i < size; i += blockDim.x) {
    reinterpret_cast<uint4*>(thresholds)[i] = from[i];
  }
  bool affine_is_right = true, nearest_is_right = true;
  for (unsigned i = threadIdx.x; i < found.parts * width; i += blockDim.x) {
    const auto checks = Checks::of(found.checks[stripe * found.parts * width + i]);
    atomicAdd(&limits[i % width], checks.existing);
    if (checks.invalid > 0) {
      atomicOr(&invalid[i % width], 1u);
    }
    affine_is_right = affine_is_right && checks.affine_is_wrong == 0;
    nearest_is_right = nearest_is_right && checks.nearest_is_wrong == 0;
  }
  affine_is_right = __syncthreads_and(affine_is_right);
  nearest_is_right = __syncthreads_and(nearest_is_right);
  return best_guess(affine_is_right, false, nearest_is_right);
}

/// The bins of a word of a stripe whose thresholds are in shared memory.
template <class T, int kOfWord, int kLogWords>
__device__ __forceinline__ ColumnBins<T, kOfWord, kLogWords> bins_of_word(
    const FoundColumns<T>& found,
    int64_t stripe,
    unsigned last,
    const typename Stored<T>::Type* thresholds,
    const unsigned* limits,
    Guess guess,
    unsigned word) {
  using Bins = ColumnBins<T, kOfWord, kLogWords>;
  Bins bins;
  bins.bins = last;
  bins.thresholds = thresholds + threshold_word<T>(word, 0, Bins::kWords);
#pragma unroll
  for (int j = 0; j < kOfWord; ++j) {
    const unsigned column = word * kOfWord + j;
    const auto& lines = found.lines[stripe * Bins::kWidth + column];
    bins.limit[j] = limits[column];
    bins.line[j] = guess == Guess::kAffine ? lines.affine : lines.nearest;
  }
  return bins;
}

/// Copies the bins of a stripe to shared memory, and gives those of the thread's word.
template <class Column, class T, int kOfWord, int kLogWords>
__device__ __forceinline__ Guess copy_bins(
    const Column& column,
    const FoundColumns<T>& found,
    unsigned last,
    typename Stored<T>::Type* thresholds,
    unsigned* limits,
    unsigned* invalid,
    ColumnBins<T, kOfWord, kLogWords>& bins) {
  constexpr unsigned kWidth = ColumnBins<T, kOfWord, kLogWords>::kWidth;
  const int64_t stripe = found.stripe(column.batch, column.in, column.stripe);
  const Guess guess = copy_stripe<T>(found, stripe, kWidth, last, thresholds, limits, invalid);
  bins = bins_of_word<T, kOfWord, kLogWords>(
      found, stripe, last, thresholds, limits, guess, column.word);
  return guess;
}

} // namespace histo::cuda
