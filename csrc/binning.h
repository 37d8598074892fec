// Value -> bin, on host and device. Every kernel takes a binning as a template
// parameter: what is counted is decided here and nowhere else.
#pragma once

#include <cstdint>
#include <type_traits>

#include "problem.h"

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
      v = value;
    }
    return v < static_cast<uint64_t>(num_bins) ? static_cast<int64_t>(v) : kNoBin;
  }
};

/// Lower-case letters in seven bins of four: a-d, e-h, i-l, m-p, q-t, u-x, y-z.
struct LetterBinning {
  static constexpr int64_t num_bins = 7;

  template <class T, class = std::enable_if_t<std::is_same_v<T, uint8_t>>>
  HISTO_HOST_DEVICE int64_t operator()(T byte) const {
    const unsigned letter = byte - unsigned{'a'};
    return letter < 26 ? static_cast<int64_t>(letter / 4) : kNoBin;
  }
};

/// The bin of a one-byte element given as its raw byte. It lets a kernel count
/// bytes, whatever they mean, and bin the 256 sums instead of every element.
template <class Binning>
HISTO_HOST_DEVICE int64_t bin_of_byte(ElementType type, const Binning& binning, uint8_t byte) {
  if constexpr (std::is_same_v<Binning, ValueBinning>) {
    if (type == ElementType::kBool) {
      return binning(Boolean{byte});
    }
    if (type == ElementType::kInt8) {
      return binning(static_cast<int8_t>(byte));
    }
  }
  return binning(byte);
}

/// Calls f(TypeTag<T>{}) with the type of the elements, where the binning takes it.
template <class Binning, class F>
void visit_binned_type(ElementType type, const Binning&, F&& f) {
  visit_element_type(type, [&](auto tag) {
    if constexpr (std::is_invocable_v<Binning, typename decltype(tag)::type>) {
      f(tag);
    }
  });
}

inline bool is_one_byte(ElementType type) {
  return type == ElementType::kBool || type == ElementType::kUInt8 || type == ElementType::kInt8;
}

} // namespace histo
