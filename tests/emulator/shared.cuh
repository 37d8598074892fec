// In place of csrc/cuda/shared.cuh.
#pragma once

#include "emulator.h"

namespace histo::cuda {

constexpr int kWarp = 32;

inline uint32_t address_of(const void* shared) {
  return emulated::kFirstAddress +
         static_cast<uint32_t>(static_cast<const uint8_t*>(shared) - emulated::dynamic_shared());
}

inline void add_shared(uint32_t address, uint32_t value) {
  uint8_t* place = emulated::dynamic_shared() + (address - emulated::kFirstAddress);
  *reinterpret_cast<uint32_t*>(place) += value;
}

} // namespace histo::cuda
