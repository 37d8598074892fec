// Searches one by one, and the choice of the instruction set.
#include "cpu/digitize/search.h"

#include "cpu/digitize/search_loops.h"
#include "cpu/digitize/search_sets.h"
#include "cpu/processor.h"

namespace histo::cpu {
namespace {

/// A vector of one value.
template <class Key>
struct One {
  static constexpr int64_t kLanes = 1;
  using Values = Key;
  using Guesses = GuessOf<Key>;
  using Places = int32_t;

  template <class T>
  static Key load(const T* data) {
    return Number<T>::wide(*data);
  }
  static Guesses load_guesses(const Guesses* guesses) {
    return *guesses;
  }
  static Places load_places(const int32_t* places) {
    return *places;
  }
  template <class Out>
  static void store(Out* keys, Places places) {
    *keys = static_cast<Out>(places);
  }
  static Guesses all(Guesses value) {
    return value;
  }
  static Places all_places(int32_t place) {
    return place;
  }
  static Places add(Places a, Places b) {
    return a + b;
  }
  static Places lesser(Places a, Places b) {
    return std::min(a, b);
  }
  static Places greater(Places a, Places b) {
    return std::max(a, b);
  }
  static Places inverted(Places places) {
    return ~places;
  }
  static bool any_is_negative(Places places) {
    return places < 0;
  }
  static Guesses line(Key value, Guesses origin, Guesses scale, Guesses lift) {
    return Line<Guesses>{origin, scale, lift, 0}.at(static_cast<Guesses>(value));
  }
  /// NaN becomes the least.
  static Guesses clamped(Guesses line, Guesses least, Guesses most) {
    return histo::clamped(line, least, most);
  }
  static Places whole(Guesses line) {
    return static_cast<Places>(line);
  }
  /// How far a line is beyond its whole part.
  static Guesses beyond(Guesses line, Places whole) {
    return line - static_cast<Guesses>(whole);
  }
  static bool any_is_below(Guesses a, Guesses b) {
    return a < b;
  }
  static Places bit_buckets(Key value, const BitBuckets<Guesses>& bits) {
    return static_cast<Places>(bits.at(static_cast<Guesses>(value)));
  }
  static Places lookup(const int32_t* table, Places index) {
    return table[index];
  }
  /// The places, plus `width` where values reach the thresholds at the index.
  static Places step(Key value, const Key* thresholds, Places index, Places place, Places width) {
    return place + (value >= thresholds[index] ? width : 0);
  }
  static Places unless_nan(Key value, Places place, Places nan) {
    return is_nan(value) ? nan : place;
  }
};

template <class T>
constexpr bool kHasVectors = Number<T>::kIsFloat;

} // namespace

template <class T, class Out>
void search(
    const Search<SearchKey<T>>& of, const KeyRule& rule, const T* data, int64_t size, Out* keys) {
#ifdef __x86_64__
  if constexpr (kHasVectors<T>) {
    // Vectors have no buckets over the bits of doubles.
    const bool in_vectors = sizeof(SearchKey<T>) == 4 || of.buckets == nullptr || !of.over_bits;
    if (in_vectors && has_avx512()) {
      return avx512::search(of, rule, data, size, keys);
    }
    if (in_vectors && chosen_set() == InstructionSet::kAvx2) {
      return avx2::search(of, rule, data, size, keys);
    }
  }
#endif
  search_line<One<SearchKey<T>>>(of, rule, data, size, keys);
}

template <class T, class Out>
void search(
    const ColumnSearch<SearchKey<T>>& of,
    const KeyRule& rule,
    const T* data,
    int64_t size,
    Out* keys) {
#ifdef __x86_64__
  if constexpr (kHasVectors<T>) {
    if (has_avx512()) {
      return avx512::search(of, rule, data, size, keys);
    }
    if (chosen_set() == InstructionSet::kAvx2) {
      return avx2::search(of, rule, data, size, keys);
    }
  }
#endif
  search_columns<One<SearchKey<T>>>(of, rule, data, size, keys);
}

HISTO_SEARCHES(float)
HISTO_SEARCHES(double)
HISTO_SEARCHES(Float16)
HISTO_SEARCHES(BFloat16)
HISTO_SEARCHES(int64_t)
HISTO_SEARCHES(uint64_t)

} // namespace histo::cpu
