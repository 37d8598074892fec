// In place of csrc/cuda/shared.cuh.
#pragma once

#include "emulator.h"

namespace histo::cuda {

constexpr int kWarp = 32;

inline uint32_t address_of(const void* shared) {
  const auto* begin = static_cast<const uint8_t*>(emulated::dynamic_shared());
  return emulated::kFirstAddress +
         static_cast<uint32_t>(static_cast<const uint8_t*>(shared) - begin);
}

inline void add_shared(uint32_t address, uint32_t value) {
  auto* begin = static_cast<uint8_t*>(emulated::dynamic_shared());
  *reinterpret_cast<uint32_t*>(begin + (address - emulated::kFirstAddress)) += value;
}

} // namespace histo::cuda
