// In place of csrc/cuda/shared.cuh.
#pragma once

#include "emulator.h"

namespace histo::cuda {

constexpr int kWarp = 32;

inline uint32_t address_of(const void* shared) {
  return emulated::shared_address(shared);
}
inline uint32_t count_shared(uint32_t address) {
  return emulated::add(reinterpret_cast<uint32_t*>(emulated::shared_pointer(address)), 1);
}
inline void add_shared(uint32_t address, uint32_t value) {
  emulated::add(reinterpret_cast<uint32_t*>(emulated::shared_pointer(address)), value);
}
inline void store_shared_if_below(uint32_t a, uint32_t b, uint32_t address, uint16_t value) {
  if (a < b) {
    emulated::store_half(reinterpret_cast<uint16_t*>(emulated::shared_pointer(address)), value);
  }
}

} // namespace histo::cuda
