// The elements of a channel whose blocks take them in turns, across the spans that it lies in.
#pragma once

#include <cstdint>

#include "cuda/plan/channels.h"
#include "cuda/walk/walk.cuh"

namespace histo::cuda {

/// The elements of a block. A thread has the same ones whenever it asks, so it may keep them.
template <class Bits, int kThreads, int kInFlight>
struct SpansOfBlock {
  static constexpr unsigned kOfVec16 = 16 / sizeof(Bits);

  const ChannelSpans& in;
  const Bits* data;   // the channel's first vec16, or its first element
  unsigned first;     // item of the thread
  unsigned total;     // items of the channel
  unsigned length;    // items of a span
  const Bits* single; // an element beside the vec16s, or null

  __device__ __forceinline__
  SpansOfBlock(const Bits* all, const ChannelSpans& spans, int64_t channel, unsigned block)
      : in(spans) {
    data = all + offset_in(in.channels, channel);
    first = block * kThreads + threadIdx.x;
    total = in.items;
    length = in.length;
    single = nullptr;
    if (in.has_vec16s && in.spans == 1) {
      // Vec16s begin where the address is a multiple of 16.
      const auto beyond = static_cast<unsigned>(reinterpret_cast<uintptr_t>(data) % 16);
      const unsigned rows = in.rows_of_span;
      const unsigned head = min((16 - beyond) % 16 / unsigned{sizeof(Bits)}, rows);
      total = length = (rows - head) / kOfVec16;
      const unsigned tail = head + total * kOfVec16;
      if (first < head) {
        single = data + first;
      } else if (tail + (first - head) < rows) {
        single = data + tail + (first - head);
      }
      data += head;
      length = max(length, 1u);
    }
  }

  __device__ __forceinline__ unsigned step() const {
    return in.chunks * kThreads;
  }
  /// The elements of all spans before one.
  __device__ __forceinline__ int64_t offset_of_span(unsigned span) const {
    return in.outer[0].size == 1 ? span * in.outer[1].stride : offset_in(in.outer, span);
  }

  /// Calls f(word, how many the thread had before), with a vec16 or an element. Several loads are in
  /// flight.
  template <class Word, class F>
  __device__ __forceinline__ void for_each_item(const F& f) const {
    const unsigned each = step(), spans_of_step = each / length, items_of_step = each % length;
    unsigned span = first / length, item = first % length, count = 0;
    for (unsigned i = first; i < total; i += kInFlight * each) {
      Word words[kInFlight];
#pragma unroll
      for (unsigned j = 0; j < kInFlight; ++j) {
        if (i + j * each < total) {
          const Bits* of_span = data + offset_of_span(span);
          if constexpr (std::is_same_v<Word, uint4>) {
            words[j] = load_once(reinterpret_cast<const uint4*>(of_span) + item);
          } else {
            words[j] = of_span[item * in.stride];
          }
        }
        item += items_of_step;
        span += spans_of_step + (item >= length);
        item -= item >= length ? length : 0;
      }
#pragma unroll
      for (unsigned j = 0; j < kInFlight; ++j) {
        if (i + j * each < total) {
          f(words[j], count + j);
        }
      }
      count += kInFlight;
    }
  }

  /// Keeps the items in shared memory.
  __device__ __forceinline__ void keep(unsigned char* kept) const {
    const auto with = [&](auto tag) {
      using Word = typename decltype(tag)::type;
      for_each_item<Word>([&](const Word& word, unsigned i) {
        reinterpret_cast<Word*>(kept)[i * kThreads + threadIdx.x] = word;
      });
    };
    in.has_vec16s ? with(TypeTag<uint4>{}) : with(TypeTag<Bits>{});
  }

  /// Calls f(element) with all of them, the kept ones if there are any.
  template <bool kKept, class F>
  __device__ __forceinline__ void for_each(const unsigned char* kept, const F& f) const {
    const auto with = [&](auto tag, const auto& of_word) {
      using Word = typename decltype(tag)::type;
      if constexpr (kKept) {
        const auto* words = reinterpret_cast<const Word*>(kept) + threadIdx.x;
        for (unsigned i = first; i < total; i += step()) {
          of_word(*words);
          words += kThreads;
        }
      } else {
        for_each_item<Word>([&](const Word& word, unsigned) { of_word(word); });
      }
    };
    if (in.has_vec16s) {
      with(TypeTag<uint4>{}, [&](const uint4& vec16) { for_each_of_vec16<Bits>(vec16, f); });
      if (single != nullptr) {
        f(*single);
      }
    } else {
      with(TypeTag<Bits>{}, f);
    }
  }
};

} // namespace histo::cuda
