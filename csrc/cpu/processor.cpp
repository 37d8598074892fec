#include "cpu/processor.h"

#include <cstdlib>
#include <string_view>

#include "core/problem.h"

namespace histo::cpu {
namespace {

#ifdef __x86_64__

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

#else

InstructionSet best_set() {
  return InstructionSet::kPortable;
}

#endif

/// The answer that was measured for a processor, unless the user says how many bits counters have.
bool unless_wanted(bool measured, bool of_columns) {
  const char* variable = std::getenv("TORCH_HISTO_CPU_COUNTERS");
  const std::string_view wanted = variable != nullptr ? variable : "";
  return wanted == "16" ? true : wanted == "32" ? false : wanted == "mixed" ? of_columns : measured;
}

#ifdef __x86_64__
bool is_amd_with_avx512() {
  return __builtin_cpu_is("amd") && __builtin_cpu_supports("avx512f");
}
bool is_intel() {
  return __builtin_cpu_is("intel");
}
bool is_zen3_or_zen4() { // which are one family
  return __builtin_cpu_is("amdfam19h");
}
#else
constexpr bool is_amd_with_avx512() {
  return false;
}
constexpr bool is_intel() {
  return false;
}
constexpr bool is_zen3_or_zen4() {
  return false;
}
#endif

} // namespace

InstructionSet chosen_set() {
  static const InstructionSet best = best_set();
  return best;
}

const char* chosen_loops() {
  switch (chosen_set()) {
    case InstructionSet::kAvx512:
      return "avx512";
    case InstructionSet::kAvx2:
      return "avx2";
    case InstructionSet::kPortable:
      return "portable";
  }
  throw InternalError("chosen_loops: not an instruction set");
}

bool has_avx512() {
  return chosen_set() == InstructionSet::kAvx512;
}

bool forwards_16_bit_stores() {
  static const bool found = unless_wanted(is_amd_with_avx512() || is_intel(), true);
  return found;
}

bool disambiguates_memory() {
  static const bool found = unless_wanted(is_amd_with_avx512() && !is_zen3_or_zen4(), false);
  return found;
}

} // namespace histo::cpu
