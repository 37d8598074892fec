// Counts channels that lie side by side between their edges. A block has a stripe of columns, and
// a table [slot][column] in shared memory, in which a lane meets no other in a bank.
#include "cuda/axis/column_bins.cuh"
#include "cuda/fill/fill.h"
#include "cuda/storage/counts.cuh"
#include "cuda/storage/rotated.cuh"

namespace histo::cuda {
namespace {

template <class T, int kWordBytes>
using ShapeOf =
    ReadShape<threads_of_columns(sizeof(T), Number<T>::kIsFloat), 1, kWordBytes == 8 ? 8 : 16>;

/// Counts the elements of a thread's word.
template <Guess kGuess, class T, int kOfWord, int kLogWords>
struct CountWord {
  const ColumnBins<T, kOfWord, kLogWords>& bins;
  uint32_t counters; // of the word's first column
  unsigned plane;    // bytes of a column of all words
  unsigned nan_slot;

  __device__ __forceinline__ uint32_t counter_of(T element, int of_word) const {
    const auto value = Number<T>::wide(element);
    unsigned slot = bins.template slot<kGuess>(value, of_word);
    if constexpr (Number<T>::kIsFloat) {
      slot = is_nan(value) ? nan_slot : slot;
    }
    return counters + of_word * plane + (slot << (2 + kLogWords));
  }
  __device__ __forceinline__ void operator()(T element, int of_word) const {
    add_shared(counter_of(element, of_word), 1);
  }
  /// All slots are found before one is counted, so that loads do not wait for each other.
  __device__ __forceinline__ void operator()(const Pack<T, kOfWord>& pack) const {
    uint32_t own[kOfWord];
#pragma unroll
    for (int j = 0; j < kOfWord; ++j) {
      own[j] = counter_of(pack.elements[j], j);
    }
#pragma unroll
    for (int j = 0; j < kOfWord; ++j) {
      add_shared(own[j], 1);
    }
  }
};

template <int kWordBytes, int kLogWords, class Shape, class T>
__global__ __launch_bounds__(Shape::kThreads, Shape::kBlocks) void count_columns_kernel(
    const T* __restrict__ data,
    const __grid_constant__ ChannelColumns in,
    FoundColumns<T> found,
    unsigned bins_of_channel,
    Flow flow,
    unsigned long long* __restrict__ counts) {
  using Column = ColumnOfThread<T, kWordBytes>;
  constexpr int kOfWord = Column::kOfWord;
  constexpr unsigned kWords = 1u << kLogWords;
  __shared__ unsigned limits[kWords * kOfWord], invalid[kWords * kOfWord];
  extern __shared__ __align__(16) unsigned char shared[];
  auto* thresholds = reinterpret_cast<typename Stored<T>::Type*>(shared);
  auto* table = reinterpret_cast<uint32_t*>(thresholds + (bins_of_channel + 1) * kWords * kOfWord);
  const unsigned slots = bins_of_channel + 3, size = slots * kWords * kOfWord;
  const Column column(data, in, Shape::kThreads);
  for (unsigned i = threadIdx.x; i < size; i += Shape::kThreads) {
    table[i] = 0;
  }
  ColumnBins<T, kOfWord, kLogWords> bins;
  const Guess found_guess =
      copy_bins(column, found, bins_of_channel, thresholds, limits, invalid, bins);
  visit_guess<false, false>(found_guess, [&](auto guess) {
    column.template for_each<Shape>(CountWord<guess(), T, kOfWord, kLogWords>{
        bins, address_of(table) + 4 * column.word, slots << (2 + kLogWords),
        flow.shown ? slots - 1 : 0});
  });
  __syncthreads();
  rotate_rows<kLogWords>(table, size);
  __syncthreads();
  // A warp adds the counts of a channel.
  const auto num_counts = static_cast<unsigned>(flow.num_counts(bins_of_channel));
  for (unsigned c = threadIdx.x / kWarp; c < kWords * kOfWord; c += Shape::kThreads / kWarp) {
    if (column.first_column() + c >= in.columns) {
      break;
    }
    const int64_t channel = in.channel(column.batch, column.first_column() + c);
    for (unsigned i = threadIdx.x % kWarp; i < num_counts; i += kWarp) {
      const unsigned slot = i + (flow.shown ? 0 : 1);
      if (!invalid[c] || slot == bins_of_channel + 2) {
        put<true>(
            &counts[channel * num_counts + i],
            table[rotated<kLogWords>(c % kOfWord * slots + slot, c / kOfWord)]);
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
    const FoundColumns<T> found = find_columns<T>(plan.columns, problem, edges, launch);
    const auto with = [&](auto kernel) {
      start(
          launch, "count_columns", kernel, grid_of(plan.blocks),
          dim3(static_cast<unsigned>(plan.threads)), plan.shared_bytes,
          static_cast<const T*>(problem.data), plan.columns, found,
          static_cast<unsigned>(edges.bins), flow,
          reinterpret_cast<unsigned long long*>(problem.counts));
    };
    constexpr int kLeast = bytes_of_word(sizeof(T)), kMost = kMostBytesOfWord;
    const unsigned log_words = plan.columns.log_words, word_bytes = plan.columns.word_bytes;
    if (log_words == 5 && word_bytes == kMost) {
      with(count_columns_kernel<kMost, 5, ShapeOf<T, kMost>, T>);
    } else if (log_words == 5 && word_bytes == kLeast) {
      with(count_columns_kernel<kLeast, 5, ShapeOf<T, kLeast>, T>);
    } else if (log_words == 3 && word_bytes == kLeast) {
      with(count_columns_kernel<kLeast, 3, ShapeOf<T, kLeast>, T>);
    } else {
      no_kernel("count_columns");
    }
  });
}

} // namespace histo::cuda
