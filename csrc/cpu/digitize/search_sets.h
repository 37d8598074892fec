// Searches with the vectors of each instruction set: for float, double, Float16 and BFloat16.
#pragma once

#include "cpu/digitize/search.h"

namespace histo::cpu {

namespace avx512 {
template <class Search, class T, class Out>
void search(const Search& of, const SlotRule& rule, const Searched<T>& values, Out* slots);
}
namespace avx2 {
template <class Search, class T, class Out>
void search(const Search& of, const SlotRule& rule, const Searched<T>& values, Out* slots);
}

/// Instantiates a search, or all searches, of a type, with slots of each size.
#define HISTO_SEARCH_TO(Search, T, Out) \
  template void search(const Search<ComparedAs<T>>&, const SlotRule&, const Searched<T>&, Out*);
#define HISTO_SEARCH(Search, T)        \
  HISTO_SEARCH_TO(Search, T, uint8_t)  \
  HISTO_SEARCH_TO(Search, T, uint16_t) \
  HISTO_SEARCH_TO(Search, T, uint32_t)
#define HISTO_SEARCHES_OF_INTEGERS(T) HISTO_SEARCH(ChannelSearch, T) HISTO_SEARCH(ColumnSearch, T)
#define HISTO_SEARCHES(T)        \
  HISTO_SEARCHES_OF_INTEGERS(T)  \
  HISTO_SEARCH(UniformSearch, T) \
  HISTO_SEARCH(UniformColumnSearch, T)

} // namespace histo::cpu
