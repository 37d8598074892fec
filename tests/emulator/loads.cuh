// In place of csrc/cuda/loads.cuh: how a load goes through the caches makes no difference here.
#pragma once

#include "emulator.h"

namespace histo::cuda {

template <class T>
T load_once(const T* address) {
  return *address;
}
inline uint32_t load_past_first_cache(const uint32_t* address) {
  return *address;
}
inline uint32_t load_of_shared_line(const uint32_t* address) {
  return *address;
}
inline uint32_t load_acquire(const uint32_t* address) {
  emulated::let_others_run();
  return emulated::load_acquired(address);
}
inline void discard_line(const void* line) {
  emulated::discard(line, 128);
}

} // namespace histo::cuda
