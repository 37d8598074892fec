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

/// Calls f with the guess as a constant. kKnowsOpen and kKnowsBits: whether channels may have these
/// guesses here. The tests compile it with -Werror=switch, which wants a
/// case for each guess: a trap behind the switch would make the kernels spill more registers.
template <bool kKnowsOpen, bool kKnowsBits, class F>
__device__ __forceinline__ void visit_guess(Guess guess, const F& f) {
  switch (guess) {
    case Guess::kFormula:
      return f(std::integral_constant<Guess, Guess::kFormula>{});
    case Guess::kOpenFormula:
      if constexpr (kKnowsOpen) {
        return f(std::integral_constant<Guess, Guess::kOpenFormula>{});
      } else {
        __trap(); // no channel has this guess here
      }
      break;
    case Guess::kComparison:
      return f(std::integral_constant<Guess, Guess::kComparison>{});
    case Guess::kCells:
      return f(std::integral_constant<Guess, Guess::kCells>{});
    case Guess::kBitCells:
      if constexpr (kKnowsBits) {
        return f(std::integral_constant<Guess, Guess::kBitCells>{});
      } else {
        __trap(); // no channel has this guess here
      }
      break;
  }
}

/// A cell's word: the upper half counts its thresholds. The lower half is the place of values that
/// reach the first of these, or of all values in a cell without thresholds. Both fit 16 bits: a block
/// has 8 bytes or more of shared memory for each threshold, so fewer than 2^15 of them.
constexpr uint32_t kOneInCell = 1u << 16;

/// The bins of one channel.
template <class T, int kLogCopies>
struct BlockBins {
  using Key = typename Number<T>::Key;
  using G = GuessOf<Key>;

  const Key* thresholds; // of the edge below each place; the copy of this thread
  const uint32_t* cells; // their words
  unsigned bins;
  unsigned limit; // thresholds that exist
  bool valid;
  Guess guess;
  Line<G> line; // of the guess
  G end;        // that an open formula does not find
  BitCells<G> bit_cells;

  template <Guess kGuess>
  __device__ __forceinline__ unsigned cell_of(G value) const {
    return kGuess == Guess::kBitCells ? bit_cells.at(value)
                                      : whole_part(line, value, bit_cells.last);
  }

  __device__ __forceinline__ static Key lowest() {
    return Number<T>::key_at(Number<T>::kFirst);
  }
  __device__ __forceinline__ bool reaches(Key value, unsigned place) const {
    return value >= thresholds[slot_of(place, kLogCopies)];
  }
  /// The places of values. The place of NaN is unspecified, and may be no place at all.
  template <Guess kGuess, int kSize>
  __device__ __forceinline__ void find(
      const Key (&values)[kSize], unsigned (&places)[kSize]) const {
    if constexpr (kGuess == Guess::kFormula) {
#pragma unroll
      for (int j = 0; j < kSize; ++j) {
        places[j] = whole_part(line, static_cast<G>(values[j]), bins + 1);
      }
    } else if constexpr (kGuess == Guess::kOpenFormula) {
#pragma unroll
      for (int j = 0; j < kSize; ++j) {
        places[j] = open_place(line, end, values[j], bins);
      }
    } else if constexpr (kGuess == Guess::kComparison) {
      find_by_comparison(values, places);
    } else {
      static_assert(kGuess == Guess::kCells || kGuess == Guess::kBitCells, "not a guess");
      find_in_cells<kGuess>(values, places);
    }
  }

  template <int kSize>
  __device__ __forceinline__ void find_by_comparison(
      const Key (&values)[kSize], unsigned (&places)[kSize]) const {
    bool is_close[kSize];
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      const auto guess = close_place(line, static_cast<G>(values[j]), bins);
      places[j] = guess.place;
      is_close[j] = guess.is_close;
    }
    compare(values, is_close, places);
    // The largest integer reaches edges that do not exist: their key is that integer.
    if constexpr (!Number<T>::kIsFloat) {
#pragma unroll
      for (int j = 0; j < kSize; ++j) {
        places[j] = min(places[j], limit);
      }
    }
  }

  /// Takes 1 off each place whose edge the value does not reach. Only places that `may_be_less` are
  /// compared. The places of NaN are wrong, and may wrap.
  template <int kSize>
  __device__ __forceinline__ void compare(
      const Key (&values)[kSize],
      const bool (&may_be_less)[kSize],
      unsigned (&places)[kSize]) const {
    Key edges[kSize];
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      edges[j] = lowest();
      if (may_be_less[j]) {
        edges[j] = thresholds[slot_of(places[j], kLogCopies)];
      }
    }
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      if (!(values[j] >= edges[j])) {
        --places[j];
      }
    }
  }

  template <Guess kGuess, int kSize>
  __device__ __forceinline__ void find_in_cells(
      const Key (&values)[kSize], unsigned (&places)[kSize]) const {
    uint32_t of_cell[kSize];
    bool has_edges[kSize], any_has_more = false;
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      of_cell[j] = cells[cell_of<kGuess>(static_cast<G>(values[j]))];
    }
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      places[j] = of_cell[j] % kOneInCell;
      has_edges[j] = of_cell[j] >= kOneInCell;
      any_has_more = any_has_more || of_cell[j] >= 2 * kOneInCell;
    }
    compare(values, has_edges, places);
    if (!any_has_more) {
      return;
    }
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      if (of_cell[j] < 2 * kOneInCell) {
        continue;
      }
      unsigned high = of_cell[j] % kOneInCell + of_cell[j] / kOneInCell - 1;
      while (places[j] < high) {
        const unsigned middle = (places[j] + high + 1) / 2;
        if (reaches(values[j], middle)) {
          places[j] = middle;
        } else {
          high = middle - 1;
        }
      }
    }
  }
};

