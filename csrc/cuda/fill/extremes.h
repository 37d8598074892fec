// The extremes of channels, as numbers of values in their order.
#pragma once

#include <limits>

#include "cuda/fill/fill.h"

namespace histo::cuda {

template <class Key>
HISTO_HOST_DEVICE bool is_finite(Key key) {
  if constexpr (std::is_floating_point_v<Key>) {
    return key >= std::numeric_limits<Key>::lowest() && key <= std::numeric_limits<Key>::max();
  } else {
    return true;
  }
}

/// A number that grows with the key: extremes are found among integers, which atomics take.
template <class T>
HISTO_HOST_DEVICE int64_t place_of_key(typename Number<T>::Key key) {
  using Key = typename Number<T>::Key;
  if constexpr (std::is_floating_point_v<Key>) {
    return Number<Key>::place_of(key);
  } else {
    return static_cast<int64_t>(
        static_cast<uint64_t>(key) - static_cast<uint64_t>(Number<Key>::key_at(0)));
  }
}
/// The key of such a number.
template <class T>
HISTO_HOST_DEVICE typename Number<T>::Key key_of_place(int64_t place) {
  return Number<typename Number<T>::Key>::key_at(place);
}

/// Types of one byte: lowers `lows` and raises `highs`, [channels].
void add_extremes_of_bytes(
    const Problem& problem, long long* lows, long long* highs, const Launch& launch);

} // namespace histo::cuda
