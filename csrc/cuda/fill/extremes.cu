// The extremes of channels, in one kernel if each channel has one chunk, or else in two: teams, which
// are blocks or lanes of a warp, write those of chunks, and warps or blocks reduce these.
#include "cuda/fill/extremes.h"

#include "cuda/axis/extremes.cuh"
#include "cuda/pdl.cuh"
#include "cuda/plan/gather_plan.h"
#include "cuda/storage/gather.h"
#include "cuda/walk/general_columns.cuh"
#include "cuda/walk/vec16s.cuh"

namespace histo::cuda {
namespace {

/// Where extremes go: to the result, or to parts of a channel in memory.
template <class T>
struct ExtremesOut {
  using E = UniformEdgeOf<T>;
  Extremes<T>* parts; // null: there is one for each channel
  E* low;
  E* high;
  Widened widened;

  template <bool kIsWarp>
  __device__ __forceinline__ void put(
      const Team<kIsWarp>& team, const Extremes<T>& found, int64_t index) const {
    if (parts == nullptr) {
      put_extremes(team, found, widened, low + index, high + index);
    } else if (team.thread == 0) {
      parts[index] = found;
    }
  }
};

/// A block, or some lanes of a warp.
template <bool kIsWarp>
__device__ __forceinline__ Team<kIsWarp> team_of(unsigned lanes) {
  auto team = Team<kIsWarp>::own();
  if constexpr (kIsWarp) {
    const int64_t thread = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    team.threads = lanes;
    team.thread = threadIdx.x % lanes;
    team.index = thread / lanes;
  }
  return team;
}

/// The part of a channel that a chunk is.
struct Chunk {
  bool exists;
  int64_t channel;
  int64_t first;
  int64_t size;

  /// Teams beyond the last chunk read it again, so that all lanes of a warp take part in shuffles.
  __device__ __forceinline__ Chunk(int64_t of_team, const Chunks& in, int64_t all) {
    exists = of_team < in.count;
    const int64_t index = exists ? of_team : in.count - 1;
    channel = in.of_channel == 1 ? index : index / in.of_channel;
    first = (index - channel * in.of_channel) * in.share;
    size = min(in.share, all - first);
  }
};

template <class T, bool kIsWarp>
__global__ __launch_bounds__(kThreadsOfExtremes, kBlocksOfExtremes) void vec16_extremes_kernel(
    const T* __restrict__ data,
    const __grid_constant__ ChannelVec16s in,
    const __grid_constant__ Chunks chunks,
    ExtremesOut<T> out) {
  const auto team = team_of<kIsWarp>(chunks.lanes);
  const Chunk chunk(team.index, chunks, in.vec16s());
  const T* channel = data + offset_in(in.channels, chunk.channel);
  Vec16sOfThread<T, uint64_t> from(in, chunk.first + team.thread, team.threads);
  RunningExtremes<T> own;
  for (int64_t first = team.thread; first < chunk.size; first += kLoadsOfExtremes * team.threads) {
    uint4 loaded[kLoadsOfExtremes];
#pragma unroll
    for (int j = 0; j < kLoadsOfExtremes; ++j) {
      if (first + j * team.threads < chunk.size) {
        loaded[j] = from.next(channel);
      }
    }
#pragma unroll
    for (int j = 0; j < kLoadsOfExtremes; ++j) {
      if (first + j * team.threads < chunk.size) {
        own.add(loaded[j]);
      }
    }
  }
  const Extremes<T> all = extremes_of(team, own.all());
  if (chunk.exists) {
    out.put(team, all, team.index);
  }
}

template <class T, bool kIsWarp>
__global__ __launch_bounds__(kThreadsOfExtremes) void strided_extremes_kernel(
    const T* __restrict__ data,
    const __grid_constant__ ChannelStreams in,
    const __grid_constant__ Chunks chunks,
    ExtremesOut<T> out) {
  const auto team = team_of<kIsWarp>(chunks.lanes);
  const Chunk chunk(team.index, chunks, in.num_rows);
  const T* channel = data + offset_in(in.channels, chunk.channel);
  Extremes<T> own;
  for (int64_t row = team.thread; row < chunk.size; row += team.threads) {
    own.add(channel[offset_in(in.rows, chunk.first + row)]);
  }
  const Extremes<T> all = extremes_of(team, own);
  if (chunk.exists) {
    out.put(team, all, team.index);
  }
}

template <int kWordBytes>
using ExtremeColumnReads = ReadShape<kThreadsOfColumnExtremes, 1, 64 / kWordBytes>;

/// The extremes of the columns of a word.
template <class T, int kColumns>
class ColumnExtremes {
 public:
  __device__ __forceinline__ void operator()(const Pack<T, kColumns>& pack) {
    const auto words = bits_as<Pack<Word, kWords>>(pack);
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      words_[i].add(words.elements[i]);
    }
  }
  /// Elements behind the last whole row.
  __device__ __forceinline__ void operator()(T element, int of_word) {
    left_[of_word].add(element);
  }
  __device__ __forceinline__ Extremes<T> at(int of_word) const {
    constexpr int kOf = WordExtremes<T>::kOf;
    Extremes<T> all = words_[of_word / kOf].at(of_word % kOf);
    all.merge(left_[of_word]);
    return all;
  }

