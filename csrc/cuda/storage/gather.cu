// Copies channels that lie side by side, so that each is one run. A block copies a tile: it reads
// words of neighbouring channels, and writes words of neighbouring rows.
#include "cuda/storage/gather.h"

#include "cuda/policy.h"
#include "cuda/walk/walk.cuh"

namespace histo::cuda {
namespace {

/// Words of a tile. Its rows are a multiple of what a warp writes of a channel.
constexpr unsigned words_of_tile(int64_t word_bytes) {
  return word_bytes == 8 ? 2048 : 4096;
}

struct GatheredRows : View {
  int64_t all_rows;
  int64_t step;       // from one channel of the copy to the next
  unsigned log_words; // of a row of a tile
  unsigned tiles;     // one behind another
  unsigned stripes;   // side by side
};

/// The elements of a word, of `kOf` rows of a column that starts in the word at `tile`.
template <class Bits, int kOf, class Word>
__device__ __forceinline__ Word word_of_rows(const Word* tile, unsigned row_step, unsigned column) {
  constexpr unsigned kBits = 8 * sizeof(Bits);
  Word word = 0;
#pragma unroll
  for (unsigned j = 0; j < kOf; ++j) {
    const auto element = static_cast<Bits>(tile[j * row_step] >> (column * kBits));
    word |= static_cast<Word>(Word{element} << (j * kBits));
  }
  return word;
}

template <class Bits, int kOf>
__global__ __launch_bounds__(kThreadsOfGather) void gather_kernel(
    const Bits* __restrict__ data, const __grid_constant__ GatheredRows in, Bits* copy) {
  using Word = typename UnsignedOf<sizeof(Bits) * kOf>::type;
  constexpr unsigned kWords = words_of_tile(sizeof(Word)), kLoads = kWords / kThreadsOfGather;
  extern __shared__ __align__(16) unsigned char memory[];
  auto* tile = reinterpret_cast<Word*>(memory);
  const unsigned words = 1u << in.log_words, rows = kWords >> in.log_words;
  const unsigned row_step = words | 1; // an odd number, so that banks differ
  const int64_t first_row = int64_t{blockIdx.x % in.tiles} * rows;
  const unsigned stripe = blockIdx.x / in.tiles % in.stripes;
  const int64_t batch = blockIdx.x / in.tiles / in.stripes;
  const int64_t first_column = int64_t{stripe} * words * kOf;
  const Extent& channels = in.channels[1];
  const int64_t columns = channels.size - first_column; // that are left
  const unsigned own_word = threadIdx.x % words, own_row = threadIdx.x >> in.log_words;
  const unsigned rows_of_load = kThreadsOfGather >> in.log_words;
  const Bits* from =
      data + batch * in.channels[0].stride + (first_column + own_word * kOf) * channels.stride;
  const int64_t left = in.all_rows - first_row; // rows
  const int64_t own_rows = own_word * kOf < columns ? left - own_row : 0;
  Word loaded[kLoads];
  const auto load = [&](const auto& offset_of) {
#pragma unroll
    for (unsigned i = 0; i < kLoads; ++i) {
      const unsigned row = i * rows_of_load;
      loaded[i] = row < own_rows ? *reinterpret_cast<const Word*>(from + offset_of(row)) : Word{0};
    }
  };
  if (in.rows[0].size == 1 && in.rows[1].size == 1) {
    from += (first_row + own_row) * in.rows[2].stride;
    load([&](unsigned row) { return row * in.rows[2].stride; });
  } else {
    load([&](unsigned row) { return offset_in(in.rows, first_row + own_row + row); });
  }
#pragma unroll
  for (unsigned i = 0; i < kLoads; ++i) {
    tile[(own_row + i * rows_of_load) * row_step + own_word] = loaded[i];
  }
  __syncthreads();
  // A warp writes 32 words of a channel; several share a channel that has more of them.
  constexpr unsigned kWarps = kThreadsOfGather / kWarp, kRowsOfWarp = kWarp * kOf;
  const unsigned warp = threadIdx.x / kWarp, team = min(kWarps, rows / kRowsOfWarp);
  const unsigned first = (warp % team * kWarp + threadIdx.x % kWarp) * kOf;
  const int64_t last_row = min(left, int64_t{rows});
  unsigned column = warp / team;
  Bits* to = copy + (batch * channels.size + first_column + column) * in.step + first_row;
  for (; column < min(columns, int64_t{words * kOf}); column += kWarps / team) {
    for (unsigned row = first; row < last_row; row += team * kRowsOfWarp) {
      *reinterpret_cast<Word*>(to + row) =
          word_of_rows<Bits, kOf>(tile + row * row_step + column / kOf, row_step, column % kOf);
    }
    to += kWarps / team * in.step;
  }
}

template <class Bits>
auto kernel_of(unsigned of_word) {
  if constexpr (sizeof(Bits) == 1) {
    if (of_word == 4) {
      return gather_kernel<Bits, 4>;
    }
  }
  if constexpr (sizeof(Bits) <= 2) {
    if (of_word == 2) {
      return gather_kernel<Bits, 2>;
    }
  }
  if (of_word == 1) {
    return gather_kernel<Bits, 1>;
  }
  no_kernel("gather");
}

} // namespace

void gather(const GatherShape& shape, const Problem& problem, void* copy, const Launch& launch) {
  GatheredRows in{};
  static_cast<View&>(in) = problem;
  in.all_rows = problem.num_rows();
  in.step = shape.step;
  in.log_words = shape.log_words;
  const int64_t words = int64_t{1} << in.log_words;
  const int64_t word_bytes = bytes_of_type(problem.type) * shape.of_word;
  const int64_t rows = words_of_tile(word_bytes) / words;
  in.tiles = static_cast<unsigned>(ceil_div(in.all_rows, rows));
  in.stripes = static_cast<unsigned>(ceil_div(in.channels[1].size, words * shape.of_word));
  visit_unsigned_type(problem.type, [&](auto tag) {
    using Bits = typename decltype(tag)::type;
    start(
        launch, "gather", kernel_of<Bits>(shape.of_word),
        grid_of(in.channels[0].size * in.stripes * in.tiles), dim3(kThreadsOfGather),
        rows * (words | 1) * word_bytes, static_cast<const Bits*>(problem.data), in,
        static_cast<Bits*>(copy));
  });
}

Problem copied_into_runs(const Problem& problem, const Launch& launch) {
  const auto shape = plan_copy(problem);
  if (!shape) {
    return problem;
  }
  void* copy = launch.allocate(shape->bytes(bytes_of_type(problem.type)));
  gather(*shape, problem, copy, launch);
  return problem_of_copy(problem, *shape, copy);
}

} // namespace histo::cuda
