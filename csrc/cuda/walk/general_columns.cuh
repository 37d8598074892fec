// Columns in rows of up to three loops, in words that need not be aligned.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/policy_edges.h"
#include "cuda/walk/walk.cuh"

namespace histo::cuda {

/// Words of two elements of 16 bits or of four bytes, `step` bytes apart, at the address of any element.
/// The last word of a row has only `size` elements: the first one stands in for the others, which may
/// lie outside the tensor.
template <class Element>
struct LooseWords {
  static constexpr int kOf = sizeof(uint32_t) / sizeof(Element);
  struct Word {
    uint32_t elements[kOf];

    __device__ __forceinline__ operator uint32_t() const {
      uint32_t word = elements[0];
#pragma unroll
      for (int j = 1; j < kOf; ++j) {
        word |= elements[j] << 8 * sizeof(Element) * j;
      }
      return word;
    }
  };
  const char* next;
  int64_t step;
  int size;

  __device__ __forceinline__ Word load(int i) const {
    const auto* row = reinterpret_cast<const Element*>(next + i * step);
    Word word;
#pragma unroll
    for (int j = 0; j < kOf; ++j) {
      const Element* element = row + (j < size ? j : 0);
      if constexpr (sizeof(Element) == 1) {
        word.elements[j] = *element;
      } else {
        word.elements[j] = load_once(element);
      }
    }
    return word;
  }
  __device__ __forceinline__ void skip(int count) {
    next += count * step;
  }
};

template <class Shape>
using GeneralReads =
    ReadShape<Shape::kThreads, Shape::kBlocks, std::min(Shape::kInFlight, kMostGeneralLoads)>;
template <class Shape>
using LooseReads = ReadShape<Shape::kThreads, Shape::kBlocks, kLooseLoads, kLooseGroup>;

/// The words of a column of this block's stripe. A thread reads items one after another, each with
/// rows that lie one step apart: see ChannelColumns::items.
template <class T>
struct GeneralColumn : ColumnOfThread<T> {
  using Base = ColumnOfThread<T>;
  using Base::Base;
  using typename Base::Word;

  /// Fetches the first rows into L2.
  __device__ __forceinline__ void fetch_first(int words) const {
    if (this->has_words && this->word == 0 && this->first_row < this->in.items()) {
      const Item item(*this, this->first_row);
      for (int i = 0; i < min(words, item.count); ++i) {
        fetch_line(item.first + i * item.step);
      }
    }
  }

  /// Calls f(element, which of the word), or f(all elements of a word) if f takes these.
  template <class Shape, class F>
  __device__ __forceinline__ void for_each(const F& f) const {
    const auto call = [&](Word word) { Base::call(f, word); };
    for_each_item([&](const auto& words, int count) {
      using Words = std::decay_t<decltype(words)>;
      constexpr bool kIsLoose = !std::is_same_v<Words, EvenWords<Word>>;
      for_each_word<std::conditional_t<kIsLoose, LooseReads<Shape>, GeneralReads<Shape>>>(
          words, count, call);
    });
  }
  /// Calls f(elements, which of the word) with kRows elements of a column, or f(element, which).
  template <int kRows, int kAhead, class F>
  __device__ __forceinline__ void for_each_group_of_rows(const F& f) const {
    for_each_item([&](const auto& words, int count) {
      Base::template for_each_group_of<kRows, kAhead>(words, count, f);
    });
  }
  template <class Shape, class F>
  __device__ __forceinline__ void for_each_pack(const F& f) const {
    for_each<Shape>(f);
  }

 private:
  /// Calls f(words, how many) with each item of the thread.
  template <class F>
  __device__ __forceinline__ void for_each_item(const F& f) const {
    if (!this->has_words) {
      return;
    }
#pragma unroll 1
    for (unsigned i = this->first_row; i < this->in.items(); i += this->row_step) {
      const Item item(*this, i);
      if constexpr (sizeof(T) <= 2) {
        if (this->in.loose) {
          using Element = typename UnsignedOf<sizeof(T)>::type;
          const auto left =
              static_cast<int>(min(this->in.columns - this->column, int64_t{Base::kOfWord}));
          f(LooseWords<Element>{item.first, item.step, left}, item.count);
          continue;
        }
      }
      f(EvenWords<Word>{item.first, item.step}, item.count);
    }
  }

  /// Every `steps`th row of the longest loop, at one place of the other loops.
  struct Item {
    const char* first;
    int64_t step; // bytes
    int count;

    __device__ __forceinline__ Item(const GeneralColumn& column, unsigned index) {
      const ChannelColumns& in = column.in;
      const unsigned place = index % in.places(), start = index / in.places();
      const auto inner = static_cast<unsigned>(in.runs[1].size);
      const int64_t begin = column.chunk * in.share + start;
      const int64_t end = min((int64_t{column.chunk} + 1) * in.share, in.rows);
      const T* data = column.data + column.column + begin * in.row_stride +
                      place % inner * in.runs[1].stride + place / inner * in.runs[0].stride;
      first = reinterpret_cast<const char*>(data);
      step = in.steps * in.row_stride * static_cast<int64_t>(sizeof(T));
      count = begin < end ? static_cast<int>((end - begin - 1) / in.steps + 1) : 0;
    }
  };
};

} // namespace histo::cuda
