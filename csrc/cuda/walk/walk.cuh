// The elements of a block: rows of one channel, or columns of words.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/numbers.h"
#include "cuda/plan/channels.h"
#include "cuda/storage/shared.cuh"
#include "cuda/walk/words.cuh"

namespace histo::cuda {

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

/// Two elements of 16 bits.
struct Packed16 {
  uint32_t bits;
};

/// Neighbouring elements: four, or the two of a vec16 of 8-byte types.
template <class T, int kSize = std::min(16 / static_cast<int>(sizeof(T)), 4)>
struct Pack {
  T elements[kSize];
};

/// Calls f with the elements of a vec16: in pairs if they have 16 bits and f takes a Packed16, or
/// as a Pack of all, or as Pack<T>, if f takes that, or else one by one.
template <class T, class F>
__device__ __forceinline__ void for_each_of_vec16(const uint4& vec16, const F& f) {
  if constexpr (sizeof(T) == 2 && std::is_invocable_v<const F&, Packed16>) {
    f(Packed16{vec16.x});
    f(Packed16{vec16.y});
    f(Packed16{vec16.z});
    f(Packed16{vec16.w});
  } else if constexpr (std::is_invocable_v<const F&, Pack<T, 16 / sizeof(T)>>) {
    f(reinterpret_cast<const Pack<T, 16 / sizeof(T)>&>(vec16));
  } else if constexpr (std::is_invocable_v<const F&, Pack<T>>) {
    const auto* pack = reinterpret_cast<const Pack<T>*>(&vec16);
#pragma unroll
    for (size_t j = 0; j < 16 / sizeof(Pack<T>); ++j) {
      f(pack[j]);
    }
  } else {
    const T* elements = reinterpret_cast<const T*>(&vec16);
#pragma unroll
    for (size_t j = 0; j < 16 / sizeof(T); ++j) {
      f(elements[j]);
    }
  }
}

/// Calls f(element) with elements that follow each other. `blocks` blocks take vec16s in turns, so
/// that all multiprocessors read near the same address: that is faster by 3 %. The first block also
/// takes the single elements at both ends.
template <class Shape, class T, class F>
__device__ __forceinline__ void for_each_of_run(
    const T* begin, int64_t size, unsigned block, unsigned blocks, const F& f) {
  constexpr int kOfVec16 = 16 / sizeof(T);
  const auto beyond = static_cast<int64_t>(reinterpret_cast<uintptr_t>(begin) % 16 / sizeof(T));
  const int64_t head = min(beyond == 0 ? 0 : kOfVec16 - beyond, size);
  const int64_t vec16s = (size - head) / kOfVec16;
  const auto* data = reinterpret_cast<const uint4*>(begin + head);
  const int64_t first = int64_t{block} * Shape::kThreads + threadIdx.x;
  const int64_t step = int64_t{blocks} * Shape::kThreads;
  // A block has fewer than 2^32 elements.
  const int count = first < vec16s ? static_cast<int>((vec16s - first - 1) / step + 1) : 0;
  const auto* begin_of_thread = reinterpret_cast<const char*>(data + first);
  const int64_t step_bytes = step * int64_t{sizeof(uint4)};
  for_each_word<Shape>(
      EvenWords<uint4>{begin_of_thread, step_bytes}, count,
      [&](const uint4& vec16) { for_each_of_vec16<T>(vec16, f); });
  const int64_t tail = head + vec16s * kOfVec16;
  const int64_t single = first < head ? first : tail + (first - head);
  if (single < size && (single < head || single >= tail)) {
    f(begin[single]);
  }
}

/// Rows of a channel.
template <class T>
struct StreamOfBlock {
  const ChannelStreams& in;
  const T* data;  // the channel's
  unsigned chunk; // of its rows

  __device__ __forceinline__
  StreamOfBlock(const T* all, const ChannelStreams& streams, int64_t channel, unsigned block)
      : in(streams), data(all + offset_in(in.channels, channel)), chunk(block) {
  }

  /// The blocks of a channel share a single run in turns; else each has rows of its own.
  __device__ __forceinline__ bool in_turns() const {
    return in.has_runs && in.rows[2].size == in.num_rows;
  }

