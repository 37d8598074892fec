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

namespace tuning {
/// The tables of a thread take at most this. Few of their cells are used: those of the exponents
/// that weights have.
constexpr int64_t kMaxWeightTableBytes = 4 << 20;
/// With more cells for each weight of a channel tables take longer to clear and to carry than
/// weights to add to the result itself.
constexpr int64_t kCellsPerWeight = 2;
} // namespace tuning

/// The cells of a bin for weights of type W. One with the exponent e is shifted by the lower
/// kLogStep bits of e, and added to the cell that the upper ones tell, counted from the first cell of
/// the row. After kMostWeights weights a cell must be carried.
template <class W>
struct CellsOf { // integers
  static constexpr int kLogStep = 0;
  static constexpr int kCells = 1;
  static constexpr int kAll = 1; // cells that all exponents would need
  static constexpr int64_t kMostWeights = std::numeric_limits<int64_t>::max(); // they wrap
};
template <>
struct CellsOf<float> {
  static constexpr int kLogStep = 4;
  static constexpr int kCells = 8; // a line
  static constexpr int kAll = 16;
  static constexpr int64_t kMostWeights = int64_t{1} << 24; // of 24 bits, shifted by up to 15
};
template <>
struct CellsOf<BFloat16> {
  static constexpr int kLogStep = 5;
  static constexpr int kCells = 8;
  static constexpr int kAll = 8;
  static constexpr int64_t kMostWeights = int64_t{1} << 24; // of 8 bits, shifted by up to 31
};
template <>
struct CellsOf<Float16> {
  static constexpr int kLogStep = 5;
  static constexpr int kCells = 1;
  static constexpr int kAll = 1;
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
  static constexpr int kAll = 128 + 2;
  static constexpr int64_t kMostWeights = int64_t{1} << 26; // of 53 + 15 - 32 bits
};

template <class W>
constexpr int kUpper = std::is_same_v<W, double> ? 2 : 0;

/// The cells that exponents may choose.
template <class W>
constexpr int kChosenCells = CellsOf<W>::kCells - kUpper<W>;

/// The cell of a float, counted from that of the smallest numbers.
template <class W>
int cell_of(W weight) {
  using Bits = typename FloatBits<W>::Bits;
  const auto magnitude = static_cast<Bits>(bits_as<Bits>(weight) << 1) >> 1;
  return static_cast<int>(magnitude >> (FloatBits<W>::kFraction + CellsOf<W>::kLogStep));
}

/// The first cell of rows for weights like these: the largest finite one is in the last cell but
/// one, so that most weights are in the row.
template <class W>
uint32_t first_cell(const W* weights, int64_t size) {
  if constexpr (CellsOf<W>::kCells == CellsOf<W>::kAll) {
    return 0;
  } else {
    int largest = 0;
    for (int64_t i = 0; i < size; ++i) {
      largest = std::max(largest, parts_of_weight(weights[i]).is_finite ? cell_of(weights[i]) : 0);
    }
    const int most = CellsOf<W>::kAll - CellsOf<W>::kCells;
    return static_cast<uint32_t>(std::clamp(largest + 2 - kChosenCells<W>, 0, most));
  }
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
  uint32_t first_cell;
  int64_t size;
};

template <class W, class Slot>
[[gnu::always_inline]] inline void make_integers_ready(
    const Weighted<W, Slot>& of, Additions<W>& to) {
  // Local copies: the compiler must think that stores change what is read.
  const auto [slots, weights, rows, none, first, size] = of;
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
  const auto [slots, weights, rows, none, first, size] = of;
  uint32_t* __restrict__ cells = to.cells;
  uint64_t* __restrict__ numbers = to.numbers;
  [[maybe_unused]] uint64_t* __restrict__ uppers = to.uppers;
  Wide others = 0;
  for (int64_t i = 0; i < size; ++i) {
    const Wide bits = bits_as<Bits>(weights[i]);
    const Wide magnitude = bits & kMagnitude;
    const Wide exponent = magnitude >> Format::kFraction;
    const Wide fraction = magnitude & (kFirst - 1);
    const Wide cell = (exponent >> Cells::kLogStep) - first;
    const Wide is_other =
        Wide{magnitude >= Format::kInfinity} | Wide{cell >= Wide{kChosenCells<W>}};
    others |= is_other & Wide{magnitude != 0};
    // The exponent 0 has the scale of 1: the fraction is doubled.
    const Wide significand = (fraction + (exponent == 0 ? fraction : kFirst)) & (is_other - 1);
    const uint64_t sign = uint64_t{0} - (bits >> (kBits - 1));
    const uint64_t shift = exponent & ((Wide{1} << Cells::kLogStep) - 1);
    cells[i] = rows[i] + std::min<uint32_t>(slots[i], none) * Cells::kCells +
               static_cast<uint32_t>(std::min(cell, Wide{kChosenCells<W> - 1}));
    if constexpr (kUpper<W> > 0) {
      numbers[i] = (((significand << shift) & kDigitMask) ^ sign) - sign;
      uppers[i] = ((significand >> (kDigitBits - shift)) ^ sign) - sign;
    } else {
      numbers[i] = ((uint64_t{significand} << shift) ^ sign) - sign;
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

/// Whether a weight is in a cell of rows that begin with `first`.
template <class W>
bool is_in_row(W weight, uint32_t first) {
  const int cell = cell_of(weight) - static_cast<int>(first);
  return parts_of_weight(weight).is_finite && cell >= 0 && cell < kChosenCells<W>;
}

/// Adds a row of cells to the numbers of a bin, and clears them. Returns whether any was not 0.
template <class W>
bool carry(uint64_t* cells, uint32_t first, int64_t* sum) {
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
      const int position =
          FloatBits<W>::kOrigin - 1 + ((cell + static_cast<int>(first)) << Cells::kLogStep);
      add_at(sum, std::max(position, 0), position < 0 ? magnitude >> 1 : magnitude, is_negative);
    }
    cells[cell] = 0;
  }
  return found;
}

} // namespace histo::cpu