 private:
  using Word = typename WordExtremes<T>::Word;
  static constexpr int kWords = kColumns / WordExtremes<T>::kOf;
  WordExtremes<T> words_[kWords];
  Extremes<T> left_[kColumns];
};

/// Parts lie [batch][chunk][column].
template <class T, class Column>
__global__ __launch_bounds__(kThreadsOfColumnExtremes, 1) void column_extremes_kernel(
    const T* __restrict__ data, const __grid_constant__ ChannelColumns in, ExtremesOut<T> out) {
  using Value = typename Extremes<T>::Value;
  const Column column(data, in, kThreadsOfColumnExtremes);
  ColumnExtremes<T, Column::kOfWord> own;
  column.template for_each<ExtremeColumnReads<sizeof(typename Column::Word)>>(
      [&own](const auto&... elements) { own(elements...); });
  __shared__ Value lows[kThreadsOfColumnExtremes], highs[kThreadsOfColumnExtremes];
  // All threads that have a column add theirs; each word has a thread in the first warp.
#pragma unroll
  for (int j = 0; j < Column::kOfWord; ++j) {
    Extremes<T> all = own.at(j);
    __syncthreads();
    lows[threadIdx.x] = all.low;
    highs[threadIdx.x] = all.high;
    __syncthreads();
    if (threadIdx.x < kWarp) {
      for (unsigned i = threadIdx.x + kWarp; i < kThreadsOfColumnExtremes; i += kWarp) {
        all.merge(Extremes<T>{lows[i], highs[i]});
      }
      all = extremes_of_strided_lanes(all, 1u << in.log_words);
      if (threadIdx.x == column.word && column.column + j < in.columns) {
        out.put(
            Team<true>::alone(), all,
            (column.batch * in.chunks + column.chunk) * in.columns + column.column + j);
      }
    }
  }
}

constexpr int kThreadsOfManyParts = 1024;

/// The parts of a channel lie in rows of chunks, in each of them one every `channels` columns.
struct ExtremeParts {
  int64_t all_channels;
  int64_t channels; // of a batch
  int64_t columns;
  int64_t chunks;