  /// Fetches the first elements of the run into L2.
  __device__ __forceinline__ void fetch_first() const {
    if (!in_turns() || threadIdx.x > 0) {
      return;
    }
    constexpr int64_t kVec16 = 16;
    const int64_t head = -reinterpret_cast<intptr_t>(data) & (kVec16 - 1);
    const int64_t vec16s = (in.num_rows * int64_t{sizeof(T)} - head) / kVec16;
    // The blocks share what all of them fetch.
    const int64_t size = min(kFetchedAhead / kVec16, vec16s / in.chunks);
    if (size > 0) {
      fetch_ahead(
          reinterpret_cast<const char*>(data) + head + chunk * size * kVec16,
          static_cast<uint32_t>(size * kVec16));
    }
  }

  template <class Shape, class F>
  __device__ __forceinline__ void for_each(const F& f) const {
    const int64_t run = in.rows[2].size;
    const int64_t begin = in_turns() ? 0 : chunk * in.share;
    const int64_t end = in_turns() ? run : min(begin + in.share, in.num_rows);
    if (!in.has_runs) {
      for (int64_t row = begin + threadIdx.x; row < end; row += Shape::kThreads) {
        f(data[offset_in(in.rows, row)]);
      }
      return;
    }
    for (int64_t row = begin; row < end;) {
      const int64_t size = min(run - row % run, end - row);
      for_each_of_run<Shape>(
          data + offset_in(in.rows, row), size, in_turns() ? chunk : 0, in_turns() ? in.chunks : 1,
          f);
      row += size;
    }
  }
};

/// The words of a column of this block's stripe.
template <class T, int kWordBytes = static_cast<int>(bytes_of_word(sizeof(T)))>
struct ColumnOfThread {
  static constexpr int kOfWord = kWordBytes / static_cast<int>(sizeof(T));
  using Element = T;
  using Word = std::conditional_t<kWordBytes == 8, uint64_t, uint32_t>;

  const ChannelColumns& in;
  const T* data; // of the batch
  int64_t batch;
  int64_t column; // the first of the word
  bool has_words;
  unsigned stripe; // of the batch
  unsigned chunk;
  unsigned word;      // of the stripe
  unsigned first_row; // of the thread
  unsigned row_step;

  __device__ __forceinline__
  ColumnOfThread(const T* all, const ChannelColumns& columns, unsigned threads)
      : ColumnOfThread(all, columns, threads, blockIdx.x) {
  }
  __device__ __forceinline__
  ColumnOfThread(const T* all, const ChannelColumns& columns, unsigned threads, unsigned block)
      : in(columns) {
    // Neighbouring blocks read the same rows.
    stripe = block % in.stripes;
    chunk = block / in.stripes % in.chunks;
    batch = block / in.stripes / in.chunks;
    place(all, threads);
  }

  /// The same of a chunk of a stripe of all batches.
  __device__ __forceinline__ ColumnOfThread(
      const T* all,
      const ChannelColumns& columns,
      unsigned threads,
      unsigned stripe_of_all,
      unsigned chunk_of_stripe)
      : in(columns) {
    stripe = stripe_of_all % in.stripes;
    chunk = chunk_of_stripe;
    batch = stripe_of_all / in.stripes;
    place(all, threads);
  }

  __device__ __forceinline__ void place(const T* all, unsigned threads) {
    data = all + batch * in.batch_stride;
    word = threadIdx.x & ((1u << in.log_words) - 1);
    column = ((int64_t{stripe} << in.log_words) + word) * kOfWord;
    has_words = column < in.columns;
    first_row = threadIdx.x >> in.log_words;
    row_step = threads >> in.log_words;
  }

  __device__ __forceinline__ int64_t first_column() const {
    return column - word * kOfWord;
  }

  /// Fetches the first rows into L2: for each thread so many as it reads at most.
  __device__ __forceinline__ void fetch_first(int words) const {
    const int64_t end = min((int64_t{chunk} + 1) * in.share, in.rows);
    const int64_t begin = chunk * in.share + first_row;
    for (int i = 0; i < words && has_words && word == 0 && begin + i * row_step < end; ++i) {
      fetch_line(data + (begin + i * row_step) * in.row_stride + column);
    }
  }

