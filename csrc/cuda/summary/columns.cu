// Summaries of channels that lie side by side.
#include "cuda/summary/sums.cuh"
#include "cuda/walk/general_columns.cuh"

namespace histo::cuda {
namespace {

template <class T>
constexpr int kThreads = threads_of_summary_columns(sizeof(T));

/// Keeps the extremes that the thread found of a column.
template <class Sums>
__device__ __forceinline__ void keep_extremes(
    const Sums& own, unsigned long long& lowest, unsigned long long& highest) {
  const unsigned long long low = own.low_key(), high = own.high_key();
  if (low > 0) {
    atomicMax(&lowest, low);
  }
  if (high > 0) {
    atomicMax(&highest, high);
  }
}

/// Whether a block has several columns of a channel. They are summed in the block first, because many
/// blocks would contend for few channels.
template <int kColumns>
__device__ __forceinline__ bool has_few_channels(const ChannelColumns& in) {
  return in.channels < kColumns;
}

/// Adds what a block found of its columns to their channels. `extremes` are those of few channels; others
/// have theirs in the result.
template <class T, int kColumns, class Column>
__device__ __forceinline__ void add_columns(
    const Column& column,
    const ChannelColumns& in,
    const uint32_t* words,
    const unsigned long long (&extremes)[2][kColumns],
    unsigned long long* all) {
  using Rows = SummaryRows<T>;
  const auto columns = static_cast<int>(min(int64_t{kColumns}, in.columns - column.first_column()));
  const auto channels = static_cast<int>(min(int64_t{columns}, in.channels));
  const int rows = has_few_channels<kColumns>(in) ? Rows::kRows : Rows::kAdded;
  for (int i = static_cast<int>(threadIdx.x); i < rows * channels; i += kThreads<T>) {
    const int row = i / channels, first = i % channels;
    unsigned long long* found =
        all + in.channel(column.batch, column.first_column() + first) * Rows::kRows;
    if (row < Rows::kAdded) {
      int64_t number = 0;
      for (int c = first; c < columns; c += channels) {
        number += DigitTable(words, c, kColumns).at(row);
      }
      add_to_channel<T>(found, row, number);
    } else {
      unsigned long long key = 0;
      for (int c = first; c < columns; c += channels) {
        key = max(key, extremes[row - Rows::kLow][c]);
      }
      if (key > 0) {
        atomicMax(&found[row], key);
      }
    }
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
  __shared__ unsigned long long extremes[2][kColumns]; // keys of the lowest and the highest values
  const auto thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < kWords; i += kThreads<T>) {
    words[i] = 0;
  }
  for (int i = thread; i < 2 * kColumns; i += kThreads<T>) {
    extremes[i / kColumns][i % kColumns] = 0;
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
      own[j].finish();
      if (has_few_channels<kColumns>(in)) {
        keep_extremes(own[j], extremes[0][first + j], extremes[1][first + j]);
      } else if (column.column + j < in.columns) { // the last word of a row need not be whole
        const int64_t channel = in.channel(column.batch, column.column + j);
        keep_extremes(
            own[j], all[channel * Rows::kRows + Rows::kLow],
            all[channel * Rows::kRows + Rows::kHigh]);
      }
    }
  }
  __syncthreads();
  add_columns<T, kColumns>(column, in, words, extremes, all);
}

} // namespace

void summarize_columns(
    const SummaryPlan& plan,
    const Problem& problem,
    unsigned long long* found,
    const Launch& launch) {
  const auto& in = std::get<ChannelColumns>(plan.layout);
  visit_number_type(problem.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int kColumns = ColumnOfThread<T>::kOfWord << kLogWordsOfSummary;
    auto kernel = summarize_columns_kernel<T, ColumnOfThread<T>>;
    if constexpr (sizeof(T) > 1) {
      kernel = in.are_general() ? summarize_columns_kernel<T, GeneralColumn<T>> : kernel;
    }
    start(
        launch, "summarize_columns", kernel, grid_of(plan.blocks), dim3(kThreads<T>),
        2 * SummaryRows<T>::kAdded * kColumns * int64_t{sizeof(uint32_t)},
        static_cast<const T*>(problem.data), in, found);
  });
}

} // namespace histo::cuda