  __device__ __forceinline__ int64_t of_channel() const {
    return chunks * (columns / channels);
  }
  __device__ __forceinline__ int64_t index(int64_t channel, int64_t part) const {
    if (columns == 1) {
      return channel * chunks + part;
    }
    const int64_t batch = channel / channels, column = channel % channels;
    const int64_t of_chunk = columns / channels;
    return (batch * chunks + part / of_chunk) * columns + part % of_chunk * channels + column;
  }
};

template <class T, bool kIsWarp>
__global__ __launch_bounds__(kThreadsOfManyParts) void reduce_extremes_kernel(
    const Extremes<T>* __restrict__ parts, ExtremeParts in, ExtremesOut<T> out) {
  wait_for_previous(); // it finds the parts
  const auto team = Team<kIsWarp>::own();
  if (team.index >= in.all_channels) {
    return;
  }
  Extremes<T> own;
#pragma unroll 4
  for (int64_t part = team.thread; part < in.of_channel(); part += team.threads) {
    own.merge(parts[in.index(team.index, part)]);
  }
  out.put(team, extremes_of(team, own), team.index);
}

// The layouts of ExtremesPlan.
template <class T>
void find_parts(
    const ChunkedVec16s& in,
    const Problem& problem,
    const ExtremesOut<T>& out,
    const Launch& launch) {
  start(
      launch, "vec16_extremes",
      in.chunks.of_warps() ? vec16_extremes_kernel<T, true> : vec16_extremes_kernel<T, false>,
      grid_of(in.chunks.blocks()), dim3(kThreadsOfExtremes), 0, static_cast<const T*>(problem.data),
      in.vec16s, in.chunks, out);
}

template <class T>
void find_parts(
    const ChunkedStreams& in,
    const Problem& problem,
    const ExtremesOut<T>& out,
    const Launch& launch) {
  start(
      launch, "strided_extremes",
      in.chunks.of_warps() ? strided_extremes_kernel<T, true> : strided_extremes_kernel<T, false>,
      grid_of(in.chunks.blocks()), dim3(kThreadsOfExtremes), 0, static_cast<const T*>(problem.data),
      in.streams, in.chunks, out);
}

template <class T>
void find_parts(
    const ChannelColumns& in,
    const Problem& problem,
    const ExtremesOut<T>& out,
    const Launch& launch) {
  constexpr int kNarrow = static_cast<int>(bytes_of_word(sizeof(T)));
  start(
      launch, "column_extremes",
      in.are_general()     ? column_extremes_kernel<T, GeneralColumn<T>>
      : in.word_bytes == 8 ? column_extremes_kernel<T, ColumnOfThread<T, 8>>
                           : column_extremes_kernel<T, ColumnOfThread<T, kNarrow>>,
      grid_of(in.blocks()), dim3(kThreadsOfColumnExtremes), 0, static_cast<const T*>(problem.data),
      in, out);
}

template <class T>
void find_parts(
    const ChannelWords& in,
    const Problem& problem,
    const ExtremesOut<T>& out,
    const Launch& launch) {
  find_short_extremes(in, problem, out.widened, out.low, out.high, launch);
}

template <class T>
void find_parts(
    const CountedBytes&, const Problem& problem, const ExtremesOut<T>& out, const Launch& launch) {
  find_extremes_of_bytes(problem, out.widened, out.low, out.high, launch);
}

template <class T>
void find_extremes_of(
    const Problem& given,
    Widened widened,
    UniformEdgeOf<T>* low,
    UniformEdgeOf<T>* high,
    const Launch& launch) {
  ExtremesPlan plan = plan_extremes(given, launch.limits);
  Problem problem = given;
  // Short channels are read in place: a copy without gaps takes longer.
  if (!std::holds_alternative<ChannelWords>(plan.layout) && plan_copy(given)) {
    problem = copied_into_runs(given, launch);
    plan = plan_extremes(problem, launch.limits);
  }
  const int64_t channels = problem.num_channels();
  ExtremesOut<T> out{nullptr, low, high, widened};
  const auto find = [&] {
    std::visit([&](const auto& in) { find_parts(in, problem, out, launch); }, plan.layout);
  };
  if (plan.parts == 1) {
    return find();
  }
  const int64_t bytes = channels * plan.parts * static_cast<int64_t>(sizeof(Extremes<T>));
  out.parts = static_cast<Extremes<T>*>(launch.allocate(bytes));
  find();
  const auto* in = std::get_if<ChannelColumns>(&plan.layout);
  const ExtremeParts parts = in != nullptr
                                 ? ExtremeParts{channels, in->channels, in->columns, in->chunks}
                                 : ExtremeParts{channels, 1, 1, plan.parts};
  const bool of_warps = plan.parts <= kMostPartsOfWarp;
  const int64_t blocks = of_warps ? ceil_div(channels, kThreadsOfExtremes / kWarp) : channels;
  const unsigned threads =
      plan.parts > kThreadsOfManyParts ? kThreadsOfManyParts : kThreadsOfExtremes;
  const Extremes<T>* found = out.parts;
  out.parts = nullptr;
  start(
      launch, "reduce_extremes",
      of_warps ? reduce_extremes_kernel<T, true> : reduce_extremes_kernel<T, false>,
      LaunchShape{grid_of(blocks), threads, 0, 1, launch.limits.has_clusters()}, found, parts, out);
}

template <class E>
__global__ void no_extremes_kernel(int64_t channels, Widened widened, E* low, E* high) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < channels; i += step) {
    low[i] = std::numeric_limits<E>::infinity();
    high[i] = -low[i];
    if (widened.yes) {
      range_of_extremes(low[i], high[i]);
    }
  }
}

} // namespace

template <class E>
void find_extremes(const Problem& problem, Widened widened, E* low, E* high, const Launch& launch) {
  const int64_t channels = problem.num_channels();
  if (channels == 0) {
    return;
  }
  if (problem.num_rows() == 0) {
    const int64_t blocks = ceil_div(channels, kThreadsOfExtremes);
    return start(
        launch, "no_extremes", no_extremes_kernel<E>,
        grid_of(std::min<int64_t>(blocks, 8 * launch.limits.sm_count)), dim3(kThreadsOfExtremes), 0,
        channels, widened, low, high);
  }
  visit_number_type(problem.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_same_v<E, UniformEdgeOf<T>>) {
      throw InternalError("find_extremes: not the type of the edges");
    } else {
      find_extremes_of<T>(problem, widened, low, high, launch);
    }
  });
}
template void find_extremes(const Problem&, Widened, float*, float*, const Launch&);
template void find_extremes(const Problem&, Widened, double*, double*, const Launch&);

template <class To>
void finite_range(const Problem& problem, To* low, To* high, const Launch& launch) {
  find_extremes(problem, Widened{false}, low, high, launch);
}
template void finite_range(const Problem&, float*, float*, const Launch&);
template void finite_range(const Problem&, double*, double*, const Launch&);

} // namespace histo::cuda