  /// Calls f(all elements of a word) for those of whole rows.
  template <class Shape, class F>
  __device__ __forceinline__ void for_each_pack(const F& f) const {
    const int64_t end = min((int64_t{chunk} + 1) * in.share, in.rows);
    const int64_t begin = chunk * in.share + first_row;
    const int64_t step = row_step * in.row_stride;
    const T* next = data + begin * in.row_stride + column;
    int count = has_words && begin < end ? static_cast<int>((end - begin - 1) / row_step + 1) : 0;
    // Few rows may be left, so all loads of a round are in flight together, and the last ones, too.
    for (; count > 0; count -= Shape::kInFlight) {
      Word words[Shape::kInFlight];
#pragma unroll
      for (int j = 0; j < Shape::kInFlight; ++j) {
        if (j < count) {
          words[j] = load_once(reinterpret_cast<const Word*>(next));
        }
        next += step;
      }
#pragma unroll
      for (int j = 0; j < Shape::kInFlight; ++j) {
        if (j < count) {
          f(reinterpret_cast<const Pack<T, kOfWord>&>(words[j]));
        }
      }
    }
  }

  /// Calls f(element, which of the word), or f(all elements of a word) if f takes these.
  template <class Shape, class F>
  __device__ __forceinline__ void for_each(const F& f) const {
    if (!has_words) {
      return;
    }
    for_each_word<Shape>(
        EvenWords<Word>{first_word(), step()}, count(), [&](Word word) { call(f, word); });
    for_each_left(f);
  }
  /// Calls f(elements, which of the word) with kRows elements of a column, or f(element, which).
  template <int kRows, int kAhead, class F>
  __device__ __forceinline__ void for_each_group_of_rows(const F& f) const {
    if (has_words) {
      for_each_group_of<kRows, kAhead>(EvenWords<Word>{first_word(), step()}, count(), f);
      for_each_left(f);
    }
  }

 protected:
  /// f(element, which of the word), or f(all elements) if f takes these.
  template <class F>
  __device__ __forceinline__ static void call(const F& f, Word word) {
    const auto& pack = reinterpret_cast<const Pack<T, kOfWord>&>(word);
    if constexpr (std::is_invocable_v<const F&, Pack<T, kOfWord>>) {
      f(pack);
    } else {
#pragma unroll
      for (int j = 0; j < kOfWord; ++j) {
        f(pack.elements[j], j);
      }
    }
  }
  /// Calls f(elements, which of the word) with kRows elements of a column of `count` words, or
  /// f(element, which).
  template <int kRows, int kAhead, class Words, class F>
  __device__ __forceinline__ static void for_each_group_of(
      const Words& words, int count, const F& f) {
    const int groups = count / kRows;
    Words next = words;
    for_each_group<kRows, kAhead>(next, groups, [&](const auto& group) {
      Pack<T, kOfWord> packs[kRows];
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        packs[i] = pack_of(group[i]);
      }
#pragma unroll
      for (int j = 0; j < kOfWord; ++j) {
        T elements[kRows];
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
          elements[i] = packs[i].elements[j];
        }
        f(elements, j);
      }
    });
#pragma unroll 1
    for (int i = groups * kRows; i < count; ++i) {
      call(f, words.load(i));
    }
  }
  __device__ __forceinline__ static Pack<T, kOfWord> pack_of(Word word) {
    return reinterpret_cast<const Pack<T, kOfWord>&>(word);
  }
  __device__ __forceinline__ int64_t begin() const {
    return chunk * in.share + first_row;
  }
  /// The words of the thread. A block has fewer than 2^31 rows.
  __device__ __forceinline__ int count() const {
    const int64_t end = min((int64_t{chunk} + 1) * in.share, in.rows);
    return begin() < end ? static_cast<int>((end - begin() - 1) / row_step + 1) : 0;
  }

 private:
  __device__ __forceinline__ const char* first_word() const {
    return reinterpret_cast<const char*>(data + begin() * in.row_stride + column);
  }
  /// The bytes between two rows of the thread.
  __device__ __forceinline__ int64_t step() const {
    return row_step * in.row_stride * static_cast<int64_t>(sizeof(T));
  }
  template <class F>
  __device__ __forceinline__ void for_each_left(const F& f) const {
    if (chunk + 1 == in.chunks && first_row == 0) {
#pragma unroll
      for (int j = 0; j < kOfWord; ++j) {
        if (column + j < in.left) {
          f(data[in.rows * in.row_stride + column + j], j);
        }
      }
    }
  }
};

} // namespace histo::cuda
