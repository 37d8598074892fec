// Elements whose type is known only when a kernel runs, by their bits.
#pragma once

#include <cstdint>

#include "core/numbers.h"

namespace histo::cuda {

/// The bits of an element, in the lowest bytes.
struct RawBits {
  uint64_t bits;
};

template <class T>
__device__ __forceinline__ T raw_as(RawBits raw) {
  return bits_as<T>(static_cast<typename UnsignedOf<sizeof(T)>::type>(raw.bits));
}

__device__ __forceinline__ RawBits load_raw(const void* at, unsigned bytes) {
  switch (bytes) {
    case 1:
      return {*static_cast<const uint8_t*>(at)};
    case 2:
      return {*static_cast<const uint16_t*>(at)};
    case 4:
      return {*static_cast<const uint32_t*>(at)};
    default:
      return {*static_cast<const uint64_t*>(at)};
  }
}

/// Calls f(element) with the C++ type.
template <class F>
__device__ __forceinline__ auto visit_raw(ElementType type, RawBits raw, const F& f) {
  switch (type) {
    case ElementType::kBool:
      return f(raw_as<Boolean>(raw));
    case ElementType::kUInt8:
      return f(raw_as<uint8_t>(raw));
    case ElementType::kInt8:
      return f(raw_as<int8_t>(raw));
    case ElementType::kUInt16:
      return f(raw_as<uint16_t>(raw));
    case ElementType::kInt16:
      return f(raw_as<int16_t>(raw));
    case ElementType::kUInt32:
      return f(raw_as<uint32_t>(raw));
    case ElementType::kInt32:
      return f(raw_as<int32_t>(raw));
    case ElementType::kUInt64:
      return f(raw_as<uint64_t>(raw));
    case ElementType::kInt64:
      return f(raw_as<int64_t>(raw));
    case ElementType::kFloat16:
      return f(raw_as<Float16>(raw));
    case ElementType::kBFloat16:
      return f(raw_as<BFloat16>(raw));
    case ElementType::kFloat32:
      return f(raw_as<float>(raw));
    case ElementType::kFloat64:
      return f(raw_as<double>(raw));
    case ElementType::kFloat8E4M3:
      return f(raw_as<Float8E4M3>(raw));
    case ElementType::kFloat8E5M2:
      return f(raw_as<Float8E5M2>(raw));
  }
  return f(uint8_t{0}); // there is no other type
}

} // namespace histo::cuda
