// Memory that is given out in parts.
#pragma once

#include <cstdint>

#include "core/axis.h"

namespace histo::cuda {

/// Gives out parts of memory, one after another. All are aligned if the widest types come first.
class Room {
 public:
  HISTO_HOST_DEVICE explicit Room(void* memory) : next_(static_cast<unsigned char*>(memory)) {
  }
  template <class T>
  HISTO_HOST_DEVICE T* take(int64_t size) {
    T* part = reinterpret_cast<T*>(next_);
    next_ += size * static_cast<int64_t>(sizeof(T));
    return part;
  }

 private:
  unsigned char* next_;
};

} // namespace histo::cuda
