// Another thread may write elements while they are counted. Counts may then be anything, but all
// indices must lie inside their tables.
#pragma once

#include <cstdint>

#include "core/problem.h"

namespace histo::cpu {

/// Makes the compiler load a value once, however often it is used. Otherwise it may load the value
/// twice, compare the first one, and use the second one as an index.
template <class T>
[[gnu::always_inline]] inline T read_once(T value) {
  __asm__ volatile("" : "+r"(value));
  return value;
}
[[gnu::always_inline]] inline Boolean read_once(Boolean value) {
  return {read_once(value.byte)};
}

} // namespace histo::cpu
