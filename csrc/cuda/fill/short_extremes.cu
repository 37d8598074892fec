// The extremes of channels of few rows: a thread takes a channel, or those of a word. Neighbouring
// threads read neighbouring channels, and no thread waits for another one.
#include <algorithm>

#include "cuda/axis/extremes.cuh"
#include "cuda/fill/extremes.h"

namespace histo::cuda {
namespace {

/// The ends of channels that a thread writes together.
template <class E, int kSize>
struct alignas(std::min<size_t>(kSize * sizeof(E), 16)) Ends {
  E ends[kSize];
};

/// Adds the next rows, all of which are in flight together. kIsFull: there are so many left.
template <int kRows, bool kIsFull, class Word, class T, class Found>
__device__ __forceinline__ void add_round(
    const T*& next, int64_t stride, int64_t left, Found& own) {
  Word words[kRows];
#pragma unroll
  for (int j = 0; j < kRows; ++j) {
    if (kIsFull || j < left) {
      words[j] = *reinterpret_cast<const Word*>(next);
    }
    next += stride;
  }
#pragma unroll
  for (int j = 0; j < kRows; ++j) {
    if (kIsFull || j < left) {
      if constexpr (sizeof(Word) == sizeof(T)) {
        own.add(bits_as<T>(words[j]));
      } else {
        own.add(words[j]);
      }
    }
  }
}

/// A thread reads all rows of a word of channels, or of one channel.
template <class T, class Word>
__global__ __launch_bounds__(kThreadsOfExtremes) void short_extremes_kernel(
    const T* __restrict__ data,
    const __grid_constant__ ChannelWords in,
    Widened widened,
    UniformEdgeOf<T>* __restrict__ low,
    UniformEdgeOf<T>* __restrict__ high) {
  constexpr int kOf = sizeof(Word) / sizeof(T), kRows = rows_of_round(sizeof(T));
  const int64_t index = int64_t{blockIdx.x} * kThreadsOfExtremes + threadIdx.x;
  if (index >= in.channels[0].size * in.words) {
    return;
  }
  const int64_t batch = in.channels[0].size == 1 ? 0 : index / in.words;
  data += batch * in.channels[0].stride + (index - batch * in.words) * kOf * in.channels[1].stride;
  const int64_t stride = in.rows[2].stride;
  std::conditional_t<kOf == 1, Extremes<T>, WordExtremes<T>> own;
  for (int64_t place = 0; place < in.places(); ++place) {
    const T* next = data + place / in.rows[1].size * in.rows[0].stride +
                    place % in.rows[1].size * in.rows[1].stride;
    int64_t left = in.rows[2].size;
#pragma unroll 1
    for (; left >= kRows; left -= kRows) {
      add_round<kRows, true, Word>(next, stride, left, own);
    }
#pragma unroll 1
    for (; left > 0; left -= kRowsOfLastRound) {
      add_round<kRowsOfLastRound, false, Word>(next, stride, left, own);
    }
  }
  Ends<UniformEdgeOf<T>, kOf> lows, highs;
#pragma unroll
  for (int j = 0; j < kOf; ++j) {
    Extremes<T> found;
    if constexpr (kOf == 1) {
      found = own;
    } else {
      found = own.at(j);
    }
    put_extremes(Team<true>::alone(), found, widened, &lows.ends[j], &highs.ends[j]);
  }
  reinterpret_cast<Ends<UniformEdgeOf<T>, kOf>*>(low)[index] = lows;
  reinterpret_cast<Ends<UniformEdgeOf<T>, kOf>*>(high)[index] = highs;
}

} // namespace

template <class E>
void find_short_extremes(
    const ChannelWords& in,
    const Problem& problem,
    Widened widened,
    E* low,
    E* high,
    const Launch& launch) {
  visit_number_type(problem.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using Word = typename WordExtremes<T>::Word;
    using Element = typename UnsignedOf<sizeof(T)>::type;
    if constexpr (std::is_same_v<E, UniformEdgeOf<T>>) {
      start(
          launch, "short_extremes",
          in.are_words ? short_extremes_kernel<T, Word> : short_extremes_kernel<T, Element>,
          grid_of(in.blocks()), dim3(kThreadsOfExtremes), 0, static_cast<const T*>(problem.data),
          in, widened, low, high);
    } else {
      throw InternalError("find_short_extremes: not the type of the edges");
    }
  });
}
template void find_short_extremes(
    const ChannelWords&, const Problem&, Widened, float*, float*, const Launch&);
template void find_short_extremes(
    const ChannelWords&, const Problem&, Widened, double*, double*, const Launch&);

} // namespace histo::cuda
