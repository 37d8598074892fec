// In place of csrc/cpu/count/tiles.h: tile registers and their product as plain loops.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "cpu/tuning.h"

namespace histo::cpu {

constexpr int kUppers = 8;
constexpr int kLowers = 16;

/// 0 to 3 are sums, 4 and 6 first matrices, 5 and 7 second ones.
struct Tile {
  uint8_t rows[kLowers][tuning::kLineBytes];
  bool loaded;
};
inline Tile tiles[8];
inline bool tiles_in_use = false;

constexpr int rows_of_tile(int index) {
  return index == 5 || index == 7 ? kLowers : kUppers;
}

/// A register that nobody has loaded holds nothing.
inline Tile& loaded_tile(int index) {
  if (!tiles_in_use || !tiles[index].loaded) {
    std::abort();
  }
  return tiles[index];
}

template <int kRegister>
void load_tile(const void* from) {
  if (!tiles_in_use) {
    std::abort();
  }
  tiles[kRegister].loaded = true;
  std::memcpy(tiles[kRegister].rows, from, rows_of_tile(kRegister) * tuning::kLineBytes);
}

template <int kRegister>
void store_tile(void* to) {
  static_assert(kRegister < 4);
  std::memcpy(to, loaded_tile(kRegister).rows, kUppers * tuning::kLineBytes);
}

class TilesInUse {
 public:
  TilesInUse() {
    std::memset(tiles, 0, sizeof tiles);
    tiles_in_use = true;
  }
  ~TilesInUse() {
    tiles_in_use = false;
  }
};

/// Adds the products of four bytes of a row and four of a column to a sum of 32 bits.
template <int kRegister, int kFirst, int kSecond>
void multiply_tiles() {
  const Tile& first = loaded_tile(kFirst);
  const Tile& second = loaded_tile(kSecond);
  for (int row = 0; row < kUppers; ++row) {
    for (int column = 0; column < 16; ++column) {
      uint32_t sum;
      uint8_t* entry = loaded_tile(kRegister).rows[row] + 4 * column;
      std::memcpy(&sum, entry, sizeof sum);
      for (int k = 0; k < kLowers; ++k) {
        for (int i = 0; i < 4; ++i) {
          sum += uint32_t{first.rows[row][4 * k + i]} * second.rows[k][4 * column + i];
        }
      }
      std::memcpy(entry, &sum, sizeof sum);
    }
  }
}

} // namespace histo::cpu
