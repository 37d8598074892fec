// Searches one by one, and the choice of the instruction set.
#include "cpu/digitize/search.h"

#include "cpu/digitize/search_loops.h"
#include "cpu/digitize/search_sets.h"
#include "cpu/processor.h"

namespace histo::cpu {
namespace {

/// A vector of one value.
template <class Compared>
struct One {
  static constexpr int64_t kLanes = 1;
  using Values = Compared;
  using Guesses = GuessOf<Compared>;
  using Integers = int32_t;

  template <class T>
  static Compared load(const T* data) {
    return Number<T>::wide(*data);
  }
  template <class T>
  static Compared load_every(const T* data, int64_t) {
    return load(data);
  }
  static Guesses load_guesses(const Guesses* guesses) {
    return *guesses;
  }
  static Integers load_integers(const int32_t* integers) {
    return *integers;
  }
  template <class Out>
  static void store(Out* slots, Integers integers) {
    *slots = static_cast<Out>(integers);
  }
  static Guesses all(Guesses value) {
    return value;
  }
  static Integers all_integers(int32_t value) {
    return value;
  }
  static Integers add(Integers a, Integers b) {
    return a + b;
  }
  static Integers lesser(Integers a, Integers b) {
    return std::min(a, b);
  }
  static Integers greater(Integers a, Integers b) {
    return std::max(a, b);
  }
  static Integers inverted(Integers integers) {
    return ~integers;
  }
  static bool any_is_negative(Integers integers) {
    return integers < 0;
  }
  static Guesses line(Compared value, Guesses origin, Guesses scale, Guesses lift) {
    return Line<Guesses>{origin, scale, lift, 0}.at(static_cast<Guesses>(value));
  }
  /// NaN becomes the least.
  static Guesses clamped(Guesses line, Guesses least, Guesses most) {
    return histo::clamped(line, least, most);
  }
  static Integers whole(Guesses line) {
    return static_cast<Integers>(line);
  }
  /// How far a line is beyond its whole part.
  static Guesses beyond(Guesses line, Integers whole) {
    return line - static_cast<Guesses>(whole);
  }
  static bool any_is_below(Guesses a, Guesses b) {
    return a < b;
  }
  static Integers bit_buckets(Compared value, const BitBuckets<Guesses>& bits) {
    return static_cast<Integers>(bits.at(static_cast<Guesses>(value)));
  }
  static Integers lookup(const int32_t* table, Integers index) {
    return table[index];
  }
  /// How many are reached: `width` more where values reach the thresholds at the index.
  static Integers step(
      Compared value,
      const Compared* thresholds,
      Integers index,
      Integers reached,
      Integers width) {
    return reach(value, thresholds[index], reached, width);
  }
  /// `width` more where values reach these ends.
  static Integers reach(Compared value, Compared end, Integers reached, Integers width) {
    return reached + (value >= end ? width : 0);
  }
  /// The edges of such numbers.
  static Compared edge(Integers number, Guesses step, Guesses low) {
    return static_cast<Compared>(static_cast<Guesses>(number) * step + low);
  }
  static Compared in_float32(Compared value) {
    return static_cast<Compared>(static_cast<float>(value));
  }
  static Integers unless_above(Compared value, Compared last, Integers slot, Integers above) {
    return value > last ? above : slot;
  }
  static Integers unless_nan(Compared value, Integers slot, Integers nan) {
    return is_nan(value) ? nan : slot;
  }
};

/// Whether the loops over vectors take a search. They have no buckets over the bits of doubles.
template <class Search>
[[maybe_unused]] bool has_vectors(const Search&) {
  return true;
}
[[maybe_unused]] bool has_vectors(const ChannelSearch<double>& of) {
  return of.buckets == nullptr || !of.over_bits;
}

} // namespace

template <class Search, class T, class Out>
void search(const Search& of, const SlotRule& rule, const Searched<T>& values, Out* slots) {
#ifdef __x86_64__
  if constexpr (Number<T>::kIsFloat) {
    if (has_vectors(of)) {
      if (has_avx512()) {
        return avx512::search(of, rule, values, slots);
      }
      if (chosen_set() == InstructionSet::kAvx2) {
        return avx2::search(of, rule, values, slots);
      }
    }
  }
#endif
  search_with<One<ComparedAs<T>>>(of, rule, values, slots);
}

HISTO_SEARCHES(float)
HISTO_SEARCHES(double)
HISTO_SEARCHES(Float16)
HISTO_SEARCHES(BFloat16)
HISTO_SEARCHES_OF_INTEGERS(int64_t)
HISTO_SEARCHES_OF_INTEGERS(uint64_t)

} // namespace histo::cpu
