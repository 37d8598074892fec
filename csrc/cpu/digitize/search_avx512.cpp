// Searches with AVX-512.
#ifdef __x86_64__

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "cpu/digitize/search_sets.h"
#include "cpu/intrinsics.h"

#ifdef __clang__
#pragma clang attribute push( \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl")
#endif

#define HISTO_SET avx512
#define HISTO_HAS_AVX512 1
#include "cpu/digitize/search_vectors.h"

#ifdef __clang__
#pragma clang attribute pop
#endif

#endif
