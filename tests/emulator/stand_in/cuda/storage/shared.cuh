// In place of csrc/cuda/storage/shared.cuh.
#pragma once

#include "emulator/emulator.h"

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
inline uint32_t fetch_add_shared(uint32_t address, uint32_t value) {
  return emulated::add(reinterpret_cast<uint32_t*>(emulated::shared_pointer(address)), value);
}
inline uint32_t load_shared(uint32_t address) {
  return *reinterpret_cast<const uint32_t*>(emulated::shared_pointer(address));
}
template <class T>
void count_above(T value, T limit, uint32_t& above) {
  above += value > limit;
}
inline uint32_t signs_of_halves(uint32_t halves) {
  return (halves >> 31) * 0xffff0000 | (halves >> 15 & 1) * 0xffff;
}
inline void store_shared_if_below(uint32_t a, uint32_t b, uint32_t address, uint16_t value) {
  if (a < b) {
    emulated::store_half(reinterpret_cast<uint16_t*>(emulated::shared_pointer(address)), value);
  }
}

} // namespace histo::cuda
