// Summaries of channels that lie side by side.
#include "cuda/summary/sums.cuh"
#include "cuda/walk/general_columns.cuh"

namespace histo::cuda {
namespace {

template <class T>
constexpr int kThreads = threads_of_summary_columns(sizeof(T));

/// Adds what the thread found of a column: the extremes to those of its channel, the rest to the
/// table.
template <class T, class Sums>
__device__ __forceinline__ void finish_column(Sums& own, unsigned long long* found) {
  own.finish();
  const unsigned long long low = own.low_key(), high = own.high_key();
  if (low > 0) {
    atomicMax(&found[SummaryRows<T>::kLow], low);
  }
  if (high > 0) {
    atomicMax(&found[SummaryRows<T>::kHigh], high);
  }
}

template <class T, class Column>
__global__ __launch_bounds__(kThreads<T>, 1) void summarize_columns_kernel(
    const T* __restrict__ data,
    const __grid_constant__ ChannelColumns in,
    unsigned long long* __restrict__ all) {
  using Rows = SummaryRows<T>;
  constexpr int kColumns = Column::kOfWord << kLogWordsOfSummary;
  constexpr int kWords = 2 * Rows::kAdded * kColumns;
  extern __shared__ uint32_t words[];
  const auto thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < kWords; i += kThreads<T>) {
    words[i] = 0;
  }
  __syncthreads();

  const Column column(data, in, kThreads<T>);
  const int first = static_cast<int>(column.word) * Column::kOfWord;
  SumsOfThread<T> own[Column::kOfWord];
#pragma unroll
  for (int j = 0; j < Column::kOfWord; ++j) {
    own[j].begin(DigitTable(words, first + j, kColumns));
  }
  // Words that need not be aligned are loaded in two parts, which need more registers.
  constexpr bool kMayBeLoose = std::is_same_v<Column, GeneralColumn<T>> && sizeof(T) == 2;
  constexpr int kRows = rows_of_summary_group(sizeof(T)) / (kMayBeLoose ? 2 : 1);
  column.template for_each_group_of_rows<kRows, kSummaryGroupsAhead>(
      [&](const auto& elements, int j) { own[j].add(elements); });
  if (column.has_words) {
#pragma unroll
    for (int j = 0; j < Column::kOfWord; ++j) {
      if (column.column + j < in.columns) { // the last word of a row need not be whole
        const int64_t channel = in.channel(column.batch, column.column + j);
        finish_column<T>(own[j], all + channel * Rows::kRows);
      }
    }
  }
  __syncthreads();

  for (int i = thread; i < Rows::kAdded * kColumns; i += kThreads<T>) {
    const int row = i / kColumns, of_block = i % kColumns;
    if (column.first_column() + of_block < in.columns) {
      const int64_t channel = in.channel(column.batch, column.first_column() + of_block);
      add_to_channel<T>(
          all + channel * Rows::kRows, row, DigitTable(words, of_block, kColumns).at(row));
    }
  }
}

} // namespace

void summarize_columns(
    const SummaryPlan& plan,
    const Problem& problem,
    unsigned long long* found,
    const Launch& launch) {
  visit_number_type(problem.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int kColumns = ColumnOfThread<T>::kOfWord << kLogWordsOfSummary;
    auto kernel = summarize_columns_kernel<T, ColumnOfThread<T>>;
    if constexpr (sizeof(T) > 1) {
      kernel = plan.columns.are_general() ? summarize_columns_kernel<T, GeneralColumn<T>> : kernel;
    }
    start(
        launch, "summarize_columns", kernel, grid_of(plan.blocks), dim3(kThreads<T>),
        2 * SummaryRows<T>::kAdded * kColumns * int64_t{sizeof(uint32_t)},
        static_cast<const T*>(problem.data), plan.columns, found);
  });
}

} // namespace histo::cuda
