// The bins between edges, as a block finds them: thresholds in shared memory, and a guess that was
// checked against all of them.
#pragma once

#include <cstdint>
#include <type_traits>

#include "../../guesses.h"
#include "../shared.cuh"

namespace histo::cuda {

/// Calls f with the guess as a constant. The tests compile it with -Werror=switch, which wants a
/// case for each guess: a trap behind the switch would make the kernels spill more registers.
template <bool kKnowsOpen, class F>
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
  }
}

/// The slot of a place or of a threshold in shared memory, among 2^kLogCopies copies of each. A slot
/// is left out every few places. Otherwise places a power of two apart would share a bank, and data
/// often hold such values.
template <int kLogCopies>
__device__ __forceinline__ unsigned slot_of(unsigned place) {
  constexpr unsigned kPlacesOfBanks = kWarp >> kLogCopies;
  return (kPlacesOfBanks == 1 ? place : place + place / kPlacesOfBanks) << kLogCopies;
}

/// The bins of one channel.
template <class T, int kLogCopies>
struct BlockBins {
  using Key = typename Number<T>::Key;
  using G = GuessOf<Key>;

  const Key* thresholds; // the copy of this thread
  const uint32_t* cells; // the thresholds below each cell, and 2^16 times those below the next
  unsigned bins;
  unsigned limit; // thresholds that exist
  bool valid;
  bool over_bits; // of the cells
  Guess guess;
  Line<G> line; // of the guess
  G end;        // that an open formula does not find
  BitCells<G> bit_cells;

  __device__ __forceinline__ unsigned cell_of(G value) const {
    return over_bits ? static_cast<unsigned>(bit_cells.at(value))
                     : whole_part(line, value, kCells - 1);
  }

  __device__ __forceinline__ bool reaches(Key value, unsigned k) const {
    return value >= thresholds[slot_of<kLogCopies>(k)];
  }
  /// The place of a value that is not NaN.
  template <Guess kGuess>
  __device__ __forceinline__ unsigned place(Key value) const {
    if constexpr (kGuess == Guess::kFormula) {
      return whole_part(line, static_cast<G>(value), bins + 1);
    } else if constexpr (kGuess == Guess::kOpenFormula) {
      return open_place(line, end, value, bins);
    } else if constexpr (kGuess == Guess::kComparison) {
      const unsigned k = whole_part(line, static_cast<G>(value), bins);
      const unsigned place = k + (reaches(value, k) ? 1 : 0);
      return Number<T>::kIsFloat ? place : min(place, limit);
    } else {
      static_assert(kGuess == Guess::kCells, "not a guess");
      const uint32_t cell = cells[cell_of(static_cast<G>(value))];
      unsigned low = cell & 0xffff, high = cell >> 16;
      // Most cells have one threshold or none. If this has none, the first one lies above it.
      if (!reaches(value, low)) {
        return low;
      }
      for (low = min(low + 1, limit); low < high;) {
        const unsigned middle = (low + high) / 2;
        if (reaches(value, middle)) {
          low = middle + 1;
        } else {
          high = middle;
        }
      }
      return low;
    }
  }
};

/// Replaces the count of each cell by the thresholds below it, and in the upper 16 bits by those
/// below the next cell. Returns the largest count.
__device__ inline unsigned sum_cells(uint32_t* cells) {
  __shared__ unsigned of_warps[kWarp];
  __shared__ unsigned most;
  const unsigned share = (kCells + blockDim.x - 1) / blockDim.x, lane = threadIdx.x % kWarp;
  const unsigned first = threadIdx.x * share, last = min(first + share, kCells);
  unsigned sum = 0, largest = 0;
  for (unsigned cell = first; cell < last; ++cell) {
    sum += cells[cell];
    largest = max(largest, cells[cell]);
  }
  unsigned below = sum; // with the lanes before
  for (unsigned step = 1; step < kWarp; step *= 2) {
    const unsigned other = __shfl_up_sync(0xffffffff, below, step);
    below += lane >= step ? other : 0;
  }
  if (threadIdx.x == 0) {
    most = 0;
  }
  if (lane == kWarp - 1) {
    of_warps[threadIdx.x / kWarp] = below;
  }
  __syncthreads();
  unsigned begin = below - sum;
  for (unsigned warp = 0; warp < threadIdx.x / kWarp; ++warp) {
    begin += of_warps[warp];
  }
  atomicMax(&most, largest);
  for (unsigned cell = first; cell < last; ++cell) {
    const unsigned end = begin + cells[cell];
    cells[cell] = begin | end << 16;
    begin = end;
  }
  __syncthreads();
  return most;
}

