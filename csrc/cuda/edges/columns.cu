// Counts channels that lie side by side between their edges. A block has a stripe of columns, and
// a table [place][column] in shared memory, in which a lane meets no other in a bank.
#include "../counts.cuh"
#include "../overlap.cuh"
#include "bins.cuh"
#include "edges.h"
#include "walk.cuh"

namespace histo::cuda {
namespace {

template <class T>
using ShapeOf =
    ReadShape<sizeof(T) == 2 && Number<T>::kIsFloat ? 896 : 768, 1, sizeof(T) == 8 ? 8 : 16>;

/// Where a word is in a table of rows of words, once the table is rotated: each 32 words that
/// follow each other have moved within their rows, by one more than the 32 before. Then lanes meet
/// in no bank, whether they go along a row or down a column.
template <int kLogWords>
__device__ __forceinline__ unsigned rotated(unsigned row, unsigned word) {
  constexpr unsigned kWords = 1u << kLogWords;
  return row * kWords + (word + row / (kWarp / kWords)) % kWords;
}

/// Rotates a table of `size` words. A warp moves 32 words at a time.
template <int kLogWords>
__device__ __forceinline__ void rotate_rows(uint32_t* table, unsigned size) {
  constexpr unsigned kWords = 1u << kLogWords;
  const unsigned lane = threadIdx.x % kWarp;
  for (unsigned first = threadIdx.x - lane; first < size; first += blockDim.x) {
    const unsigned i = first + lane;
    const uint32_t word = i < size ? table[i] : 0;
    __syncwarp();
    if (i < size) {
      table[rotated<kLogWords>(i / kWords, i % kWords)] = word;
    }
  }
}

/// The edges of one column of a stripe. Edges of 32 bits were copied to shared memory, because
/// those of neighbouring columns lie far apart.
template <int kLogWords>
struct ColumnEdges {
  const Edges& edges;
  int64_t channel;
  const uint32_t* copy; // rotated, [of_word][k][word]; null if edges are not copied
  unsigned first_row;   // of the copy
  unsigned word;

  __device__ __forceinline__ static bool are_copied(const Edges& edges) {
    return edges.type == ElementType::kFloat32 || edges.type == ElementType::kInt32 ||
           edges.type == ElementType::kUInt32;
  }
  __device__ __forceinline__ Real at(unsigned k) const {
    return copy == nullptr
               ? edges.at(channel, k)
               : Edges::number(copy, edges.type, rotated<kLogWords>(first_row + k, word));
  }
};

/// Copies the edges of all columns of the stripe. A warp copies those of a channel.
template <int kLogWords, class T>
__device__ __forceinline__ void copy_edges(
    const ColumnOfThread<T>& column, const Edges& edges, uint32_t* copy) {
  constexpr unsigned kOfWord = ColumnOfThread<T>::kOfWord, kInFlight = 8;
  const auto last = static_cast<unsigned>(edges.bins);
  for (unsigned c = threadIdx.x / kWarp; c < kOfWord << kLogWords; c += blockDim.x / kWarp) {
    const auto* own = static_cast<const uint32_t*>(edges.data) + edges.index(column.channel(c), 0);
    for (unsigned first = threadIdx.x % kWarp; first <= last; first += kInFlight * kWarp) {
      uint32_t loaded[kInFlight];
#pragma unroll
      for (unsigned j = 0; j < kInFlight; ++j) {
        loaded[j] = own[min(first + j * kWarp, last)];
      }
#pragma unroll
      for (unsigned j = 0; j < kInFlight; ++j) {
        const unsigned k = min(first + j * kWarp, last);
        copy[rotated<kLogWords>(c % kOfWord * (last + 1) + k, c / kOfWord)] = loaded[j];
      }
    }
  }
}

/// A threshold as it lies in shared memory: floats of 16 bits as such, others as keys.
template <class T>
struct Stored {
  static constexpr bool kIsSmall = sizeof(T) == 2 && Number<T>::kIsFloat;
  using Key = typename Number<T>::Key;
  using Type = std::conditional_t<kIsSmall, T, Key>;

