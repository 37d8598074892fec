// Parts of the channels of a problem, for which there is room at a time.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/problem.h"

namespace histo {

/// Calls f(part, its first channel) for parts of at most `most` channels, which are at least 1: several
/// whole inner loops, or a part of one.
template <class F>
void for_each_part(const Problem& problem, int64_t element_bytes, int64_t most, const F& f) {
  const Extent &outer = problem.channels[0], &inner = problem.channels[1];
  const int64_t of_inner = std::min(most, inner.size);
  const int64_t of_outer = std::min(most / of_inner, outer.size);
  for (int64_t i = 0; i < outer.size; i += of_outer) {
    for (int64_t j = 0; j < inner.size; j += of_inner) {
      Problem part = problem;
      part.data = static_cast<const uint8_t*>(problem.data) +
                  (i * outer.stride + j * inner.stride) * element_bytes;
      part.channels[0].size = std::min(of_outer, outer.size - i);
      part.channels[1].size = std::min(of_inner, inner.size - j);
      f(part, i * inner.size + j);
    }
  }
}

} // namespace histo
