// Searches with the vectors of each instruction set: for float, double, Float16 and BFloat16.
#pragma once

#include "cpu/digitize/search.h"

namespace histo::cpu {

#define HISTO_DECLARE_SEARCHES                                                                   \
  template <class T, class Out>                                                                  \
  void search(                                                                                   \
      const ChannelSearch<ComparedAs<T>>& of, const SlotRule& rule, const T* data, int64_t size, \
      Out* slots);                                                                               \
  template <class T, class Out>                                                                  \
  void search(                                                                                   \
      const ColumnSearch<ComparedAs<T>>& of, const SlotRule& rule, const T* data, int64_t size,  \
      Out* slots);
namespace avx512 {
HISTO_DECLARE_SEARCHES
}
namespace avx2 {
HISTO_DECLARE_SEARCHES
}
#undef HISTO_DECLARE_SEARCHES

/// Instantiates the searches of a type, with slots of each size.
#define HISTO_SEARCHES_TO(T, Out)                                                     \
  template void search(                                                               \
      const ChannelSearch<ComparedAs<T>>&, const SlotRule&, const T*, int64_t, Out*); \
  template void search(                                                               \
      const ColumnSearch<ComparedAs<T>>&, const SlotRule&, const T*, int64_t, Out*);
#define HISTO_SEARCHES(T) \
  HISTO_SEARCHES_TO(T, uint8_t) HISTO_SEARCHES_TO(T, uint16_t) HISTO_SEARCHES_TO(T, uint32_t)

} // namespace histo::cpu