  __device__ __forceinline__ static Type of(typename Number<T>::Place place, bool exists) {
    if constexpr (kIsSmall) {
      return exists ? Number<T>::value_at(place) : T{0x7fff}; // NaN
    } else {
      return Thresholds<T>::key(place, exists);
    }
  }
  __device__ __forceinline__ static Key key(Type stored) {
    if constexpr (kIsSmall) {
      return Number<T>::key(stored);
    } else {
      return stored;
    }
  }
};

/// The bins of the columns of a thread's word.
template <class T>
struct ColumnBins {
  using Key = typename Number<T>::Key;
  using G = GuessOf<Key>;
  using Thresholds = typename Stored<T>::Type;
  static constexpr int kOfWord = ColumnOfThread<T>::kOfWord;

  const Thresholds* thresholds; // of the word: [k][word][of_word]
  unsigned step;                // from one to the next
  unsigned bins;
  unsigned limit[kOfWord];
  Line<G> line[kOfWord];

  __device__ __forceinline__ bool reaches(Key value, unsigned k, int of_word) const {
    return value >= Stored<T>::key(thresholds[k * step + of_word]);
  }
  template <Guess kGuess>
  __device__ __forceinline__ unsigned place(Key value, int of_word) const {
    if constexpr (kGuess == Guess::kFormula) {
      return whole_part(line[of_word], static_cast<G>(value), bins + 1);
    } else if constexpr (kGuess == Guess::kComparison) {
      const unsigned k = whole_part(line[of_word], static_cast<G>(value), bins);
      const unsigned place = k + (reaches(value, k, of_word) ? 1 : 0);
      return Number<T>::kIsFloat ? place : min(place, limit[of_word]);
    } else {
      static_assert(kGuess == Guess::kCells, "not a guess");
      unsigned low = 0, high = limit[of_word]; // all thresholds are one cell
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

/// Finds the bins of all columns of the stripe. `limits` is [words * kOfWord] in shared memory, and
/// so is `invalid`; `copy` has room for an edge of 32 bits in place of each threshold.
template <int kLogWords, class T>
__device__ __forceinline__ Guess find_column_bins(
    const ColumnOfThread<T>& column,
    const Edges& edges,
    typename Stored<T>::Type* thresholds,
    uint32_t* copy,
    unsigned* limits,
    unsigned* invalid,
    ColumnBins<T>& bins) {
  using G = typename ColumnBins<T>::G;
  constexpr int kOfWord = ColumnBins<T>::kOfWord;
  constexpr unsigned kWords = 1u << kLogWords;
  const unsigned own = column.word * kOfWord;
  if (threadIdx.x < kWords * kOfWord) {
    limits[threadIdx.x] = invalid[threadIdx.x] = 0;
  }
  const bool are_copied = ColumnEdges<kLogWords>::are_copied(edges);
  if (are_copied) {
    copy_edges<kLogWords>(column, edges, copy);
  }
  __syncthreads();
  bool formula_is_right = true, comparison_is_right = true;
  Line<G> formulas[kOfWord];
  const auto last = static_cast<unsigned>(edges.bins);
#pragma unroll
  for (int j = 0; j < kOfWord; ++j) {
    const ColumnEdges<kLogWords> of_column{
        edges, column.channel(own + j), are_copied ? copy : nullptr, j * (last + 1), column.word};
    const auto lines = Lines<G>::between(of_column.at(0), of_column.at(last), edges.bins);
    formulas[j] = lines.formula;
    bins.line[j] = lines.comparison;
    unsigned existing = 0;
    bool valid = true;
    for (unsigned k = column.first_row; k <= last; k += column.row_step) {
      const CheckedEdge<T> edge =
          check_edge<T>(edges, k, of_column.at(k), of_column.at(min(k + 1, last)), lines);
      valid = valid && edge.valid;
      formula_is_right = formula_is_right && edge.formula_is_right;
      comparison_is_right = comparison_is_right && edge.comparison_is_right;
      existing += edge.exists;
      thresholds[k * kWords * kOfWord + own + j] = Stored<T>::of(edge.place, edge.exists);
    }
    if (existing > 0) {
      atomicAdd(&limits[own + j], existing);
    }
    if (!valid) {
      atomicOr(&invalid[own + j], 1u);
    }
  }
  formula_is_right = __syncthreads_and(formula_is_right);
  comparison_is_right = __syncthreads_and(comparison_is_right);
  bins.bins = last;
  bins.step = kWords * kOfWord;
  bins.thresholds = thresholds + own;
#pragma unroll
  for (int j = 0; j < kOfWord; ++j) {
    bins.limit[j] = limits[own + j];
    bins.line[j] = formula_is_right ? formulas[j] : bins.line[j];
  }
  return formula_is_right      ? Guess::kFormula
         : comparison_is_right ? Guess::kComparison
                               : Guess::kCells;
}

template <Guess kGuess, int kLogWords, class Shape, class T>
__device__ __forceinline__ void count_columns(
    const ColumnOfThread<T>& column, const ColumnBins<T>& bins, uint32_t* table, Flow flow) {
  const unsigned plane = (bins.bins + 3) << (2 + kLogWords); // bytes
  const unsigned nan_place = flow.shown ? bins.bins + 2 : 0;
  const uint32_t counters = address_of(table) + 4 * column.word;
  column.template for_each<Shape>([&](T element, int of_word) {
    const auto value = Number<T>::key(element);
    unsigned place = bins.template place<kGuess>(value, of_word);
    if constexpr (Number<T>::kIsFloat) {
      place = is_nan(value) ? nan_place : place;
    }
    add_shared(counters + of_word * plane + (place << (2 + kLogWords)), 1);
  });
}

template <int kLogWords, class Shape, class T>
__global__ __launch_bounds__(Shape::kThreads, Shape::kBlocks) void count_columns_kernel(
    const T* __restrict__ data,
    const __grid_constant__ ChannelColumns in,
    const __grid_constant__ Edges edges,
    Flow flow,
    unsigned long long* __restrict__ counts) {
  constexpr int kOfWord = ColumnOfThread<T>::kOfWord;
  constexpr unsigned kWords = 1u << kLogWords;
  __shared__ unsigned limits[kWords * kOfWord], invalid[kWords * kOfWord];
  extern __shared__ __align__(16) unsigned char shared[];
  auto* thresholds = reinterpret_cast<typename Stored<T>::Type*>(shared);
  const auto bins_of_channel = static_cast<unsigned>(edges.bins);
  auto* table = reinterpret_cast<uint32_t*>(thresholds + (bins_of_channel + 1) * kWords * kOfWord);
  const unsigned places = bins_of_channel + 3, size = places * kWords * kOfWord;
  const ColumnOfThread<T> column(data, in, Shape::kThreads);
  ColumnBins<T> bins;
  const Guess guess =
      find_column_bins<kLogWords>(column, edges, thresholds, table, limits, invalid, bins);
  for (unsigned i = threadIdx.x; i < size; i += Shape::kThreads) {
    table[i] = 0;
  }
  __syncthreads();
  switch (guess) {
    case Guess::kFormula:
      count_columns<Guess::kFormula, kLogWords, Shape>(column, bins, table, flow);
      break;
    case Guess::kComparison:
      count_columns<Guess::kComparison, kLogWords, Shape>(column, bins, table, flow);
      break;
    case Guess::kCells:
      count_columns<Guess::kCells, kLogWords, Shape>(column, bins, table, flow);
      break;
  }
  __syncthreads();
  rotate_rows<kLogWords>(table, size);
  __syncthreads();
  wait_for_previous(); // it clears the counts
  // A warp adds the counts of a channel.
  const auto num_counts = static_cast<unsigned>(flow.num_counts(edges.bins));
  for (unsigned c = threadIdx.x / kWarp; c < kWords * kOfWord; c += Shape::kThreads / kWarp) {
    if (column.first_column() + c >= in.columns) {
      break;
    }
    const int64_t channel = column.channel(c);
    for (unsigned i = threadIdx.x % kWarp; i < num_counts; i += kWarp) {
      const unsigned place = i + (flow.shown ? 0 : 1);
      if (!invalid[c] || place == bins_of_channel + 2) {
        put<true>(
            &counts[channel * num_counts + i],
            table[rotated<kLogWords>(c % kOfWord * places + place, c / kOfWord)]);
      }
    }
  }
}

} // namespace

void count_columns_between(
    const EdgePlan& plan,
    const Problem& problem,
    const Edges& edges,
    const Flow& flow,
    const Launch& launch) {
  visit_wide_type(problem.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    start(
        launch, "count_columns",
        plan.columns.log_words == 5 ? count_columns_kernel<5, ShapeOf<T>, T>
                                    : count_columns_kernel<3, ShapeOf<T>, T>,
        Shape{grid_of(plan.blocks), ShapeOf<T>::kThreads, plan.shared_bytes, 1, plan.overlaps},
        static_cast<const T*>(problem.data), plan.columns, edges, flow,
        reinterpret_cast<unsigned long long*>(problem.counts));
  });
}

} // namespace histo::cuda
