// Tables of weights. A bin has a row of cells: numbers of 64 bits, whose scales are 16 or 32 powers of
// two apart. The exponent of a weight chooses the cell, so that a float of up to 32 bits is one
// addition, and float64 two. Nothing rounds: a cell has room for many weights. Then it is carried to
// the digits of the result. Rows have cells for the exponents that weights are likely to have; other
// weights are added to the result itself.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/weights.h"
#include "cpu/run_widest.h"
#include "cpu/tuning.h"

namespace histo::cpu {

/// The cells of a bin for weights of type W. One with the exponent e is shifted by the lower
/// kLogStep bits of e - first, and added to the cell that the upper ones tell. `first` is that of the
/// table. After kMostWeights weights a cell must be carried.
template <class W>
struct CellsOf { // integers
  static constexpr int kLogStep = 0;
  static constexpr int kCells = 1;
  static constexpr int64_t kMostWeights = std::numeric_limits<int64_t>::max(); // they wrap
};
template <>
struct CellsOf<float> {
  static constexpr int kLogStep = 4;
  static constexpr int kCells = 8;                          // a line
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
/// The lower 32 bits of a shifted float64 are in its cell, the others kUpper cells behind it.
template <>
struct CellsOf<double> {
  static constexpr int kLogStep = 4;
  static constexpr int kCells = 16;
  static constexpr int64_t kMostWeights = int64_t{1} << 26; // of 53 + 15 - 32 bits
};

template <class W>
constexpr int kUpper = std::is_same_v<W, double> ? 2 : 0;

/// The exponents that have cells: from `first` on.
struct Exponents {
  uint32_t first;
  uint32_t size;
};

/// Whether rows have cells for the exponent 0, too. Its numbers are rare in wider types.
template <class W>
constexpr bool kHasSubnormals = Number<W>::kIsFloat && CellsOf<W>::kCells == 1;

template <class W>
uint32_t exponent_of(W weight) {
  using Bits = typename FloatBits<W>::Bits;
  const auto magnitude = static_cast<Bits>(static_cast<Bits>(bits_as<Bits>(weight) << 1) >> 1);
  return static_cast<uint32_t>(magnitude >> FloatBits<W>::kFraction);
}

/// The exponents of a table for weights like these: the largest one is a cell below the last.
template <class W>
Exponents exponents_of(const W* weights, int64_t size) {
  if constexpr (!Number<W>::kIsFloat) {
    return {0, 0};
  } else {
    constexpr auto kInfinite = static_cast<uint32_t>(
        (FloatBits<W>::kInfinity >> FloatBits<W>::kFraction) + (kHasInfinity<W> ? 0 : 1));
    constexpr uint32_t kMost = (CellsOf<W>::kCells - kUpper<W>) << CellsOf<W>::kLogStep;
    constexpr uint32_t kLeast = kHasSubnormals<W> ? 0 : 1;
    constexpr uint32_t kSize = std::min(kMost, kInfinite - kLeast);
    uint32_t largest = 0;
    for (int64_t i = 0; i < size; ++i) {
      const uint32_t exponent = exponent_of(weights[i]);
      largest = std::max(largest, exponent < kInfinite ? exponent : 0);
    }
    const uint32_t end = largest + (2u << CellsOf<W>::kLogStep);
    return {std::clamp(end, kLeast + kSize, kInfinite) - kSize, kSize};
  }
}

/// Whether a weight is in a cell of its row.
template <class W>
bool has_cell(W weight, const Exponents& exponents) {
  return parts_of_weight(weight).is_finite &&
         exponent_of(weight) - exponents.first < exponents.size;
}

/// Elements whose additions are made ready together.
constexpr int64_t kReady = 512;

/// Additions to a table: a cell's index and what is added.
template <class W>
struct Additions {
  alignas(tuning::kLineBytes) uint32_t cells[kReady];
  alignas(tuning::kLineBytes) uint64_t numbers[kReady];
  alignas(tuning::kLineBytes) uint64_t uppers[kUpper<W> > 0 ? kReady : 1];

