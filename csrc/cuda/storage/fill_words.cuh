// Filling shared memory.
#pragma once

#include <cstdint>

namespace histo::cuda {

/// All threads of the block write one value to words, which are a multiple of 4, at an address that
/// is a multiple of 16. They must wait for each other before one reads or adds.
__device__ __forceinline__ void fill_words(uint32_t* memory, unsigned size, uint32_t value) {
  for (unsigned i = threadIdx.x; i < size / 4; i += blockDim.x) {
    reinterpret_cast<uint4*>(memory)[i] = make_uint4(value, value, value, value);
  }
}

} // namespace histo::cuda
