// Counts channels that lie side by side between their edges. A block has a stripe of columns, and
// a table [slot][column] in shared memory, in which a lane meets no other in a bank.
#include "cuda/axis/column_bins.cuh"
#include "cuda/fill/fill.h"
#include "cuda/storage/column_table.cuh"
#include "cuda/storage/room.h"
#include "cuda/walk/walk.cuh"

namespace histo::cuda {
namespace {

template <class T, int kWordBytes>
using EdgeColumnReads =
    ReadShape<threads_of_columns(sizeof(T), Number<T>::kIsFloat), 1, kWordBytes == 8 ? 8 : 16>;

/// Adds a step for each element of a thread's word.
template <Guess kGuess, class T, int kOfWord, class Bins, class Table>
struct FillWord {
  const Bins& bins;
  const Table& table;
  unsigned nan_slot;

  __device__ __forceinline__ unsigned slot_of(T element, int of_word) const {
    const auto value = Number<T>::wide(element);
    const unsigned slot = bins.template slot<kGuess>(value, of_word);
    if constexpr (Number<T>::kIsFloat) {
      return is_nan(value) ? nan_slot : slot;
    } else {
      return slot;
    }
  }
  __device__ __forceinline__ void operator()(T element, int of_word) const {
    table.add(slot_of(element, of_word), of_word, typename Table::Step{});
  }
  /// All slots are found before a step is added, so that loads do not wait for each other.
  __device__ __forceinline__ void operator()(const Pack<T, kOfWord>& pack) const {
    unsigned slots[kOfWord];
#pragma unroll
    for (int j = 0; j < kOfWord; ++j) {
      slots[j] = slot_of(pack.elements[j], j);
    }
#pragma unroll
    for (int j = 0; j < kOfWord; ++j) {
      table.add(slots[j], j, typename Table::Step{});
    }
  }
};

template <class Accumulator, int kWordBytes, int kLogWords, class Shape, class T>
__global__ __launch_bounds__(Shape::kThreads, Shape::kBlocks) void count_columns_kernel(
    const T* __restrict__ data,
    const __grid_constant__ ChannelColumns in,
    FoundColumns<T> found,
    unsigned bins_of_channel,
    Flow flow,
    typename Accumulator::Total* __restrict__ totals) {
  using Column = ColumnOfThread<T, kWordBytes>;
  constexpr int kOfWord = Column::kOfWord;
  constexpr unsigned kWidth = (1u << kLogWords) * kOfWord;
  using Table = ColumnTable<Accumulator, kOfWord, kLogWords>;
  using Bins = ColumnBins<T, kOfWord, kLogWords>;
  __shared__ unsigned limits[kWidth], invalid[kWidth];
  extern __shared__ __align__(16) unsigned char shared[];
  Room room(shared);
  auto* thresholds = room.take<typename Stored<T>::Type>((bins_of_channel + 1) * kWidth);
  const Column column(data, in, Shape::kThreads);
  const Table table(room.take<typename Accumulator::Local>(0), bins_of_channel + 3, column.word);
  table.template clear<Shape::kThreads>();
  Bins bins;
  const Guess found_guess =
      copy_bins(column, found, bins_of_channel, thresholds, limits, invalid, bins);
  visit_guess<false, false>(found_guess, [&](auto guess) {
    column.template for_each<Shape>(FillWord<guess(), T, kOfWord, Bins, Table>{
        bins, table, flow.shown ? bins_of_channel + 2 : 0});
  });
  __syncthreads();
  table.rotate();
  // A warp adds the slots of a channel.
  const auto num_counts = static_cast<unsigned>(flow.num_counts(bins_of_channel));
  for (unsigned c = threadIdx.x / kWarp; c < kWidth; c += Shape::kThreads / kWarp) {
    if (column.first_column() + c >= in.columns) {
      break;
    }
    const int64_t channel = in.channel(column.batch, column.first_column() + c);
    for (unsigned i = threadIdx.x % kWarp; i < num_counts; i += kWarp) {
      const unsigned slot = i + (flow.shown ? 0 : 1);
      if (!invalid[c] || slot == bins_of_channel + 2) {
        put<true>(&totals[channel * num_counts + i], table.at(slot, c));
      }
    }
  }
}

} // namespace

void count_layout(const ChannelColumns& in, const EdgeCount& call, const Launch& launch) {
  visit_wide_type(call.problem.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const FoundColumns<T> found = find_columns<T>(in, call.problem, call.edges, launch);
    const auto with = [&](auto kernel) {
      start(
          launch, "count_columns", kernel, grid_of(call.plan.blocks),
          dim3(static_cast<unsigned>(call.plan.threads)), call.plan.shared_bytes,
          static_cast<const T*>(call.problem.data), in, found,
          static_cast<unsigned>(call.edges.bins), call.flow, totals_of(call.problem));
    };
    constexpr int kLeast = bytes_of_word(sizeof(T)), kMost = kMostBytesOfWord;
    const unsigned log_words = in.log_words, word_bytes = in.word_bytes;
    if (log_words == 5 && word_bytes == kMost) {
      with(count_columns_kernel<Count, kMost, 5, EdgeColumnReads<T, kMost>, T>);
    } else if (log_words == 5 && word_bytes == kLeast) {
      with(count_columns_kernel<Count, kLeast, 5, EdgeColumnReads<T, kLeast>, T>);
    } else if (log_words == 3 && word_bytes == kLeast) {
      with(count_columns_kernel<Count, kLeast, 3, EdgeColumnReads<T, kLeast>, T>);
    } else {
      no_kernel("count_columns");
    }
  });
}

} // namespace histo::cuda
