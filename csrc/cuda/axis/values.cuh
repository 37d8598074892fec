// Axes of integers, whose bins are values.
#pragma once

#include <type_traits>

#include "core/axis.h"
#include "cuda/walk/raw.cuh"

namespace histo::cuda {

/// The bin of an element wider than a byte is its value, if that is below the limit. As an unsigned
/// number, a negative value is above all limits.
template <class T>
struct WideValues {
  uint64_t values;

  __device__ __forceinline__ int64_t find(T value) const {
    return value < values ? static_cast<int64_t>(value) : kNoBin;
  }
};

/// Bytes may be true and false, or letters.
struct Bytes {
  ByteAxis axis;

  __device__ __forceinline__ int64_t find(uint8_t byte) const {
    return axis.bin_of(byte);
  }
};

/// Elements of a type that is known only when a kernel runs.
struct RawValues {
  ElementType type; // of integers
  ValueBinning binning;

  __device__ __forceinline__ int64_t find(RawBits raw) const {
    return visit_raw(type, raw, [&](auto element) {
      if constexpr (Number<decltype(element)>::kIsFloat) {
        return kNoBin; // the host has refused it
      } else {
        return binning(element);
      }
    });
  }
  template <class Tile>
  __device__ __forceinline__ const RawValues& of_thread(const Tile&) const {
    return *this;
  }
};

/// An axis for the elements of a tile. These look the same for all threads and channels.
template <class T>
struct ValueAxis : std::conditional_t<sizeof(T) == 1, Bytes, WideValues<T>> {
  template <class Tile>
  __device__ __forceinline__ const ValueAxis& of_thread(const Tile&) const {
    return *this;
  }
};

} // namespace histo::cuda
