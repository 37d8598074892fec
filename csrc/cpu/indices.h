// Values to indices of a table, vectorized for the processor at hand.
#pragma once

#include <cstdint>

namespace histo::cpu {

/// indices[i] = values[i] + 1 where 0 <= values[i] < num_bins, else 0. num_bins < 2^32.
/// Of the loops that the processor can run the widest is chosen, once; the environment
/// variable TORCH_HISTO_CPU=portable or =avx2 chooses a narrower one.
template <class T>
void make_indices(const T* values, int64_t size, int64_t num_bins, uint32_t* indices);

} // namespace histo::cpu
