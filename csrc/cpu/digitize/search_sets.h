// Searches with the vectors of each instruction set: for float, double, Float16 and BFloat16.
#pragma once

#include "cpu/digitize/search.h"

namespace histo::cpu {

#define HISTO_DECLARE_SEARCHES                                                                \
  template <class T, class Out>                                                               \
  void search(                                                                                \
      const Search<SearchKey<T>>& of, const KeyRule& rule, const T* data, int64_t size,       \
      Out* keys);                                                                             \
  template <class T, class Out>                                                               \
  void search(                                                                                \
      const ColumnSearch<SearchKey<T>>& of, const KeyRule& rule, const T* data, int64_t size, \
      Out* keys);
namespace avx512 {
HISTO_DECLARE_SEARCHES
}
namespace avx2 {
HISTO_DECLARE_SEARCHES
}
#undef HISTO_DECLARE_SEARCHES

/// Instantiates the searches of a type, with keys of each size.
#define HISTO_SEARCHES_TO(T, Out)                                                             \
  template void search(const Search<SearchKey<T>>&, const KeyRule&, const T*, int64_t, Out*); \
  template void search(const ColumnSearch<SearchKey<T>>&, const KeyRule&, const T*, int64_t, Out*);
#define HISTO_SEARCHES(T) \
  HISTO_SEARCHES_TO(T, uint8_t) HISTO_SEARCHES_TO(T, uint16_t) HISTO_SEARCHES_TO(T, uint32_t)

} // namespace histo::cpu
