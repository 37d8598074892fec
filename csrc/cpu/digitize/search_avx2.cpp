// Searches with AVX2. All processors that have it convert 16-bit floats, too.
#ifdef __x86_64__

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "cpu/digitize/search_sets.h"
#include "cpu/intrinsics.h"

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,f16c"))), apply_to = function)
#else
#pragma GCC target("avx2,f16c")
#endif

#define HISTO_SET avx2
#define HISTO_HAS_AVX512 0
#include "cpu/digitize/search_vectors.h"

#ifdef __clang__
#pragma clang attribute pop
#endif

#endif
