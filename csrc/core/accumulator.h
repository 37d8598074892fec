// Accumulators: they say what a histogram keeps for a bin. Each names what one element adds (Step), what a block
// or thread keeps for a slot while it reads (Local), and what the result has (Total). How these are
// added stands beside the memory that they lie in: cuda/storage/accumulate.cuh.
#pragma once

#include <cstdint>

namespace histo {

/// Counts elements.
struct Count {
  struct Step {}; // each element adds one
  using Local = uint32_t;
  using Total = unsigned long long; // the type that atomics of a GPU take
};

} // namespace histo
