#include "indices.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <type_traits>

namespace histo::cpu {
namespace {

// The loop is plain C++, compiled once for each instruction set.
template <class T>
[[gnu::always_inline]] inline void make(
    const T* values, int64_t size, int64_t num_bins, uint32_t* indices) {
  using Unsigned = std::make_unsigned_t<T>;
  // One comparison refuses both ends: a negative value is a huge unsigned one. Bins that
  // the type cannot reach stay empty.
  constexpr auto kMax = static_cast<uint64_t>(std::numeric_limits<T>::max());
  const auto last = static_cast<Unsigned>(std::min(static_cast<uint64_t>(num_bins - 1), kMax));
  for (int64_t i = 0; i < size; ++i) {
    const auto value = static_cast<Unsigned>(values[i]);
    indices[i] = value <= last ? static_cast<uint32_t>(value) + 1 : 0;
  }
}

#ifdef __x86_64__

enum class InstructionSet { kPortable, kAvx2, kAvx512 };

template <class T>
[[gnu::target("avx2")]] void make_avx2(
    const T* values, int64_t size, int64_t num_bins, uint32_t* indices) {
  make(values, size, num_bins, indices);
}

template <class T>
[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")]] void make_avx512(
    const T* values, int64_t size, int64_t num_bins, uint32_t* indices) {
  make(values, size, num_bins, indices);
}

InstructionSet best_set() {
  const char* variable = std::getenv("TORCH_HISTO_CPU");
  const std::string_view wanted = variable != nullptr ? variable : "";
  if (wanted == "portable" || !__builtin_cpu_supports("avx2")) {
    return InstructionSet::kPortable;
  }
  const bool wide = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512vl");
  return wide && wanted != "avx2" ? InstructionSet::kAvx512 : InstructionSet::kAvx2;
}

#endif

} // namespace

template <class T>
void make_indices(const T* values, int64_t size, int64_t num_bins, uint32_t* indices) {
#ifdef __x86_64__
  static const InstructionSet best = best_set();
  if (best == InstructionSet::kAvx512) {
    return make_avx512(values, size, num_bins, indices);
  }
  if (best == InstructionSet::kAvx2) {
    return make_avx2(values, size, num_bins, indices);
  }
#endif
  make(values, size, num_bins, indices);
}

template void make_indices(const uint16_t*, int64_t, int64_t, uint32_t*);
template void make_indices(const int16_t*, int64_t, int64_t, uint32_t*);
template void make_indices(const uint32_t*, int64_t, int64_t, uint32_t*);
template void make_indices(const int32_t*, int64_t, int64_t, uint32_t*);
template void make_indices(const uint64_t*, int64_t, int64_t, uint32_t*);
template void make_indices(const int64_t*, int64_t, int64_t, uint32_t*);

} // namespace histo::cpu
