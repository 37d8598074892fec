// In place of csrc/cuda/pdl.cuh.
#pragma once

#include "emulator/emulator.h"

namespace histo::cuda {

inline void let_next_start() {
  emulated::let_next_start();
}
inline void wait_for_previous() {
  emulated::wait_for_previous();
}

} // namespace histo::cuda