/// Counts the thresholds in each cell, and sums them.
template <class T, int kLogCopies>
__device__ unsigned fill_cells(const BlockBins<T, kLogCopies>& bins, uint32_t* cells) {
  for (unsigned i = threadIdx.x; i < kCells; i += blockDim.x) {
    cells[i] = 0;
  }
  __syncthreads();
  for (unsigned k = threadIdx.x; k < bins.limit; k += blockDim.x) {
    using G = typename BlockBins<T, kLogCopies>::G;
    atomicAdd(&cells[bins.cell_of(static_cast<G>(bins.thresholds[slot_of<kLogCopies>(k)]))], 1);
  }
  __syncthreads();
  return sum_cells(cells);
}

/// Cells over the values, or over their bits where these share the thresholds out better.
template <class T, int kLogCopies>
__device__ void choose_cells(Real low, Real high, uint32_t* cells, BlockBins<T, kLogCopies>& bins) {
  using G = typename BlockBins<T, kLogCopies>::G;
  bins.line = cell_line<G>(low, high);
  bins.bit_cells = BitCells<G>::between(low, high);
  bins.over_bits = true;
  const unsigned most_by_bits = fill_cells(bins, cells);
  if (most_by_bits > 1 && bins.line.rises()) {
    bins.over_bits = false;
    if (fill_cells(bins, cells) > most_by_bits) {
      bins.over_bits = true;
      fill_cells(bins, cells);
    }
  }
}

template <int kLogCopies, class Key>
__device__ __forceinline__ void put_threshold(Key* thresholds, unsigned k, Key key) {
  for (unsigned copy = 0; copy < 1u << kLogCopies; ++copy) {
    thresholds[slot_of<kLogCopies>(k) + copy] = key;
  }
}

/// Finds the bins of a channel, with all threads of the block. `thresholds` has a copy for each of
/// 2^kLogCopies lanes.
template <class T, int kLogCopies>
__device__ __forceinline__ BlockBins<T, kLogCopies> find_bins(
    const Edges& edges, int64_t channel, typename Number<T>::Key* thresholds, uint32_t* cells) {
  using G = typename BlockBins<T, kLogCopies>::G;
  __shared__ unsigned limit;
  __shared__ Lines<G> lines; // one thread divides: there are few units for doubles
  const Real low = edges.at(channel, 0), high = edges.at(channel, edges.bins);
  if (threadIdx.x == 0) {
    limit = 0;
    lines = Lines<G>::between(low, high, edges.bins);
  }
  __syncthreads();
  bool valid = true, formula_is_right = true, comparison_is_right = true;
  bool open_formula_is_right = kKnowsOpenFormula<T>;
  unsigned existing = 0;
  const auto last = static_cast<unsigned>(edges.bins);
  for (unsigned k = threadIdx.x; k <= last; k += blockDim.x) {
    const CheckedEdge<T> edge = check_edge<T>(edges, channel, k, lines);
    valid = valid && edge.valid;
    formula_is_right = formula_is_right && edge.formula_is_right;
    open_formula_is_right = open_formula_is_right && edge.open_formula_is_right;
    comparison_is_right = comparison_is_right && edge.comparison_is_right;
    existing += edge.exists;
    put_threshold<kLogCopies>(thresholds, k, Thresholds<T>::key(edge.place, edge.exists));
  }
  if (threadIdx.x == 0) { // a search may look at the one behind the last
    put_threshold<kLogCopies>(thresholds, last + 1, Thresholds<T>::key(Number<T>::kLast, false));
  }
  if (existing > 0) {
    atomicAdd(&limit, existing);
  }
  BlockBins<T, kLogCopies> bins{};
  bins.valid = __syncthreads_and(valid);
  formula_is_right = __syncthreads_and(formula_is_right);
  if constexpr (kKnowsOpenFormula<T>) {
    open_formula_is_right = __syncthreads_and(open_formula_is_right);
  }
  comparison_is_right = __syncthreads_and(comparison_is_right);
  bins.guess = best_guess(formula_is_right, comparison_is_right);
  bins.line = formula_is_right ? lines.formula : lines.comparison;
  if (open_formula_is_right && !formula_is_right) {
    bins.guess = Guess::kOpenFormula;
    bins.line = lines.open_formula;
  }
  bins.end = lines.end_of(edges);
  bins.bins = last;
  bins.limit = limit;
  bins.thresholds = thresholds;
  bins.cells = cells;
  if (bins.guess == Guess::kCells) {
    choose_cells(low, high, cells, bins);
  }
  bins.thresholds += threadIdx.x & ((1u << kLogCopies) - 1);
  return bins;
}

} // namespace histo::cuda
