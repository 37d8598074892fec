// Searches: the keys of many values, found among the thresholds of their channels in vectors.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/locate.h"

namespace histo::cpu {

/// The type of comparisons. Integers of up to 32 bits are compared as floats, which hold them exactly:
/// processors compare and convert these in vectors.
template <class T>
constexpr bool kIsSmallInteger =
    !Number<T>::kIsFloat && (sizeof(T) <= 4 || std::is_same_v<T, Boolean>);
template <class T>
using SearchKey = std::conditional_t<
    kIsSmallInteger<T>,
    std::conditional_t<sizeof(T) <= 2, float, double>,
    typename Number<T>::Wide>;

/// The search of one channel. The line or the buckets give a place, and steps of `width`, half of it,
/// and so on to 1 follow: a step is taken if the value reaches the threshold at its end. Cells without
/// thresholds need no steps. With `only_close`, the line gives the place itself, and a value close to
/// the edge below it is compared with that edge.
template <class Key>
struct Search {
  using G = GuessOf<Key>;

  Line<G> line;
  G most; // of the line: a place, a place and a half (`only_close`), or a bucket
  BitBuckets<G> bits;
  bool over_bits; // buckets are those of the values' bits, not of the line
  const int32_t*
      buckets; // the thresholds below each bucket, inverted if it has any; null if the line
               // gives the place itself
  const Key* thresholds; // with one behind the last that no value reaches
  int32_t last;          // the index of that one
  int32_t limit;         // integers of 64 bits: the most thresholds that a value reaches
  int32_t width;         // 0: the place is right at once
  bool only_close;       // vectors without a value close to an edge are not compared
};

/// Searches of channels that lie side by side: lines that give a place, and a step of 1. There is
/// an element of each array for each of the values.
template <class Key>
struct ColumnSearch {
  using G = GuessOf<Key>;

  const G* origins;
  const G* scales;
  const G* lifts;
  const int32_t* bases; // the index of the channel's first threshold
  G most;
  const Key* thresholds;
  const int32_t* limits; // as in Search
};

/// The key of a value is the number of thresholds that it reaches plus `offset`, or that of NaN.
struct KeyRule {
  int32_t offset;
  int32_t nan;
};

/// Finds the keys of `size` values, with the chosen instruction set. T is float, double, Float16,
/// BFloat16, int64_t or uint64_t.
template <class T, class Out>
void search(
    const Search<SearchKey<T>>& of, const KeyRule& rule, const T* data, int64_t size, Out* keys);
template <class T, class Out>
void search(
    const ColumnSearch<SearchKey<T>>& of,
    const KeyRule& rule,
    const T* data,
    int64_t size,
    Out* keys);

} // namespace histo::cpu
