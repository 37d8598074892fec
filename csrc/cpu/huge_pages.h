// Large results in huge pages.
#pragma once

#include <sys/mman.h>

#include <cstdint>

#include "cpu/tuning.h"

namespace histo::cpu {

/// Asks for huge pages if a result is large. With small ones, half of the time of a call would go
/// to page faults. It does no harm if the system has no such pages.
inline void advise_huge_pages([[maybe_unused]] void* result, [[maybe_unused]] int64_t bytes) {
#ifdef MADV_HUGEPAGE
  if (bytes >= tuning::kMinHugeBytes) {
    const auto begin = reinterpret_cast<uintptr_t>(result);
    const uintptr_t first = (begin + 4095) / 4096 * 4096;
    const uintptr_t end = begin + static_cast<uintptr_t>(bytes);
    (void)madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
  }
#endif
}

} // namespace histo::cpu
