// The loops of searches, for vectors of any set. A file that includes this one has a class for the
// vectors of each type that is compared, and is compiled for their instruction set as a whole. So
// all names are of that file alone.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cpu/digitize/search.h"
#include "cpu/tuning.h"

namespace histo::cpu {
namespace {

/// Stores the slots of `size` elements: f(values, i) has those of the elements from i on.
template <class V, class T, class Out, class F>
void for_each_vector(const Searched<T>& searched, Out* slots, const F& f) {
  const T* const data = searched.data;
  const int64_t size = searched.size, stride = searched.stride;
  constexpr int64_t kLanes = V::kLanes;
  constexpr int64_t kLine = tuning::kLineBytes / static_cast<int64_t>(sizeof(T));
  constexpr int64_t kLines = 2; // searched at once
  constexpr int64_t kStep = std::max(kLines * kLine, kLanes);
  const auto load = [=](int64_t i) { return V::load_every(data + i * stride, stride); };
  // A vector at a stride is loaded with what is behind its last value.
  const int64_t end = stride == 1 ? size : size - 1;
  // Each coordinate of points in one tensor fetches other lines, as many as if it were alone.
  const auto turn = static_cast<int64_t>(reinterpret_cast<uintptr_t>(data) / sizeof(T)) % stride;
  const T* const next = data + (tuning::kSearchedAhead * stride + turn) * kLine;
  int64_t i = 0;
  for (; i + kStep <= end; i += kStep) {
    for (int64_t line = i; line < i + kStep; line += kLine) {
      __builtin_prefetch(next + line * stride);
    }
    for (int64_t j = i; j < i + kStep; j += kLanes) {
      V::store(slots + j, f(load(j), j));
    }
  }
  for (; i + kLanes <= end; i += kLanes) {
    V::store(slots + i, f(load(i), i));
  }
  if (i < size) {
    T rest[kLanes] = {};
    Out found[kLanes];
    for (int64_t j = i; j < size; ++j) {
      rest[j - i] = data[j * stride];
    }
    V::store(found, f(V::load(rest), i));
    std::copy_n(found, size - i, slots + i);
  }
}

/// A line and the limits of its values, in all lanes.
template <class V>
struct LineVectors {
  typename V::Guesses origin, scale, lift, least, most;

  template <class G>
  explicit LineVectors(const Line<G>& line, G most_value, G least_value = 0)
      : origin(V::all(line.origin)),
        scale(V::all(line.scale)),
        lift(V::all(line.lift)),
        least(V::all(least_value)),
        most(V::all(most_value)) {
  }
  typename V::Guesses at(typename V::Values values) const {
    return V::clamped(V::line(values, origin, scale, lift), least, most);
  }
};

/// The slots of values that reach so many thresholds.
template <class V, class Compared>
struct SlotRuleVectors {
  typename V::Integers offset, nan;

