// The bins of patterns. A pattern is the bits of a value as an unsigned integer. The engine knows
// values by their patterns, so no code is instantiated for each binning, nor for signed types.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/axis.h"
#include "core/problem.h"

namespace histo::cpu {

struct PatternAxis {
  int64_t num_bins;
  /// A pattern below it is its own bin. A pattern of several bytes that is not below it
  /// counts nowhere.
  int64_t own_bins;
  /// One-byte types: they are counted as they are, and the counts of bytes are mapped to bins.
  int64_t num_bytes;        // 256, or 0 for wider types
  int16_t bin_of_byte[256]; // kNoBin: counts nowhere
};

/// The number of patterns, from 0 on, that are in bins of their own number.
inline int64_t own_bins_of(ElementType type, int64_t num_bins) {
  return visit_element_type(type, [=](auto tag) {
    using T = typename decltype(tag)::type;
    uint64_t largest = 1; // of a bool
    if constexpr (!std::is_same_v<T, Boolean>) {
      largest = static_cast<uint64_t>(std::numeric_limits<T>::max());
    }
    const auto bins = static_cast<uint64_t>(num_bins);
    return static_cast<int64_t>(largest < bins ? largest + 1 : bins);
  });
}

inline PatternAxis pattern_axis(ElementType type, const ValueBinning& binning) {
  PatternAxis axis;
  axis.num_bins = binning.num_bins;
  axis.own_bins = own_bins_of(type, binning.num_bins);
  axis.num_bytes = is_one_byte(type) ? 256 : 0;
  for (int64_t byte = 0; byte < std::min(axis.own_bins, axis.num_bytes); ++byte) {
    axis.bin_of_byte[byte] = static_cast<int16_t>(byte);
  }
  const ByteAxis bytes = byte_axis(type, binning);
  for (int64_t byte = axis.own_bins; byte < axis.num_bytes; ++byte) {
    const int64_t bin = bytes.bin_of(static_cast<uint8_t>(byte));
    axis.bin_of_byte[byte] = static_cast<int16_t>(bin); // below 256
  }
  return axis;
}

inline PatternAxis pattern_axis(ElementType, const LetterBinning& binning) {
  PatternAxis axis{LetterBinning::num_bins, 0, 256, {}};
  for (int byte = 0; byte < 256; ++byte) {
    axis.bin_of_byte[byte] = static_cast<int16_t>(binning(static_cast<uint8_t>(byte)));
  }
  return axis;
}

/// Calls f(TypeTag<T>{}) with the unsigned type of patterns of this size in bytes.
template <class F>
decltype(auto) visit_pattern_type(int64_t bytes, const F& f) {
  switch (bytes) {
    case 1:
      return f(TypeTag<uint8_t>{});
    case 2:
      return f(TypeTag<uint16_t>{});
    case 4:
      return f(TypeTag<uint32_t>{});
    case 8:
      return f(TypeTag<uint64_t>{});
  }
  throw InternalError("visit_pattern_type: not the size of an element");
}

} // namespace histo::cpu
