// In place of csrc/cuda/walk/loads.cuh: how a load goes through the caches makes no difference here.
#pragma once

#include "emulator/emulator.h"

namespace histo::cuda {

template <class T>
T load_once(const T* address) {
  return *address;
}
inline void copy_once(void* shared, const uint4* address) {
  *static_cast<uint4*>(shared) = *address;
}
inline void wait_for_copies() {
}
inline uint32_t load_past_l1(const uint32_t* address) {
  return *address;
}
inline uint32_t load_of_shared_line(const uint32_t* address) {
  return *address;
}
inline uint32_t load_acquire(const uint32_t* address) {
  // Others run only if nothing has changed: a block that does not wait for all of them is found out.
  static uint32_t seen = 0;
  if (emulated::load_acquired(address) == seen) {
    emulated::let_others_run();
  }
  seen = emulated::load_acquired(address);
  return seen;
}
inline void fetch_ahead(const void* address, uint32_t bytes) {
  const auto* words = static_cast<const uint32_t*>(address);
  for (const uint32_t end : {words[0], words[bytes / 4 - 1]}) { // it is memory that one may read
    asm volatile("" ::"r"(end));
  }
}
inline void fetch_line(const void* address) {
  asm volatile("" ::"r"(*static_cast<const uint16_t*>(address))); // it is memory that one may read
}
inline void discard_line(const void* line) {
  emulated::discard(line, 128);
}

} // namespace histo::cuda
