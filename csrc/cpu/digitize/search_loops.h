// The loops of searches, for vectors of any set. A file that includes this one has a class for the
// vectors of each type of keys, and is compiled for their instruction set as a whole. So all names
// are of that file alone.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cpu/digitize/search.h"
#include "cpu/tuning.h"

namespace histo::cpu {
namespace {

/// Stores the keys of `size` elements: f(values, i) has those of the elements from i on.
template <class V, class T, class Out, class F>
void for_each_vector(const T* data, int64_t size, Out* keys, const F& f) {
  constexpr int64_t kLanes = V::kLanes;
  constexpr int64_t kLine = tuning::kLineBytes / static_cast<int64_t>(sizeof(T));
  constexpr int64_t kLines = 2; // searched at once
  constexpr int64_t kStep = std::max(kLines * kLine, kLanes);
  int64_t i = 0;
  for (; i + kStep <= size; i += kStep) {
    for (int64_t line = 0; line < kStep; line += kLine) {
      __builtin_prefetch(data + i + line + tuning::kSearchedAhead * kLine);
    }
    for (int64_t j = i; j < i + kStep; j += kLanes) {
      V::store(keys + j, f(V::load(data + j), j));
    }
  }
  for (; i + kLanes <= size; i += kLanes) {
    V::store(keys + i, f(V::load(data + i), i));
  }
  if (i < size) {
    T rest[kLanes] = {};
    Out found[kLanes];
    std::copy_n(data + i, size - i, rest);
    V::store(found, f(V::load(rest), i));
    std::copy_n(found, size - i, keys + i);
  }
}

/// A line and the limits of its values, in all lanes.
template <class V>
struct LineVectors {
  typename V::Guesses origin, scale, lift, least, most;

  template <class G>
  explicit LineVectors(const Line<G>& line, G most_place, G least_place = 0)
      : origin(V::all(line.origin)),
        scale(V::all(line.scale)),
        lift(V::all(line.lift)),
        least(V::all(least_place)),
        most(V::all(most_place)) {
  }
  typename V::Guesses at(typename V::Values values) const {
    return V::clamped(V::line(values, origin, scale, lift), least, most);
  }
};

/// Keys of places.
template <class V, class Key>
struct RuleVectors {
  typename V::Places offset, nan;

  explicit RuleVectors(const KeyRule& rule)
      : offset(V::all_places(rule.offset)), nan(V::all_places(rule.nan)) {
  }
  typename V::Places keys(
      typename V::Values values, typename V::Places places, typename V::Places limit) const {
    if constexpr (std::is_integral_v<Key>) {
      return V::add(V::lesser(places, limit), offset);
    } else {
      return V::unless_nan(values, V::add(places, offset), nan);
    }
  }
};

/// The line gives places. Vectors with a value close to the edge below its place are compared with
/// these edges. Most vectors have none, and loading thresholds takes long.
template <class V, class T, class Out>
void search_close(
    const Search<SearchKey<T>>& of, const KeyRule& rule, const T* data, int64_t size, Out* keys) {
  using G = GuessOf<SearchKey<T>>;
  const RuleVectors<V, SearchKey<T>> as(rule);
  const LineVectors<V> line(of.line, of.most, static_cast<G>(kEndOfSlots));
  const auto close = V::all(static_cast<G>(2 * kClose<Arithmetic::kHost>));
  const auto limit = V::all_places(of.limit), one = V::all_places(1), none = V::all_places(0);
  const auto* thresholds = of.thresholds;
  for_each_vector<V>(data, size, keys, [=](auto values, int64_t) {
    const auto at = line.at(values);
    auto places = V::whole(at);
    if (V::any_is_below(V::beyond(at, places), close)) {
      const auto edges = V::greater(V::add(places, V::all_places(-1)), none);
      places = V::step(values, thresholds, edges, edges, one);
    }
    return as.keys(values, places, limit);
  });
}

template <class V, class T, class Out>
void search_with_line(
    const Search<SearchKey<T>>& of, const KeyRule& rule, const T* data, int64_t size, Out* keys) {
  const LineVectors<V> line(of.line, of.most);
  const RuleVectors<V, SearchKey<T>> as(rule);
  const auto limit = V::all_places(of.limit);
  const auto* thresholds = of.thresholds;
  if (of.width == 0) {
    for_each_vector<V>(data, size, keys, [=](auto values, int64_t) {
      return as.keys(values, V::whole(line.at(values)), limit);
    });
    return;
  }
  const auto one = V::all_places(1);
  for_each_vector<V>(data, size, keys, [=](auto values, int64_t) {
    const auto places = V::whole(line.at(values));
    return as.keys(values, V::step(values, thresholds, places, places, one), limit);
  });
}

/// `bucket_of(values)` gives buckets.
template <class V, class T, class Out, class CellOf>
void search_in_cells(
    const Search<SearchKey<T>>& of,
    const KeyRule& rule,
    const T* data,
    int64_t size,
    Out* keys,
    const CellOf& bucket_of) {
  const RuleVectors<V, SearchKey<T>> as(rule);
  const auto limit = V::all_places(of.limit);
  const auto last = V::all_places(of.last);
  const auto* buckets = of.buckets;
  const auto* thresholds = of.thresholds;
  const int32_t first_width = of.width;
  for_each_vector<V>(data, size, keys, [=](auto values, int64_t) {
    const auto below = V::lookup(buckets, bucket_of(values));
    auto places = below;
    if (V::any_is_negative(below)) {
      places = V::greater(below, V::inverted(below));
      for (int32_t width = first_width; width > 0; width /= 2) {
        const auto end = V::lesser(V::add(places, V::all_places(width - 1)), last);
        places = V::step(values, thresholds, end, places, V::all_places(width));
      }
    }
    return as.keys(values, places, limit);
  });
}

template <class V, class T, class Out>
void search_line(
    const Search<SearchKey<T>>& of, const KeyRule& rule, const T* data, int64_t size, Out* keys) {
  if (of.only_close) {
    search_close<V>(of, rule, data, size, keys);
  } else if (of.buckets == nullptr) {
    search_with_line<V>(of, rule, data, size, keys);
  } else if (of.over_bits) {
    search_in_cells<V>(of, rule, data, size, keys, [bits = of.bits](auto values) {
      return V::bit_buckets(values, bits);
    });
  } else {
    const LineVectors<V> line(of.line, of.most);
    search_in_cells<V>(
        of, rule, data, size, keys, [line](auto values) { return V::whole(line.at(values)); });
  }
}

template <class V, class T, class Out>
void search_columns(
    const ColumnSearch<SearchKey<T>>& of,
    const KeyRule& rule,
    const T* data,
    int64_t size,
    Out* keys) {
  const auto least = V::all(0), most = V::all(of.most);
  const auto one = V::all_places(1);
  const RuleVectors<V, SearchKey<T>> as(rule);
  for_each_vector<V>(data, size, keys, [=](auto values, int64_t i) {
    const auto line = V::line(
        values, V::load_guesses(of.origins + i), V::load_guesses(of.scales + i),
        V::load_guesses(of.lifts + i));
    const auto places = V::whole(V::clamped(line, least, most));
    const auto index = V::add(places, V::load_places(of.bases + i));
    const auto reached = V::step(values, of.thresholds, index, places, one);
    return as.keys(values, reached, V::load_places(of.limits + i));
  });
}

} // namespace
} // namespace histo::cpu
