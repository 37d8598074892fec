// What a plan has to know about values and their bins.
#pragma once

#include <algorithm>
#include <type_traits>

#include "../../binning.h"
#include "../../problem.h"

namespace histo::cuda {

struct Keys {
  int64_t bytes;      // of an element
  int64_t values;     // a table has a row for each of the first so many; others have no bin
  bool rows_are_bins; // a value has the bin of its own number, and so has a row
};

/// For one-byte elements, whose raw bytes are counted.
template <class Binning>
int64_t end_of_bytes_with_bins(ElementType type, const Binning& binning) {
  int64_t end = 256;
  while (end > 1 && bin_of_byte(type, binning, static_cast<uint8_t>(end - 1)) == kNoBin) {
    --end;
  }
  return end;
}

template <class Binning>
Keys keys_of(ElementType type, const Binning& binning) {
  constexpr bool kValues = std::is_same_v<Binning, ValueBinning>;
  const int64_t bytes = visit_element_type(
      type, [](auto tag) { return int64_t{sizeof(typename decltype(tag)::type)}; });
  const int64_t of_type = type == ElementType::kInt16    ? int64_t{1} << 15
                          : type == ElementType::kUInt16 ? int64_t{1} << 16
                                                         : binning.num_bins;
  const bool is_raw = is_one_byte(type);
  return {
      bytes, is_raw ? end_of_bytes_with_bins(type, binning) : std::min(binning.num_bins, of_type),
      !is_raw || (kValues && type != ElementType::kBool)};
}

} // namespace histo::cuda
