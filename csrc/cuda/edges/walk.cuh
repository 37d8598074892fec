// The elements of a block: rows of one channel, or columns of words.
#pragma once

#include <algorithm>
#include <cstdint>

#include "../../numbers.h"
#include "../loads.cuh"
#include "../plan/edges.h"
#include "../shared.cuh"

namespace histo::cuda {

/// How a kernel reads.
template <int kTheThreads, int kTheBlocks, int kTheInFlight>
struct ReadShape {
  static constexpr int kThreads = kTheThreads;
  static constexpr int kBlocks = kTheBlocks;     // of a multiprocessor
  static constexpr int kInFlight = kTheInFlight; // loads of a thread
};

template <size_t kLoops>
__device__ __forceinline__ int64_t offset_in(const Extent (&loops)[kLoops], int64_t i) {
  int64_t offset = 0;
#pragma unroll
  for (int loop = kLoops - 1; loop > 0; --loop) {
    // Divisions of 64 bits take long, and most problems need none.
    if (loops[loop - 1].size == 1 && (loop == 1 || loops[0].size == 1)) {
      return offset + i * loops[loop].stride;
    }
    offset += i % loops[loop].size * loops[loop].stride;
    i /= loops[loop].size;
  }
  return offset + i * loops[0].stride;
}

/// Elements that follow each other: vec16s, of which a thread has several in flight, and single
/// elements at both ends.
template <class Shape, class T, class F>
__device__ __forceinline__ void for_each_of_run(const T* begin, int64_t size, const F& f) {
  constexpr int kOfVec16 = 16 / sizeof(T);
  constexpr int kThreads = Shape::kThreads, kInFlight = Shape::kInFlight;
  constexpr int kRound = kInFlight * kThreads;
  const auto beyond = static_cast<int64_t>(reinterpret_cast<uintptr_t>(begin) % 16 / sizeof(T));
  const int64_t head = min(beyond == 0 ? 0 : kOfVec16 - beyond, size);
  const int64_t vec16s = (size - head) / kOfVec16;
  const auto* data = reinterpret_cast<const uint4*>(begin + head) + threadIdx.x;
  const auto use = [&](const uint4& vec16) {
    const T* elements = reinterpret_cast<const T*>(&vec16);
#pragma unroll
    for (int j = 0; j < kOfVec16; ++j) {
      f(elements[j]);
    }
  };
  int64_t left = vec16s - threadIdx.x; // from this thread's next vec16 on
  uint4 loaded[kInFlight];
#pragma unroll
  for (int j = 0; j < kInFlight; ++j) {
    if (j * kThreads < left) {
      loaded[j] = load_once(data + j * kThreads);
    }
  }
  // Each vec16 is replaced by one of the next round as soon as it is counted.
  for (; left > 2 * kRound - kThreads; left -= kRound) {
    data += kRound;
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      const uint4 vec16 = loaded[j];
      loaded[j] = load_once(data + j * kThreads);
      use(vec16);
    }
  }
#pragma unroll
  for (int j = 0; j < kInFlight; ++j) {
    if (j * kThreads < left) {
      use(loaded[j]);
    }
  }
  for (left -= kRound, data += kRound; left > 0; left -= kThreads, data += kThreads) {
    use(load_once(data));
  }
  const int64_t tail = head + vec16s * kOfVec16;
  const int64_t single = threadIdx.x < head ? threadIdx.x : tail + (threadIdx.x - head);
  if (single < size && (single < head || single >= tail)) {
    f(begin[single]);
  }
}

/// Rows of a channel.
template <class T>
struct StreamOfBlock {
  const ChannelStreams& in;
  int64_t begin;
  int64_t end;
  const T* data; // the channel's

  __device__ __forceinline__
  StreamOfBlock(const T* all, const ChannelStreams& streams, int64_t channel, unsigned chunk)
      : in(streams),
        begin(chunk * in.share),
        end(min(begin + in.share, in.num_rows)),
        data(all + offset_in(in.channels, channel)) {
  }

  template <class Shape, class F>
  __device__ __forceinline__ void for_each(const F& f) const {
    if (!in.has_runs) {
      for (int64_t row = begin + threadIdx.x; row < end; row += Shape::kThreads) {
        f(data[offset_in(in.rows, row)]);
      }
      return;
    }
    for (int64_t row = begin; row < end;) {
      const int64_t run = in.rows[2].size;
      const int64_t size = min(run == in.num_rows ? run - row : run - row % run, end - row);
      for_each_of_run<Shape>(data + offset_in(in.rows, row), size, f);
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
  const T* data; // of the batch
  int64_t batch;
  int64_t column; // the first of the word
  bool has_words;
  unsigned chunk;
  unsigned word;      // of the stripe
  unsigned first_row; // of the thread
  unsigned row_step;

  __device__ __forceinline__
  ColumnOfThread(const T* all, const ChannelColumns& columns, unsigned threads)
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
  template <class Shape, class F>
  __device__ __forceinline__ void for_each(const F& f) const {
    constexpr int kInFlight = Shape::kInFlight;
    const auto use = [&](Word loaded) {
      const T* elements = reinterpret_cast<const T*>(&loaded);
#pragma unroll
      for (int j = 0; j < kOfWord; ++j) {
        f(elements[j], j);
      }
    };
    if (!has_words) {
      return;
    }
    const int64_t end = min((int64_t{chunk} + 1) * in.share, in.rows);
    const int64_t begin = chunk * in.share + first_row;
    const int64_t step = row_step * in.row_stride;
    const T* next = data + begin * in.row_stride + column;
    const auto load = [&](int row) {
      return load_once(reinterpret_cast<const Word*>(next + row * step));
    };
    // Rows of this thread; a block has fewer than 2^31.
    int left = begin < end ? static_cast<int>((end - begin - 1) / row_step + 1) : 0;
    Word loaded[kInFlight];
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      if (j < left) {
        loaded[j] = load(j);
      }
    }
    for (; left >= 2 * kInFlight; left -= kInFlight) {
      next += kInFlight * step;
#pragma unroll
      for (int j = 0; j < kInFlight; ++j) {
        const Word word = loaded[j];
        loaded[j] = load(j);
        use(word);
      }
    }
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      if (j < left) {
        use(loaded[j]);
      }
    }
    for (int j = kInFlight; j < left; ++j) {
      use(load(j));
    }
    if (chunk + 1 == in.chunks && first_row == 0) {
      for (int j = 0; j < kOfWord && column + j < in.left; ++j) {
        f(data[in.rows * in.row_stride + column + j], j);
      }
    }
  }
};

} // namespace histo::cuda
