// Types of one byte are counted as raw bytes first.
#pragma once

#include "cuda/launch.h"
#include "cuda/plan/edge_plan.h"

namespace histo::cuda {

constexpr int kBytes = 256; // values

/// The counts of all bytes of all channels, [channels, 256].
unsigned long long* count_bytes(const Problem& problem, const Launch& launch);

/// Calls f(TypeTag<T>{}) with the type of elements of one byte.
template <class F>
void visit_byte_type(ElementType type, const F& f) {
  visit_number_type(type, [&](auto tag) {
    if constexpr (sizeof(typename decltype(tag)::type) == 1) {
      f(tag);
    } else {
      throw InternalError("visit_byte_type: not a type of one byte");
    }
  });
}

} // namespace histo::cuda