  explicit SlotRuleVectors(const SlotRule& rule)
      : offset(V::all_integers(rule.offset)), nan(V::all_integers(rule.nan)) {
  }
  typename V::Integers slots(
      typename V::Values values, typename V::Integers reached, typename V::Integers limit) const {
    if constexpr (std::is_integral_v<Compared>) {
      return V::add(V::lesser(reached, limit), offset);
    } else {
      return V::unless_nan(values, V::add(reached, offset), nan);
    }
  }
};

/// The line gives how many thresholds values reach. Vectors with a value close to the last of these
/// are compared with them. Most vectors have none, and loading thresholds takes long.
template <class V, class T, class Out>
void search_then_compare(
    const ChannelSearch<ComparedAs<T>>& of,
    const SlotRule& rule,
    const Searched<T>& searched,
    Out* slots) {
  using G = GuessOf<ComparedAs<T>>;
  const SlotRuleVectors<V, ComparedAs<T>> as(rule);
  const LineVectors<V> line(of.line, of.most, static_cast<G>(kEndOfSlots));
  const auto close = V::all(static_cast<G>(2 * kClose<Arithmetic::kHost>));
  const auto limit = V::all_integers(of.limit), one = V::all_integers(1), none = V::all_integers(0);
  const auto* thresholds = of.thresholds;
  for_each_vector<V>(searched, slots, [=](auto values, int64_t) {
    const auto at = line.at(values);
    auto reached = V::whole(at);
    if (V::any_is_below(V::beyond(at, reached), close)) {
      const auto edges = V::greater(V::add(reached, V::all_integers(-1)), none);
      reached = V::step(values, thresholds, edges, edges, one);
    }
    return as.slots(values, reached, limit);
  });
}

template <class V, class T, class Out>
void search_affine(
    const ChannelSearch<ComparedAs<T>>& of,
    const SlotRule& rule,
    const Searched<T>& searched,
    Out* slots) {
  const LineVectors<V> line(of.line, of.most);
  const SlotRuleVectors<V, ComparedAs<T>> as(rule);
  const auto limit = V::all_integers(of.limit);
  const auto* thresholds = of.thresholds;
  if (of.width == 0) {
    for_each_vector<V>(searched, slots, [=](auto values, int64_t) {
      return as.slots(values, V::whole(line.at(values)), limit);
    });
    return;
  }
  const auto one = V::all_integers(1);
  for_each_vector<V>(searched, slots, [=](auto values, int64_t) {
    const auto nearest = V::whole(line.at(values));
    return as.slots(values, V::step(values, thresholds, nearest, nearest, one), limit);
  });
}

/// `bucket_of(values)` are the buckets of values.
template <class V, class T, class Out, class BucketOf>
void search_in_buckets(
    const ChannelSearch<ComparedAs<T>>& of,
    const SlotRule& rule,
    const Searched<T>& searched,
    Out* slots,
    const BucketOf& bucket_of) {
  const SlotRuleVectors<V, ComparedAs<T>> as(rule);
  const auto limit = V::all_integers(of.limit);
  const auto last = V::all_integers(of.last);
  const auto* buckets = of.buckets;
  const auto* thresholds = of.thresholds;
  const int32_t first_width = of.width;
  for_each_vector<V>(searched, slots, [=](auto values, int64_t) {
    const auto below = V::lookup(buckets, bucket_of(values));
    auto reached = below;
    if (V::any_is_negative(below)) {
      reached = V::greater(below, V::inverted(below));
      for (int32_t width = first_width; width > 0; width /= 2) {
        const auto end = V::lesser(V::add(reached, V::all_integers(width - 1)), last);
        reached = V::step(values, thresholds, end, reached, V::all_integers(width));
      }
    }
    return as.slots(values, reached, limit);
  });
}

template <class V, class T, class Out>
void search_with(
    const ChannelSearch<ComparedAs<T>>& of,
    const SlotRule& rule,
    const Searched<T>& searched,
    Out* slots) {
  if (of.then_compare) {
    search_then_compare<V>(of, rule, searched, slots);
  } else if (of.buckets == nullptr) {
    search_affine<V>(of, rule, searched, slots);
  } else if (of.over_bits) {
    search_in_buckets<V>(of, rule, searched, slots, [bits = of.bits](auto values) {
      return V::bit_buckets(values, bits);
    });
  } else {
    const LineVectors<V> line(of.line, of.most);
    search_in_buckets<V>(
        of, rule, searched, slots, [line](auto values) { return V::whole(line.at(values)); });
  }
}

template <class V, class T, class Out>
void search_with(
    const ColumnSearch<ComparedAs<T>>& of,
    const SlotRule& rule,
    const Searched<T>& searched,
    Out* slots) {
  const auto least = V::all(0), most = V::all(of.most);
  const auto one = V::all_integers(1);
  const SlotRuleVectors<V, ComparedAs<T>> as(rule);
  for_each_vector<V>(searched, slots, [=](auto values, int64_t i) {
    const auto line = V::line(
        values, V::load_guesses(of.origins + i), V::load_guesses(of.scales + i),
        V::load_guesses(of.lifts + i));
    const auto nearest = V::whole(V::clamped(line, least, most));
    const auto index = V::add(nearest, V::load_integers(of.bases + i));
    const auto reached = V::step(values, of.thresholds, index, nearest, one);
    return as.slots(values, reached, V::load_integers(of.limits + i));
  });
}

/// Constants in vectors, for the search in bins of one width: the same for all channels.
template <class V, class Compared>
struct UniformVectors {
  SlotRuleVectors<V, Compared> as;
  typename V::Guesses half, least, most;
  typename V::Integers one, overflow;

  UniformVectors(const SlotRule& rule, Compared most_guess, int32_t bins)
      : as(rule),
        half(V::all(Compared{0.5})),
        least(V::all(0)),
        most(V::all(most_guess)),
        one(V::all_integers(1)),
        overflow(V::all_integers(bins + 1)) {
  }
  /// The whole part of a guess is the number of an edge; it is reached, or the one before it is.
  typename V::Integers guess(
      typename V::Values values, typename V::Guesses low, typename V::Guesses scale) const {
    return V::whole(V::clamped(V::line(values, low, scale, half), least, most));
  }
  typename V::Integers slots(
      typename V::Values values,
      typename V::Values edges,
      typename V::Integers guess,
      typename V::Values last) const {
    const auto reached = V::reach(values, edges, guess, one);
    return as.slots(values, V::unless_above(values, last, reached, overflow), one);
  }
};

template <class V, class T, class Out>
void search_with(
    const UniformSearch<ComparedAs<T>>& of,
    const SlotRule& rule,
    const Searched<T>& searched,
    Out* slots) {
  const UniformVectors<V, ComparedAs<T>> common(rule, of.most, of.bins);
  const auto low = V::all(of.low), scale = V::all(of.scale), step = V::all(of.step);
  const auto last = V::all(of.last);
  if (of.edges_in_float32) {
    return for_each_vector<V>(searched, slots, [=](auto values, int64_t) {
      const auto guess = common.guess(values, low, scale);
      return common.slots(values, V::in_float32(V::edge(guess, step, low)), guess, last);
    });
  }
  for_each_vector<V>(searched, slots, [=](auto values, int64_t) {
    const auto guess = common.guess(values, low, scale);
    return common.slots(values, V::edge(guess, step, low), guess, last);
  });
}

template <class V, class T, class Out>
void search_with(
    const UniformColumnSearch<ComparedAs<T>>& of,
    const SlotRule& rule,
    const Searched<T>& searched,
    Out* slots) {
  const UniformVectors<V, ComparedAs<T>> common(rule, of.most, of.bins);
  for_each_vector<V>(searched, slots, [=](auto values, int64_t i) {
    const auto low = V::load_guesses(of.lows + i);
    const auto guess = common.guess(values, low, V::load_guesses(of.scales + i));
    const auto edges = V::edge(guess, V::load_guesses(of.steps + i), low);
    return common.slots(values, edges, guess, V::load_guesses(of.lasts + i));
  });
}

} // namespace
} // namespace histo::cpu
