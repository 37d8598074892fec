// The bins between edges. An edge becomes a threshold of each channel: the smallest value of the
// input's own type that reaches the edge. So the bin of a value is found by comparisons in that
// type, and nothing is rounded. A guess may come first; it is used only where it was checked.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/numbers.h"

namespace histo {

constexpr bool is_type_of_edges(ElementType type) {
  return type == ElementType::kFloat32 || type == ElementType::kFloat64 ||
         (is_integer(type) && type != ElementType::kBool);
}

/// The edges of a call: [channels, bins + 1], or [bins + 1] that all channels share. `part` gives
/// the edges of some of the bins.
struct Edges {
  const void* data;
  ElementType type; // float32, float64 or an integer
  int64_t bins;
  bool shared;
  int64_t of_channel; // edges of a channel
  int64_t first;      // the first of the part
  bool closed;        // the last bin holds its upper edge: it is the channel's last one

  static Edges all(const void* data, ElementType type, int64_t bins, bool shared) {
    if (!is_type_of_edges(type)) {
      throw InternalError("Edges: not a type of edges");
    }
    return {data, type, bins, shared, bins + 1, 0, true};
  }
  HISTO_HOST_DEVICE Edges part(int64_t first_bin, int64_t size) const {
    return {data, type, size, shared, of_channel, first_bin, first_bin + size == bins};
  }

  HISTO_HOST_DEVICE Real at(int64_t channel, int64_t k) const {
    const int64_t i = (shared ? 0 : channel * of_channel) + first + k;
    switch (type) {
      case ElementType::kUInt8:
        return real_of(int64_t{static_cast<const uint8_t*>(data)[i]});
      case ElementType::kInt8:
        return real_of(int64_t{static_cast<const int8_t*>(data)[i]});
      case ElementType::kUInt16:
        return real_of(int64_t{static_cast<const uint16_t*>(data)[i]});
      case ElementType::kInt16:
        return real_of(int64_t{static_cast<const int16_t*>(data)[i]});
      case ElementType::kUInt32:
        return real_of(int64_t{static_cast<const uint32_t*>(data)[i]});
      case ElementType::kInt32:
        return real_of(int64_t{static_cast<const int32_t*>(data)[i]});
      case ElementType::kUInt64:
        return real_of(static_cast<const uint64_t*>(data)[i]);
      case ElementType::kInt64:
        return real_of(static_cast<const int64_t*>(data)[i]);
      case ElementType::kFloat32:
        return real_of(static_cast<const float*>(data)[i]);
      case ElementType::kFloat64:
        return real_of(static_cast<const double*>(data)[i]);
      default: // Edges::all has refused it; a trap here would cost the kernels registers
        return real_of(std::numeric_limits<double>::quiet_NaN());
    }
  }
};

/// Whether counts of values outside the bins are returned, too.
struct Flow {
  bool shown;

  /// Counts of a channel: the bins, or underflow, the bins, overflow and NaN.
  HISTO_HOST_DEVICE int64_t num_counts(int64_t bins) const {
    return bins + (shown ? 3 : 0);
  }
};

// A value is known by how many of the bins + 1 thresholds it reaches. 0 is underflow, 1 the first
// bin, bins the last one, bins + 1 overflow. That is its slot among the counts with flow; NaN has
// the slot bins + 2. Without flow slots are one less, and what is outside is not counted.

/// The smallest value of type T that reaches an edge; the last edge of a channel is reached by
/// what is beyond it, so that its own value is in the last bin. An edge that no value reaches has
/// a value that comparisons never find reached: NaN. Integers have none: they need `exists`.
template <class T>
struct Thresholds {
  using Order = Number<T>;
  using Wide = typename Order::Wide;
  using Ordinal = typename Order::Ordinal;

  /// The number of the smallest value that reaches the edge, or kLast with `exists` false.
  HISTO_HOST_DEVICE static Ordinal ordinal(Real edge, bool is_closed, bool& exists) {
    exists = false;
    if (is_nan(edge.high)) {
      return Order::kLast;
    }
    const Ordinal near = Order::ordinal_near(edge);
    if constexpr (Order::kIsFloat) {
      const auto wide = static_cast<Wide>(edge.high);
      if (edge.low == 0 && static_cast<double>(wide) == edge.high) { // which takes less time
        return search(near, wide, is_closed, exists);
      }
    }
    return search(near, edge, is_closed, exists);
  }
  HISTO_HOST_DEVICE static Wide value(Ordinal ordinal, bool exists) {
    if constexpr (Order::kIsFloat) {
      return exists ? Order::wide_at(ordinal) : std::numeric_limits<Wide>::quiet_NaN();
    } else {
      return Order::wide_at(ordinal);
    }
  }

 private:
  /// `edge` is a Wide or a Real.
  template <class E>
  HISTO_HOST_DEVICE static Ordinal search(Ordinal ordinal, E edge, bool is_closed, bool& exists) {
    exists = reaches(ordinal, edge, is_closed);
    while (!exists && ordinal < Order::kLast) {
      exists = reaches(++ordinal, edge, is_closed);
    }
    while (exists && ordinal > Order::kFirst && reaches(ordinal - 1, edge, is_closed)) {
      --ordinal;
    }
    return ordinal;
  }
  template <class E>
  HISTO_HOST_DEVICE static bool reaches(Ordinal ordinal, E edge, bool is_closed) {
    if constexpr (std::is_same_v<E, Real>) {
      const Real value = real_of(Order::wide_at(ordinal));
      return is_closed ? is_below(edge, value) : is_at_most(edge, value);
    } else {
      const Wide value = Order::wide_at(ordinal);
      return is_closed ? edge < value : edge <= value;
    }
  }
};

/// An integer or float as the nearest float that is not above, or not below it.
template <class To, class Wide>
HISTO_HOST_DEVICE To rounded_down(Wide value) {
  const To to = static_cast<To>(value);
  return is_at_most(real_of(to), real_of(value))
             ? to
             : Number<To>::wide_at(Number<To>::ordinal_of(to) - 1);
}
template <class To, class Wide>
HISTO_HOST_DEVICE To rounded_up(Wide value) {
  const To to = static_cast<To>(value);
  return is_at_most(real_of(value), real_of(to))
             ? to
             : Number<To>::wide_at(Number<To>::ordinal_of(to) + 1);
}

} // namespace histo