/// Replaces the count of each cell by its word. Returns the largest count.
__device__ inline unsigned sum_cells(uint32_t* cells, unsigned count) {
  __shared__ unsigned of_warps[kWarp];
  __shared__ unsigned most;
  constexpr unsigned kOfLane = 4; // neighbours
  auto* vec16s = reinterpret_cast<uint4*>(cells);
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
      const uint32_t word = below + (thresholds > 0 ? 1 : 0) + thresholds * kOneInCell;
      below += thresholds;
      return word;
    };
    vec16s[i] = {word_of(own.x), word_of(own.y), word_of(own.z), word_of(own.w)};
    begin = __shfl_sync(kAllLanes, end, kWarp - 1);
  }
  __syncthreads();
  return most;
}

/// Counts the thresholds in each cell, and sums them.
template <Guess kGuess, class T, int kLogCopies>
__device__ unsigned fill_cells(const BlockBins<T, kLogCopies>& bins, uint32_t* cells) {
  const auto count = static_cast<unsigned>(bins.bit_cells.last) + 1;
  for (unsigned i = threadIdx.x; i < count; i += blockDim.x) {
    cells[i] = 0;
  }
  __syncthreads();
  for (unsigned k = threadIdx.x; k < bins.limit; k += blockDim.x) {
    using G = typename BlockBins<T, kLogCopies>::G;
    const auto threshold = static_cast<G>(bins.thresholds[slot_of(k + 1, kLogCopies)]);
    atomicAdd(&cells[bins.template cell_of<kGuess>(threshold)], 1);
  }
  __syncthreads();
  return sum_cells(cells, count);
}

/// Cells over the values, or over their bits where these share the thresholds out better.
template <class T, int kLogCopies>
__device__ void choose_cells(
    Real low, Real high, uint32_t* cells, int32_t count, BlockBins<T, kLogCopies>& bins) {
  using G = typename BlockBins<T, kLogCopies>::G;
  bins.line = cell_line<G>(low, high, count);
  bins.bit_cells = BitCells<G>::between(low, high, count);
  bins.guess = Guess::kBitCells;
  const unsigned most_by_bits = fill_cells<Guess::kBitCells>(bins, cells);
  if (most_by_bits > 1 && bins.line.rises()) {
    if (fill_cells<Guess::kCells>(bins, cells) > most_by_bits) {
      fill_cells<Guess::kBitCells>(bins, cells);
    } else {
      bins.guess = Guess::kCells;
    }
  }
}

template <int kLogCopies, class Key>
__device__ __forceinline__ void put_threshold(Key* thresholds, unsigned place, Key key) {
  for (unsigned copy = 0; copy < 1u << kLogCopies; ++copy) {
    thresholds[slot_of(place, kLogCopies) + copy] = key;
  }
}

/// Finds the bins of a channel, with all threads of the block. `thresholds` has a copy for each of
/// 2^kLogCopies lanes, `cells` room for `num_cells`, a power of two.
template <class T, int kLogCopies>
__device__ __forceinline__ BlockBins<T, kLogCopies> find_bins(
    const Edges& edges,
    int64_t channel,
    typename Number<T>::Key* thresholds,
    uint32_t* cells,
    int32_t num_cells) {
  using G = typename BlockBins<T, kLogCopies>::G;
  enum : unsigned { kInvalid = 1, kNoFormula = 2, kNoOpenFormula = 4, kNoComparison = 8 };
  __shared__ unsigned limit, found;
  __shared__ Lines<G> lines; // one thread divides: there are few units for doubles
  const Real low = edges.at(channel, 0), high = edges.at(channel, edges.bins);
  if (threadIdx.x == 0) {
    limit = found = 0;
    put_threshold<kLogCopies>(thresholds, 0, BlockBins<T, kLogCopies>::lowest());
    lines = Lines<G>::between(low, high, edges.bins);
  }
  __syncthreads();
  unsigned existing = 0, own = 0;
  const auto last = static_cast<unsigned>(edges.bins);
  for (unsigned k = threadIdx.x; k <= last; k += blockDim.x) {
    const CheckedEdge<T> edge = check_edge<T>(edges, channel, k, lines);
    own |= (edge.valid ? 0 : kInvalid) | (edge.formula_is_right ? 0 : kNoFormula) |
           (edge.open_formula_is_right ? 0 : kNoOpenFormula) |
           (edge.close_comparison_is_right ? 0 : kNoComparison);
    existing += edge.exists;
    put_threshold<kLogCopies>(thresholds, k + 1, Thresholds<T>::key(edge.place, edge.exists));
  }
  if (existing > 0) {
    atomicAdd(&limit, existing);
  }
  if (own > 0) {
    atomicOr(&found, own);
  }
  __syncthreads();
  BlockBins<T, kLogCopies> bins{};
  bins.valid = !(found & kInvalid);
  bins.guess = best_guess(
      !(found & kNoFormula), kKnowsOpenFormula<T> && !(found & kNoOpenFormula),
      !(found & kNoComparison));
  bins.line = bins.guess == Guess::kFormula       ? lines.formula
              : bins.guess == Guess::kOpenFormula ? lines.open_formula
                                                  : lines.close;
  bins.end = lines.end_of(edges);
  bins.bins = last;
  bins.limit = limit;
  bins.thresholds = thresholds;
  bins.cells = cells;
  if (bins.guess == Guess::kCells) {
    choose_cells(low, high, cells, num_cells, bins);
  }
  bins.thresholds += threadIdx.x & ((1u << kLogCopies) - 1);
  return bins;
}

} // namespace histo::cuda
