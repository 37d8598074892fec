// The elements of a block: rows of one channel, or columns of words.
#pragma once

#include <algorithm>
#include <cstdint>

#include "../../numbers.h"
#include "../loads.cuh"
#include "../plan/edges.h"
#include "../shared.cuh"

namespace histo::cuda {

template <size_t kLoops>
__device__ __forceinline__ int64_t offset_in(const Extent (&loops)[kLoops], int64_t i) {
  int64_t offset = 0;
  for (int loop = kLoops - 1; loop > 0; --loop) {
    offset += i % loops[loop].size * loops[loop].stride;
    i /= loops[loop].size;
  }
  return offset + i * loops[0].stride;
}

/// Elements that follow each other: vec16s, of which a thread has several in flight, and single
/// elements at both ends.
template <int kThreads, class T, class F>
__device__ __forceinline__ void for_each_of_run(const T* begin, int64_t size, const F& f) {
  constexpr int kOfVec16 = 16 / sizeof(T);
  constexpr int kInFlight = 4;
  const auto beyond = static_cast<int64_t>(reinterpret_cast<uintptr_t>(begin) % 16 / sizeof(T));
  const int64_t head = min(beyond == 0 ? 0 : kOfVec16 - beyond, size);
  const int64_t vec16s = (size - head) / kOfVec16;
  const auto* data = reinterpret_cast<const uint4*>(begin + head);
  const auto use = [&](const uint4& vec16) {
    const T* elements = reinterpret_cast<const T*>(&vec16);
#pragma unroll
    for (int j = 0; j < kOfVec16; ++j) {
      f(elements[j]);
    }
  };
  int64_t i = threadIdx.x;
  for (; i + (kInFlight - 1) * kThreads < vec16s; i += kInFlight * kThreads) {
    uint4 loaded[kInFlight];
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      loaded[j] = load_once(data + i + j * kThreads);
    }
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      use(loaded[j]);
    }
  }
  for (; i < vec16s; i += kThreads) {
    use(load_once(data + i));
  }
  const int64_t tail = head + vec16s * kOfVec16;
  const int64_t single = threadIdx.x < head ? threadIdx.x : tail + (threadIdx.x - head);
  if (single < size && (single < head || single >= tail)) {
    f(begin[single]);
  }
}

/// The channel and the rows of this block.
template <class T>
struct StreamOfBlock {
  const ChannelStreams& in;
  int64_t channel;
  int64_t begin;
  int64_t end;
  const T* data; // the channel's

  __device__ __forceinline__ StreamOfBlock(const T* all, const ChannelStreams& streams)
      : in(streams) {
    channel = blockIdx.x / in.chunks;
    begin = blockIdx.x % in.chunks * in.share;
    end = min(begin + in.share, in.num_rows);
    data = all + offset_in(in.channels, channel);
  }

  template <int kThreads, class F>
  __device__ __forceinline__ void for_each(const F& f) const {
    if (!in.has_runs) {
      for (int64_t row = begin + threadIdx.x; row < end; row += kThreads) {
        f(data[offset_in(in.rows, row)]);
      }
      return;
    }
    for (int64_t row = begin; row < end;) {
      const int64_t size = min(in.rows[2].size - row % in.rows[2].size, end - row);
      for_each_of_run<kThreads>(data + offset_in(in.rows, row), size, f);
      row += size;
    }
  }
};

/// The words of a column of this block's stripe.
template <class T>
struct ColumnOfThread {
  static constexpr int kOfWord = sizeof(T) < 4 ? 4 / sizeof(T) : 1;
  using Word = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

  const ChannelColumns& in;
  const T* data;      // of the batch
  int64_t batch;
  int64_t column;     // the first of the word
  bool has_words;
  unsigned chunk;
  unsigned word;      // of the stripe
  unsigned first_row; // of the thread
  unsigned row_step;

  __device__ __forceinline__ ColumnOfThread(
      const T* all, const ChannelColumns& columns, unsigned threads)
      : in(columns) {
    // Neighbouring blocks read the same rows.
    const unsigned stripe = blockIdx.x % in.stripes;
    chunk = blockIdx.x / in.stripes % in.chunks;
    batch = blockIdx.x / in.stripes / in.chunks;
    data = all + batch * in.batch_stride;
    word = threadIdx.x & ((1u << in.log_words) - 1);
    column = ((int64_t{stripe} << in.log_words) + word) * kOfWord;
    has_words = column < in.columns;
    first_row = threadIdx.x >> in.log_words;
    row_step = threads >> in.log_words;
  }

  __device__ __forceinline__ int64_t channel(int of_word) const {
    return batch * in.channels + (column + of_word) % in.channels;
  }

  /// Calls f(element, which of the word).
  template <int kThreads, class F>
  __device__ __forceinline__ void for_each(const F& f) const {
    constexpr int kInFlight = sizeof(T) == 8 ? 4 : 8;
    const int64_t end = min((int64_t{chunk} + 1) * in.share, in.rows);
    int64_t row = chunk * in.share + first_row;
    const int64_t step = row_step * in.row_stride;
    const T* next = data + row * in.row_stride + column;
    const auto use = [&](Word loaded) {
      const T* elements = reinterpret_cast<const T*>(&loaded);
#pragma unroll
      for (int j = 0; j < kOfWord; ++j) {
        f(elements[j], j);
      }
    };
    if (has_words) {
      for (; row + (kInFlight - 1) * row_step < end; row += kInFlight * row_step) {
        Word loaded[kInFlight];
#pragma unroll
        for (int j = 0; j < kInFlight; ++j) {
          loaded[j] = load_once(reinterpret_cast<const Word*>(next + j * step));
        }
#pragma unroll
        for (int j = 0; j < kInFlight; ++j) {
          use(loaded[j]);
        }
        next += kInFlight * step;
      }
      for (; row < end; row += row_step, next += step) {
        use(load_once(reinterpret_cast<const Word*>(next)));
      }
      if (chunk + 1 == in.chunks && first_row == 0) {
        for (int j = 0; j < kOfWord && column + j < in.left; ++j) {
          f(data[in.rows * in.row_stride + column + j], j);
        }
      }
    }
  }
};

} // namespace histo::cuda
