// The tile registers of Intel's AMX, which hold and multiply matrices of bytes.
#pragma once

#include <cstdint>

#include "cpu/tuning.h"

#ifdef __x86_64__

namespace histo::cpu {

constexpr int kUppers = 8;  // values of the upper three bits of a byte
constexpr int kLowers = 16; // and of the lower four

/// The shapes of the registers, for the processor: rows of 64 bytes. Registers 0 to 3 are sums, and
/// 4 to 7 are two pairs of matrices.
struct Registers {
  alignas(tuning::kLineBytes) uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  constexpr Registers() {
    for (int i = 0; i < 8; ++i) {
      row_bytes[i] = tuning::kLineBytes;
      rows[i] = i == 5 || i == 7 ? kLowers : kUppers;
    }
  }
};

constexpr Registers kRegisters;

// The assembly says what memory it reads and writes. GCC's own functions do not, so GCC would load
// constants again after each of them. The functions are static: as external ones they make GCC 12
// spill more in multiply_pairs, and columns of bytes take 9 to 13 % longer.
// Workaround gcc-12-static-functions: see docs/tuning.md.
template <int kRegister>
[[gnu::always_inline]] static inline void load_tile(const void* from) {
  const auto& matrix =
      *static_cast<const char (*)[kRegisters.rows[kRegister] * tuning::kLineBytes]>(from);
  __asm__ volatile(
      "tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(tuning::kLineBytes), "i"(kRegister),
      "m"(matrix));
}

template <int kRegister>
[[gnu::always_inline]] static inline void store_tile(void* to) {
  auto& matrix = *static_cast<char (*)[kUppers * tuning::kLineBytes]>(to);
  __asm__ volatile("tilestored %%tmm%c3, (%1,%2,1)"
                   : "=m"(matrix)
                   : "r"(to), "r"(tuning::kLineBytes), "i"(kRegister));
}

/// The registers belong to the thread, and keep nothing from call to call.
class TilesInUse {
 public:
  TilesInUse() {
    __asm__ volatile("ldtilecfg %0" ::"m"(kRegisters));
  }
  ~TilesInUse() {
    __asm__ volatile("tilerelease");
  }
  TilesInUse(const TilesInUse&) = delete;
  TilesInUse& operator=(const TilesInUse&) = delete;
};

/// Adds the product of two matrices to a register of sums.
template <int kRegister, int kFirst, int kSecond>
[[gnu::always_inline]] static inline void multiply_tiles() {
  __asm__ volatile(
      "tdpbuud %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kRegister), "i"(kFirst), "i"(kSecond));
}

} // namespace histo::cpu

#endif
