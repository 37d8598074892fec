// Tables of weights. A bin has a row of cells: numbers of 64 bits, or pairs of them for float64. The
// scales of neighbours are 16 or 32 powers of two apart. The exponent of a weight chooses the cell, so
// that each weight is one addition, of a number or of a pair. Nothing rounds: a cell has room for many
// weights. Then it is carried to the digits of the result. Rows have cells for the exponents that
// weights are likely to have; other weights are added to the result itself.
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
/// A shifted float64 has up to 53 + 31 bits: the lower kLowBits are in the first number of a pair.
template <>
struct CellsOf<double> {
  static constexpr int kLogStep = 5;
  static constexpr int kCells = 8;
  static constexpr int64_t kMostWeights = int64_t{1} << 21; // of 42 bits in each number
  static constexpr int kLowBits = 42;
};

template <class W>
constexpr int kNumbersPerCell = std::is_same_v<W, double> ? 2 : 1;

/// The numbers of a cell. A pair of them is one vector, so that one addition adds to both.
template <class W>
struct CellNumbers {
  using Type = uint64_t;
};
template <>
struct CellNumbers<double> {
  using Type [[gnu::vector_size(16), gnu::aligned(8), gnu::may_alias]] = uint64_t;
};
template <class W>
using Cell = typename CellNumbers<W>::Type;

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
        (FloatBits<W>::kInfinity >> FloatBits<W>::kFraction) +
        (FloatBits<W>::kHasInfinity ? 0 : 1));
    constexpr uint32_t kMost = CellsOf<W>::kCells << CellsOf<W>::kLogStep;
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

/// The input behind elements whose weights are added. A step of 0 bytes: it is not fetched.
struct InputBehind {
  const char* data;
  int64_t step;
};

/// Additions to a table: a cell's index and what is added.
template <class W>
struct Additions {
  alignas(tuning::kLineBytes) uint32_t cells[kReady];
  alignas(tuning::kLineBytes) uint64_t numbers[kReady * kNumbersPerCell<W>];

  /// The weights at `next` and the input are fetched meanwhile: additions leave the memory idle.
  void add_to(Cell<W>* table, int64_t size, const W* next, const InputBehind& input) const {
    constexpr auto kLine = static_cast<int64_t>(tuning::kLineBytes / sizeof(W));
    const auto* added = reinterpret_cast<const Cell<W>*>(numbers);
    int64_t i = 0;
    while (i + kLine <= size) {
      __builtin_prefetch(next + i);
      for (int64_t at = 0; at < kLine * input.step; at += tuning::kLineBytes) {
        __builtin_prefetch(input.data + i * input.step + at, 0, 2); // into the second level
      }
#pragma GCC unroll 8
      for (const int64_t end = i + kLine; i < end; ++i) {
        table[cells[i]] += added[i];
      }
    }
    for (; i < size; ++i) {
      table[cells[i]] += added[i];
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
  uint32_t plane; // cells between those of one bin
  Exponents exponents;
  int64_t size;
};

template <class W, class Slot>
[[gnu::always_inline]] inline void make_integers_ready(
    const Weighted<W, Slot>& of, Additions<W>& to) {
  // Local copies: the compiler must think that stores change what is read.
  const auto [slots, weights, rows, none, plane, exponents, size] = of;
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
  const auto [slots, weights, rows, none, plane, exponents, size] = of;
  const Wide first = exponents.first, end = exponents.size;
  uint32_t* __restrict__ cells = to.cells;
  uint64_t* __restrict__ numbers = to.numbers;
  Wide others = 0;
  for (int64_t i = 0; i < size; ++i) {
    const Wide bits = bits_as<Bits>(weights[i]);
    const Wide magnitude = bits & kMagnitude;
    const Wide exponent = magnitude >> Format::kFraction;
    Wide has_cell = exponent - first < end;
    if constexpr (!Format::kHasInfinity) {
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
    cells[i] = rows[i] + std::min<uint32_t>(slots[i], none) +
               static_cast<uint32_t>(at >> Cells::kLogStep) * plane;
    if constexpr (kNumbersPerCell<W> == 2) {
      constexpr Wide kLowMask = (Wide{1} << Cells::kLowBits) - 1;
      numbers[2 * i] = (((significand << shift) & kLowMask) ^ sign) - sign;
      numbers[2 * i + 1] = ((significand >> (Cells::kLowBits - shift)) ^ sign) - sign;
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

/// Some digits of the sum of a bin, to which cells are added. They cover all cells of a bin, from the
/// digit `first` on.
template <class W>
class DigitWindow {
  static constexpr int kLowBits = kNumbersPerCell<W> == 2 ? CellsOf<double>::kLowBits : 0;
  static constexpr int kBits = ((CellsOf<W>::kCells - 1) << CellsOf<W>::kLogStep) + kLowBits + 64;
  static constexpr int kSize = kBits / kDigitBits + 2;
  static constexpr int kLast = kSumLayout<W>.digits - 1;

 public:
  explicit DigitWindow(const Exponents& exponents)
      : origin_(kOrigin<W> - 1 + static_cast<int>(exponents.first)),
        first_(std::max(origin_, 0) / kDigitBits) {
  }
  /// Adds the number of a cell.
  void add(uint64_t number, int cell, bool is_upper) {
    auto wide = static_cast<int64_t>(number);
    int position = origin_ + (cell << CellsOf<W>::kLogStep) + (is_upper ? kLowBits : 0);
    if (position < 0) { // there is an exponent 0: the weights of its cell are even
      wide /= 2;
      position = 0;
    }
    const int shift = position % kDigitBits;
    int64_t* to = digits_ + (position / kDigitBits - first_);
    const uint64_t low = static_cast<uint64_t>(wide) << shift;
    to[0] += static_cast<int64_t>(low & kDigitMask);
    to[1] += static_cast<int64_t>(low >> kDigitBits);
    to[2] += wide >> (63 - shift) >> 1;
  }
  /// Adds all to the sum of a bin: canonical digits. add(digit, number) adds to one of the sum's.
  template <class Add>
  void put(const Add& add) const {
    const int end = std::min(first_ + kSize, kLast);
    int64_t carry = 0;
    for (int i = first_; i < end; ++i) {
      const int64_t digit = digits_[i - first_] + carry;
      add(i, digit & kDigitMask);
      carry = digit >> kDigitBits;
    }
    for (int i = end; i < kLast && carry != 0; ++i) {
      add(i, carry & kDigitMask);
      carry >>= kDigitBits;
    }
    uint64_t rest = 0; // the last digit holds what is above it, too
    for (int i = kSize - 1; i >= kLast - first_; --i) {
      rest = (rest << kDigitBits) + static_cast<uint64_t>(digits_[i]);
    }
    add(kLast, static_cast<int64_t>(rest) + carry);
  }

 private:
  const int origin_; // the position of the first cell
  const int first_;
  int64_t digits_[kSize] = {};
};

} // namespace histo::cpu
