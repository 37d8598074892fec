// Tables of weights. A bin has a row of cells: numbers of 64 bits, whose scales are a few powers of
// two apart. The exponent of a weight chooses the cell, so that a float of up to 32 bits is one
// addition, and float64 two. Nothing rounds: a cell has room for many weights. Then it is carried to
// the digits of the result.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/weights.h"
#include "cpu/run_widest.h"
#include "cpu/tuning.h"

namespace histo::cpu {

namespace tuning {
/// The tables of a thread take at most this. Few of their cells are used: those of the exponents
/// that weights have.
constexpr int64_t kMaxWeightTableBytes = 4 << 20;
/// With more cells for each weight of a channel tables take longer to clear and to carry than
/// weights to add to the result itself.
constexpr int64_t kCellsPerWeight = 2;
} // namespace tuning

/// Cells of a bin for weights of type W. Those with an exponent e are in the cell e / 2^kLogStep,
/// shifted by the rest. After kMostWeights weights a cell must be carried.
template <class W>
struct CellsOf { // integers
  static constexpr int kLogStep = 0;
  static constexpr int kCells = 1;
  static constexpr int64_t kMostWeights = std::numeric_limits<int64_t>::max(); // they wrap
};
template <>
struct CellsOf<float> {
  static constexpr int kLogStep = 4;
  static constexpr int kCells = 16;
  static constexpr int64_t kMostWeights = int64_t{1} << 24; // of 24 bits, shifted by up to 15
};
template <>
struct CellsOf<BFloat16> {
  static constexpr int kLogStep = 5;
  static constexpr int kCells = 8;
  static constexpr int64_t kMostWeights = int64_t{1} << 24; // of 8 bits, shifted by up to 31
};
template <>
struct CellsOf<Float16> {
  static constexpr int kLogStep = 5;
  static constexpr int kCells = 1;
  static constexpr int64_t kMostWeights = int64_t{1} << 21; // of 11 bits, shifted by up to 31
};
template <>
struct CellsOf<Float8E4M3> : CellsOf<Float16> {};
template <>
struct CellsOf<Float8E5M2> : CellsOf<Float16> {};
/// The lower 32 bits of a shifted float64 are in its cell, the others in the second one behind it.
template <>
struct CellsOf<double> {
  static constexpr int kLogStep = 4;
  static constexpr int kCells = 128 + 2;
  static constexpr int64_t kMostWeights = int64_t{1} << 26; // of 53 + 15 - 32 bits
};

/// Elements whose additions are made ready together.
constexpr int64_t kReady = 512;

/// Additions to a table: a cell's index and what is added.
template <class W>
struct Additions {
  static constexpr bool kHasUpper = std::is_same_v<W, double>;
  static constexpr int64_t kUpper = 2; // cells behind the lower one

  alignas(tuning::kLineBytes) uint32_t cells[kReady];
  alignas(tuning::kLineBytes) uint64_t numbers[kReady];
  alignas(tuning::kLineBytes) uint64_t uppers[kHasUpper ? kReady : 1];

  void add_to(uint64_t* table, int64_t size) const {
    for (int64_t i = 0; i < size; ++i) {
      table[cells[i]] += numbers[i];
      if constexpr (kHasUpper) {
        table[cells[i] + kUpper] += uppers[i];
      }
    }
  }
};

/// Makes ready up to kReady weights. `rows` are the first cells of the elements' channels. Slots
/// from `none` on count in the row `none`. Returns whether all weights are finite: the others add 0.
template <class W, class Slot>
bool make_ready(
    const Slot* slots,
    const W* weights,
    const uint32_t* rows,
    uint32_t none,
    int64_t size,
    Additions<W>& to) {
  using Cells = CellsOf<W>;
  bool are_finite = true;
  run_widest([=, &to, &are_finite]() __attribute__((always_inline)) {
    // Local copies: the compiler must think that stores change captured variables.
    const Slot* slot_of = slots;
    const W* weight_of = weights;
    const uint32_t* row_of = rows;
    uint32_t* __restrict__ cells = to.cells;
    uint64_t* __restrict__ numbers = to.numbers;
    const uint32_t last = none;
    const int64_t end = size;
    if constexpr (!Number<W>::kIsFloat) {
      for (int64_t i = 0; i < end; ++i) {
        cells[i] = row_of[i] + std::min<uint32_t>(slot_of[i], last);
        numbers[i] = static_cast<uint64_t>(Number<W>::wide(weight_of[i]));
      }
    } else {
      using Format = FloatBits<W>;
      using Bits = typename Format::Bits;
      constexpr int kBits = 8 * sizeof(Bits);
      using Wide = std::conditional_t<kBits == 64, uint64_t, uint32_t>;
      constexpr Wide kFirst = Wide{1} << Format::kFraction;
      [[maybe_unused]] uint64_t* __restrict__ uppers = to.uppers;
      Wide largest = 0;
      for (int64_t i = 0; i < end; ++i) {
        const Wide bits = bits_as<Bits>(weight_of[i]);
        const Wide magnitude = bits & ((Wide{1} << (kBits - 1)) - 1);
        largest = std::max(largest, magnitude);
        const Wide exponent = magnitude >> Format::kFraction;
        const Wide fraction = magnitude & (kFirst - 1);
        // The exponent 0 has the scale of 1: the fraction is doubled.
        Wide significand = fraction + (exponent == 0 ? fraction : kFirst);
        significand = magnitude < Format::kInfinity ? significand : 0;
        const uint64_t sign = uint64_t{0} - (bits >> (kBits - 1));
        const uint64_t shift = exponent & ((Wide{1} << Cells::kLogStep) - 1);
        cells[i] = row_of[i] + std::min<uint32_t>(slot_of[i], last) * Cells::kCells +
                   static_cast<uint32_t>(exponent >> Cells::kLogStep);
        if constexpr (Additions<W>::kHasUpper) {
          const uint64_t lower = (significand << shift) & kDigitMask;
          numbers[i] = (lower ^ sign) - sign;
          uppers[i] = ((significand >> (kDigitBits - shift)) ^ sign) - sign;
        } else {
          numbers[i] = ((uint64_t{significand} << shift) ^ sign) - sign;
        }
      }
      are_finite = largest < Format::kInfinity;
    }
  });
  return are_finite;
}

/// Adds a row of cells to the numbers of a bin, and clears them. Returns whether there was one.
template <class W>
bool carry(uint64_t* cells, int64_t* sum) {
  using Cells = CellsOf<W>;
  bool found = false;
  for (int cell = 0; cell < Cells::kCells; ++cell) {
    if (cells[cell] == 0) {
      continue;
    }
    found = true;
    if constexpr (!Number<W>::kIsFloat) {
      sum[0] = wrapping_sum(sum[0], static_cast<int64_t>(cells[cell]));
    } else {
      const bool is_negative = cells[cell] >> 63 != 0;
      const uint64_t magnitude = is_negative ? uint64_t{0} - cells[cell] : cells[cell];
      // Weights of the exponent 0 are even, those of 1 are shifted: the first cell is even.
      const int position = FloatBits<W>::kOrigin - 1 + (cell << Cells::kLogStep);
      add_at(sum, std::max(position, 0), position < 0 ? magnitude >> 1 : magnitude, is_negative);
    }
    cells[cell] = 0;
  }
  return found;
}

} // namespace histo::cpu
