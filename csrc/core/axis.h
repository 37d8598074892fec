// Value -> bin, on host and device. No other file decides what a value counts as.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/problem.h"

#ifdef __CUDACC__
#define HISTO_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define HISTO_HOST_DEVICE inline
#endif

namespace histo {

/// The answer of a binning for a value that counts nowhere.
constexpr int64_t kNoBin = -1;

/// Value v counts in bin v.
struct ValueBinning {
  static constexpr bool kTakesAllTypes = true;
  int64_t num_bins;

  template <class T>
  HISTO_HOST_DEVICE int64_t operator()(T value) const {
    // Sign extension makes a negative value a huge unsigned one, so that one
    // comparison refuses both ends.
    uint64_t v;
    if constexpr (std::is_same_v<T, Boolean>) {
      v = value.byte != 0;
    } else if constexpr (std::is_signed_v<T>) {
      v = static_cast<uint64_t>(static_cast<int64_t>(value));
    } else {
      static_assert(std::is_unsigned_v<T>, "not an element type");
      v = value;
    }
    return v < static_cast<uint64_t>(num_bins) ? static_cast<int64_t>(v) : kNoBin;
  }
};

/// Lower-case letters in seven bins of four: a-d, e-h, i-l, m-p, q-t, u-x, y-z.
struct LetterBinning {
  static constexpr bool kTakesAllTypes = false; // but uint8 alone
  static constexpr int64_t num_bins = 7;

  template <class T, class = std::enable_if_t<std::is_same_v<T, uint8_t>>>
  HISTO_HOST_DEVICE int64_t operator()(T byte) const {
    const unsigned letter = byte - unsigned{'a'};
    return letter < 26 ? static_cast<int64_t>(letter / 4) : kNoBin;
  }
};

/// The bin of each byte. A kernel counts bytes, whatever they mean, and asks for the bins of
/// their 256 sums only: values, true and false, and letters differ in these numbers alone.
struct ByteAxis {
  uint8_t first;   // the byte that is value 0
  uint8_t largest; // value; larger ones count as this one does
  uint16_t values; // that have bins, from 0 on
  uint16_t log_values_of_bin;

  HISTO_HOST_DEVICE int64_t bin_of(uint8_t byte) const {
    const unsigned distance = (unsigned{byte} - first) & 0xff;
    const unsigned value = distance < largest ? distance : largest;
    return value < values ? static_cast<int64_t>(value >> log_values_of_bin) : kNoBin;
  }
};

/// The axis of a type of one byte.
HISTO_HOST_DEVICE ByteAxis byte_axis(ElementType type, const ValueBinning& binning) {
  const int64_t values = type == ElementType::kBool ? 2 : type == ElementType::kInt8 ? 128 : 256;
  const bool is_bool = type == ElementType::kBool; // any byte that is not 0 is 1
  return {
      0, static_cast<uint8_t>(is_bool ? 1 : 255),
      static_cast<uint16_t>(binning.num_bins < values ? binning.num_bins : values), 0};
}
HISTO_HOST_DEVICE ByteAxis byte_axis(ElementType, const LetterBinning&) {
  return {'a', 255, 26, 2};
}

/// Calls f(TypeTag<T>{}) with the type of the elements, which the binning must take.
template <class Binning, class F>
void visit_binned_type(ElementType type, const Binning&, F&& f) {
  if constexpr (Binning::kTakesAllTypes) {
    visit_element_type(type, f);
  } else {
    if (type != ElementType::kUInt8) {
      throw InternalError("visit_binned_type: the binning takes uint8 alone");
    }
    f(TypeTag<uint8_t>{});
  }
}

inline bool is_one_byte(ElementType type) {
  return type == ElementType::kBool || type == ElementType::kUInt8 || type == ElementType::kInt8;
}

} // namespace histo
