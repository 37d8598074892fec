// Elements that another thread may write while they are counted: then counts may be anything, but
// all indices are inside their tables.
#pragma once

#include <cstdint>

#include "../problem.h"

namespace histo::cpu {

/// The value of an element, or any other, that is loaded once however often it is used. Compilers
/// may load it again, and then what was compared and what becomes an index are two values.
template <class T>
[[gnu::always_inline]] inline T read_once(T value) {
  __asm__ volatile("" : "+r"(value));
  return value;
}
[[gnu::always_inline]] inline Boolean read_once(Boolean value) {
  return {read_once(value.byte)};
}

} // namespace histo::cpu
