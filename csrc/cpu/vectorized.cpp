#include "vectorized.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <type_traits>

#ifdef __x86_64__
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "read_once.h"
#include "tuning.h"

namespace histo::cpu {
namespace {

#ifdef __x86_64__

enum class InstructionSet { kPortable, kAvx2, kAvx512, kAmx };

// The loops are plain C++, inlined here and so compiled once for each instruction set.
template <class Loop>
[[gnu::target("avx2")]] void run_avx2(const Loop& loop) {
  loop();
}

#ifdef __clang__ // which takes no width
#define HISTO_AVX512 "avx512f,avx512bw,avx512dq,avx512vl"
#else
#define HISTO_AVX512 "avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512"
#endif

template <class Loop>
[[gnu::target(HISTO_AVX512)]] void run_avx512(const Loop& loop) {
  loop();
}

/// Linux lets a process have AMX that asks for its registers, as PyTorch's own kernels do.
bool gets_amx() {
  constexpr unsigned kTilesAndBytes = 3U << 24;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__builtin_cpu_supports("avx512vbmi") || __get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 ||
      (d & kTilesAndBytes) != kTilesAndBytes) {
    return false;
  }
  constexpr long kRequestPermission = 0x1023; // of <asm/prctl.h>, where that is new enough
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

InstructionSet best_set() {
  const char* variable = std::getenv("TORCH_HISTO_CPU");
  const std::string_view wanted = variable != nullptr ? variable : "";
  if (wanted == "portable" || !__builtin_cpu_supports("avx2")) {
    return InstructionSet::kPortable;
  }
  const bool wide = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512vl");
  if (!wide || wanted == "avx2") {
    return InstructionSet::kAvx2;
  }
  return wanted != "avx512" && gets_amx() ? InstructionSet::kAmx : InstructionSet::kAvx512;
}

InstructionSet chosen_set() {
  static const InstructionSet best = best_set();
  return best;
}

#endif

template <class Loop>
void run_widest(const Loop& loop) {
#ifdef __x86_64__
  if (chosen_set() >= InstructionSet::kAvx512) {
    return run_avx512(loop);
  }
  if (chosen_set() == InstructionSet::kAvx2) {
    return run_avx2(loop);
  }
#endif
  loop();
}

} // namespace

const char* chosen_loops() {
#ifdef __x86_64__
  switch (chosen_set()) {
    case InstructionSet::kAmx:
      return "amx";
    case InstructionSet::kAvx512:
      return "avx512";
    case InstructionSet::kAvx2:
      return "avx2";
    case InstructionSet::kPortable:
      break;
  }
#endif
  return "portable";
}

bool has_avx512() {
#ifdef __x86_64__
  return chosen_set() >= InstructionSet::kAvx512;
#else
  return false;
#endif
}

bool has_amx() {
#ifdef __x86_64__
  return chosen_set() == InstructionSet::kAmx;
#else
  return false;
#endif
}

namespace {

/// Of a processor as it was measured, unless the user says how many bits counters have.
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

bool stores_narrow() {
  static const bool found = unless_wanted(is_amd_with_avx512() || is_intel(), true);
  return found;
}

bool foresees_stores() {
  static const bool found = unless_wanted(is_amd_with_avx512() && !is_zen3_or_zen4(), false);
  return found;
}

template <class T>
void make_indices(const T* values, int64_t size, int64_t num_bins, uint32_t* indices) {
  const auto most = static_cast<uint32_t>(num_bins + 1);
  run_widest([=]() __attribute__((always_inline)) {
    const uint32_t limit = most; // a copy: stores to indices could change the captured one
    for (int64_t i = 0; i < size; ++i) {
      // The sign is extended, so that a negative value is too large, or 0 when one is added.
      auto index = static_cast<uint32_t>(values[i]) + 1;
      if constexpr (sizeof(T) == 8) {
        index = static_cast<uint64_t>(values[i]) < limit ? index : 0;
      }
      // Compilers load a value for each of its uses, and another thread may write it between them:
      // the limit comes last, whatever has been compared.
      indices[i] = std::min(index, limit);
    }
  });
}

template <class Counter>
void fold_joint(const Counter* joint, uint32_t* counts) {
  run_widest([=]() __attribute__((always_inline)) {
    uint32_t firsts[256] = {};
    for (int second = 0; second < 256; ++second) {
      uint32_t sum = 0;
      for (int first = 0; first < 256; ++first) {
        const Counter count = joint[256 * second + first];
        firsts[first] += count;
        sum += count;
      }
      counts[second] = sum;
    }
    for (int first = 0; first < 256; ++first) {
      counts[first] += firsts[first];
    }
  });
}

namespace {

constexpr int kPairs = kPairBlock / 2;

/// The indices of a block.
[[gnu::always_inline]] inline void make_pairs(const uint8_t* data, uint16_t* indices) {
  const uint16_t zero = read_once(uint16_t{0});
  for (int i = 0; i < kPairs; ++i) {
    uint16_t both;
    std::memcpy(&both, data + 2 * i, sizeof both);
    const auto first = static_cast<uint16_t>(both & 0xff),
               second = static_cast<uint16_t>(both >> 8);
    const auto up = static_cast<uint16_t>((second - first) & 0xff);
    // Not first - second, which may be loaded again: the smaller of the two is at most 128.
    const auto down = static_cast<uint16_t>((zero - up) & 0xff);
    const uint16_t byte = up <= down ? first : second;
    indices[i] = static_cast<uint16_t>(std::min(up, down) << 8 | byte);
  }
}

} // namespace

int64_t count_pairs(const uint8_t* data, int64_t size, uint32_t* tables) {
  const int64_t blocks = size / kPairBlock;
  if (blocks == 0) {
    return 0;
  }
  run_widest([=]() __attribute__((always_inline)) {
    // Made one block ahead: what is to be counted does not wait for them.
    alignas(tuning::kLineBytes) uint16_t indices[2][kPairs];
    const uint8_t* next = data;
    make_pairs(next, indices[0]);
    for (int64_t block = 0; block < blocks; ++block) {
      __builtin_prefetch(next + tuning::kValuesAheadBytes);
      next += block + 1 < blocks ? kPairBlock : 0; // or the last is made again
      make_pairs(next, indices[(block + 1) % 2]);
      // They are loaded one by one, not taken out of vectors.
      __asm__ volatile("" ::: "memory");
      const uint16_t* made = indices[block % 2];
#pragma GCC unroll 32
      for (int i = 0; i < kPairs; ++i) {
        ++tables[i % tuning::kTablesOfPairs * kPairTableSize + made[i]];
      }
    }
  });
  return blocks * kPairBlock;
}

void fold_pairs(const uint32_t* tables, uint32_t* counts) {
  run_widest([=]() __attribute__((always_inline)) {
    uint32_t bytes[256] = {}, others[2 * 256] = {};
    for (int difference = 0; difference <= 128; ++difference) {
      const uint32_t* counters = tables + 256 * difference;
      for (int byte = 0; byte < 256; ++byte) {
        uint32_t count = 0;
        for (int table = 0; table < tuning::kTablesOfPairs; ++table) {
          count += counters[table * kPairTableSize + byte];
        }
        bytes[byte] += count;
        others[difference + byte] += count;
      }
    }
    for (int byte = 0; byte < 256; ++byte) {
      counts[byte] = bytes[byte] + others[byte] + others[byte + 256];
    }
  });
}

uint16_t bound_of(const uint16_t* counters, int64_t size) {
  uint16_t bits = 0;
  run_widest([=, &bits]() __attribute__((always_inline)) {
    uint16_t all = 0;
    for (int64_t i = 0; i < size; ++i) {
      all |= counters[i];
    }
    bits = all;
  });
  return bits;
}

uint32_t sum_of(const uint8_t* counters, int64_t size) {
  uint32_t sum = 0;
  run_widest([=, &sum]() __attribute__((always_inline)) {
    // A sum of differences takes a third of the instructions. No constant, or it is a plain sum.
    uint8_t zero = 0;
    __asm__("" : "+r"(zero));
    uint32_t all = 0;
    for (int64_t i = 0; i < size; ++i) {
      all += static_cast<uint32_t>(std::abs(counters[i] - zero));
    }
    sum = all;
  });
  return sum;
}

template void fold_joint(const uint8_t*, uint32_t*);
template void fold_joint(const uint16_t*, uint32_t*);
template void make_indices(const uint16_t*, int64_t, int64_t, uint32_t*);
template void make_indices(const int16_t*, int64_t, int64_t, uint32_t*);
template void make_indices(const uint32_t*, int64_t, int64_t, uint32_t*);
template void make_indices(const int32_t*, int64_t, int64_t, uint32_t*);
template void make_indices(const uint64_t*, int64_t, int64_t, uint32_t*);
template void make_indices(const int64_t*, int64_t, int64_t, uint32_t*);

} // namespace histo::cpu
