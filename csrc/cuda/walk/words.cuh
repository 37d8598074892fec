// Words that a thread reads one after another, while several more are in flight.
#pragma once

#include <cstdint>

#include "cuda/walk/loads.cuh"

namespace histo::cuda {

/// How a kernel reads.
template <int kTheThreads, int kTheBlocks, int kTheInFlight, int kTheGroup = 0>
struct ReadShape {
  static constexpr int kThreads = kTheThreads;
  static constexpr int kBlocks = kTheBlocks;     // of a multiprocessor
  static constexpr int kInFlight = kTheInFlight; // loads of a thread
  // If what is done with a load is long: so many loads share code that is there once.
  static constexpr int kGroup = kTheGroup;
};

/// Words that lie `step` bytes apart.
template <class TheWord>
struct EvenWords {
  using Word = TheWord;
  const char* next;
  int64_t step;

  /// Word i from here.
  __device__ __forceinline__ Word load(int i) const {
    return load_once(reinterpret_cast<const Word*>(next + i * step));
  }
  __device__ __forceinline__ void skip(int count) {
    next += count * step;
  }
};

/// Calls f(words) with groups of kSize words, while kAhead groups more are in flight. The code of f,
/// which may be long, is there once.
template <int kSize, int kAhead, class Words, class F>
__device__ __forceinline__ void for_each_group(Words& words, int groups, const F& f) {
  using Word = typename Words::Word;
  Word ahead[kAhead][kSize];
  const auto load = [&](Word(&group)[kSize]) {
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      group[j] = words.load(j);
    }
    words.skip(kSize);
  };
#pragma unroll
  for (int k = 0; k < kAhead; ++k) {
    if (k < groups) {
      load(ahead[k]);
    }
  }
#pragma unroll 1
  for (; groups > 0; --groups) {
    Word group[kSize];
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      group[j] = ahead[0][j];
#pragma unroll
      for (int k = 0; k < kAhead - 1; ++k) {
        ahead[k][j] = ahead[k + 1][j];
      }
    }
    if (groups > kAhead) {
      load(ahead[kAhead - 1]);
    }
    f(group);
  }
}

/// The same with single words. Those that fill no group, which have the code of f again, are the
/// first that are loaded, and the last that f gets.
template <class Shape, class Words, class F>
__device__ __forceinline__ void for_each_word_in_groups(Words words, int count, const F& f) {
  constexpr int kGroup = Shape::kGroup;
  typename Words::Word left[kGroup];
#pragma unroll
  for (int j = 0; j < kGroup - 1; ++j) {
    if (j < count % kGroup) {
      left[j] = words.load(j);
    }
  }
  words.skip(count % kGroup);
  for_each_group<kGroup, Shape::kInFlight / kGroup>(words, count / kGroup, [&](const auto& group) {
#pragma unroll
    for (int j = 0; j < kGroup; ++j) {
      f(group[j]);
    }
  });
  if constexpr (kGroup > 1) {
#pragma unroll 1
    for (int i = count % kGroup; i > 0; --i) {
      f(left[0]);
#pragma unroll
      for (int j = 0; j < kGroup - 2; ++j) {
        left[j] = left[j + 1];
      }
    }
  }
}

/// Calls f(word) with `count` words, while kInFlight are in flight.
template <int kInFlight, class Words, class F>
__device__ __forceinline__ void for_each_word_of_ring(Words words, int count, const F& f) {
  using Word = typename Words::Word;
  const auto load = [&](int i) { return words.load(i); };
  Word loaded[kInFlight];
#pragma unroll
  for (int j = 0; j < kInFlight; ++j) {
    if (j < count) {
      loaded[j] = load(j);
    }
  }
  // Each word is replaced by one of the next round as soon as it is counted.
  for (; count >= 2 * kInFlight; count -= kInFlight) {
    words.skip(kInFlight);
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      const Word word = loaded[j];
      loaded[j] = load(j);
      f(word);
    }
  }
#pragma unroll
  for (int j = 0; j < kInFlight; ++j) {
    if (j < count) {
      f(loaded[j]);
    }
  }
  for (int j = kInFlight; j < count; ++j) {
    f(load(j));
  }
}

/// Calls f(word) with `count` words. They are loaded in order, so `load` may step on by itself.
template <class Shape, class Words, class F>
__device__ __forceinline__ void for_each_word(const Words& words, int count, const F& f) {
  if constexpr (Shape::kGroup > 0) {
    for_each_word_in_groups<Shape>(words, count, f);
  } else {
    for_each_word_of_ring<Shape::kInFlight>(words, count, f);
  }
}

} // namespace histo::cuda