  void add_to(uint64_t* table, int64_t size) const {
#pragma GCC unroll 4
    for (int64_t i = 0; i < size; ++i) {
      uint64_t* cell = table + cells[i];
      *cell += numbers[i];
      if constexpr (kUpper<W> > 0) {
        cell[kUpper<W>] += uppers[i];
      }
    }
  }
};

/// Elements with their slots, and the cells that their rows begin with: slots from `none` on count
/// in the row `none`.
template <class W, class Slot>
struct Weighted {
  const Slot* slots;
  const W* weights;
  const uint32_t* rows; // of the elements' channels, in the table
  uint32_t none;
  Exponents exponents;
  int64_t size;
};

template <class W, class Slot>
[[gnu::always_inline]] inline void make_integers_ready(
    const Weighted<W, Slot>& of, Additions<W>& to) {
  // Local copies: the compiler must think that stores change what is read.
  const auto [slots, weights, rows, none, exponents, size] = of;
  uint32_t* __restrict__ cells = to.cells;
  uint64_t* __restrict__ numbers = to.numbers;
  for (int64_t i = 0; i < size; ++i) {
    cells[i] = rows[i] + std::min<uint32_t>(slots[i], none);
    numbers[i] = static_cast<uint64_t>(Number<W>::wide(weights[i]));
  }
}

template <class W, class Slot>
[[gnu::always_inline]] inline bool make_floats_ready(
    const Weighted<W, Slot>& of, Additions<W>& to) {
  using Cells = CellsOf<W>;
  using Format = FloatBits<W>;
  using Bits = typename Format::Bits;
  constexpr int kBits = 8 * sizeof(Bits);
  using Wide = std::conditional_t<kBits == 64, uint64_t, uint32_t>;
  constexpr Wide kFirst = Wide{1} << Format::kFraction;
  constexpr Wide kMagnitude = (Wide{1} << (kBits - 1)) - 1;
  const auto [slots, weights, rows, none, exponents, size] = of;
  const Wide first = exponents.first, end = exponents.size;
  uint32_t* __restrict__ cells = to.cells;
  uint64_t* __restrict__ numbers = to.numbers;
  [[maybe_unused]] uint64_t* __restrict__ uppers = to.uppers;
  Wide others = 0;
  for (int64_t i = 0; i < size; ++i) {
    const Wide bits = bits_as<Bits>(weights[i]);
    const Wide magnitude = bits & kMagnitude;
    const Wide exponent = magnitude >> Format::kFraction;
    Wide has_cell = exponent - first < end;
    if constexpr (!kHasInfinity<W>) {
      has_cell &= Wide{magnitude < Format::kInfinity};
    }
    others |= (has_cell ^ 1) & Wide{magnitude != 0};
    const Wide at = (exponent - first) & (0 - has_cell);
    Wide significand = magnitude & (kFirst - 1);
    if constexpr (kHasSubnormals<W>) { // their scale is that of the exponent 1
      significand += exponent == 0 ? significand : kFirst;
    } else {
      significand |= kFirst;
    }
    significand &= 0 - has_cell;
    const Wide sign = 0 - (bits >> (kBits - 1));
    const Wide shift = at & ((Wide{1} << Cells::kLogStep) - 1);
    cells[i] = rows[i] + std::min<uint32_t>(slots[i], none) * Cells::kCells +
               static_cast<uint32_t>(at >> Cells::kLogStep);
    if constexpr (kUpper<W> > 0) {
      numbers[i] = (((significand << shift) & kDigitMask) ^ sign) - sign;
      uppers[i] = ((significand >> (kDigitBits - shift)) ^ sign) - sign;
    } else {
      const auto number = static_cast<int32_t>((significand ^ sign) - sign);
      numbers[i] = static_cast<uint64_t>(int64_t{number}) << shift;
    }
  }
  return others == 0;
}

/// Makes up to kReady weights ready. Returns whether all are in cells of their rows. The others,
/// which are not finite or have rare exponents, add 0.
template <class W, class Slot>
bool make_ready(const Weighted<W, Slot>& of, Additions<W>& to) {
  bool are_all = true;
  run_widest([&]() __attribute__((always_inline)) {
    if constexpr (Number<W>::kIsFloat) {
      are_all = make_floats_ready(of, to);
    } else {
      make_integers_ready(of, to);
    }
  });
  return are_all;
}

/// Adds a row of cells to the numbers of a bin, and clears them. Returns whether any was not 0.
template <class W>
bool carry(uint64_t* cells, const Exponents& exponents, int64_t* sum) {
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
      // If there is an exponent 0, the weights of its cell are even.
      const int position =
          FloatBits<W>::kOrigin - 1 + static_cast<int>(exponents.first) + (cell << Cells::kLogStep);
      add_at(sum, std::max(position, 0), position < 0 ? magnitude >> 1 : magnitude, is_negative);
    }
    cells[cell] = 0;
  }
  return found;
}

} // namespace histo::cpu
