// Searches: the slots of many values, found among the thresholds of their channels in vectors.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/locate.h"

namespace histo::cpu {

/// The type of comparisons. Integers of up to 32 bits are compared as floats, which hold them
/// exactly: processors compare and convert these in vectors.
template <class T>
constexpr bool kIsSmallInteger =
    !Number<T>::kIsFloat && (sizeof(T) <= 4 || std::is_same_v<T, Boolean>);
template <class T>
using ComparedAs = std::conditional_t<
    kIsSmallInteger<T>,
    std::conditional_t<sizeof(T) <= 2, float, double>,
    typename Number<T>::Wide>;

/// The search of one channel: how many of its thresholds a value reaches. The line or the buckets
/// give a number to begin with, and steps of `width`, half of it, and so on to 1 follow: a step is
/// taken if the value reaches the threshold at its end. Buckets without thresholds need no steps.
/// With `then_compare`, the line gives the number itself, and a value close to the edge below is
/// compared with that edge.
template <class Compared>
struct ChannelSearch {
  using G = GuessOf<Compared>;

  Line<G> line;
  G most; // of the line: a number of thresholds, that and a half (`then_compare`), or a bucket
  BitBuckets<G> bits;
  bool over_bits; // buckets are those of the values' bits, not of the line
  const int32_t*
      buckets; // the thresholds below each bucket, inverted if it has any; null if the line
               // gives the number itself
  const Compared* thresholds; // with one behind the last that no value reaches
  int32_t last;               // the index of that one
  int32_t limit;              // integers of 64 bits: the most thresholds that a value reaches
  int32_t width;              // 0: the number is right at once
  bool then_compare;          // vectors without a value close to an edge are not compared
};

/// Searches of channels that lie side by side: lines that give a number of thresholds, and a step
/// of 1. There is an element of each array for each of the values.
template <class Compared>
struct ColumnSearch {
  using G = GuessOf<Compared>;

  const G* origins;
  const G* scales;
  const G* lifts;
  const int32_t* bases; // the index of the channel's first threshold
  G most;
  const Compared* thresholds;
  const int32_t* limits; // as in ChannelSearch
};

/// The search of a channel whose bins have one width: the edge near a value is computed
/// (uniform_line.h), and compared with it.
template <class Compared>
struct UniformSearch {
  Compared low;
  Compared step;
  Compared scale;
  Compared last; // the last edge; larger values are overflow
  Compared most; // of a guess: bins - 0.5
  int32_t bins;
  bool edges_in_float32; // computed edges are rounded to it
};

/// The same of channels that lie side by side. There is an element of each array for each of the
/// values.
template <class Compared>
struct UniformColumnSearch {
  const Compared* lows;
  const Compared* steps;
  const Compared* scales;
  const Compared* lasts;
  Compared most;
  int32_t bins;
};

/// The slot of a value is the number of thresholds that it reaches plus `offset`; NaN has its own.
struct SlotRule {
  int32_t offset;
  int32_t nan;
};

/// Values that are searched where they are. is_searched_stride tells their strides.
template <class T>
struct Searched {
  const T* data;
  int64_t size;
  int64_t stride = 1;
};

/// Whether vectors of values at a stride are loaded: the coordinates of points in one tensor.
template <class T>
constexpr bool is_searched_stride(int64_t stride) {
  return stride == 1 || (std::is_same_v<T, ComparedAs<T>> && stride >= 2 && stride <= 4);
}

/// Finds the slots of values, with the chosen instruction set. Search is one of
/// the four above. T is a float type, or int64_t or uint64_t if bins have edges of their own. Out is
/// the unsigned type of a slot.
template <class Search, class T, class Out>
void search(const Search& of, const SlotRule& rule, const Searched<T>& values, Out* slots);

} // namespace histo::cpu
