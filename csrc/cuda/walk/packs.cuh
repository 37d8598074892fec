// Packs: neighbouring elements of an operand, in registers as they lie in memory. The type of an
// operand is known to the code (Typed), or when the kernel runs (Untyped).
#pragma once

#include <cstdint>

#include "cuda/walk/loads.cuh"
#include "cuda/walk/raw.cuh"

namespace histo::cuda {

/// The word that a pack of kBytes bytes is loaded as.
template <int kBytes>
struct PackWord {
  using Type = typename UnsignedOf<kBytes>::type;
};
template <>
struct PackWord<16> {
  using Type = uint4;
};
struct alignas(16) TwoVec16s {
  uint4 vec16s[2];
};
template <>
struct PackWord<32> {
  using Type = TwoVec16s;
};

__device__ __forceinline__ TwoVec16s load_once(const TwoVec16s* address) {
  return {load_once(&address->vec16s[0]), load_once(&address->vec16s[1])};
}

/// Elements of type T, kSize in a pack. Kernels get them as Wide.
template <class T, int kTheSize, class TheWide = typename Number<T>::Wide>
struct Typed {
  static constexpr bool kIsTyped = true;
  static constexpr int kSize = kTheSize;
  using Wide = TheWide;
  using Word = typename PackWord<kSize* static_cast<int>(sizeof(T))>::Type;
  struct Pack {
    Word word = {};
  };

  __host__ __device__ explicit Typed(ElementType) {
  }
  __device__ __forceinline__ static constexpr unsigned bytes() {
    return sizeof(T);
  }
  /// Loads a pack that is aligned to its size.
  __device__ __forceinline__ static Pack load(const char* at) {
    return {load_once(reinterpret_cast<const Word*>(at))};
  }
  /// Loads element j of a pack.
  __device__ __forceinline__ static void load_one(const char* at, int j, Pack& pack) {
    using Bits = typename UnsignedOf<sizeof(T)>::type;
    reinterpret_cast<Bits*>(&pack)[j] = *reinterpret_cast<const Bits*>(at);
  }
  /// The elements from `first` on.
  template <int kCount>
  __device__ __forceinline__ static void widen(
      const Pack& pack, int first, Wide (&elements)[kCount]) {
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      const T element = reinterpret_cast<const T*>(&pack)[first + j];
      elements[j] = static_cast<Wide>(Number<T>::wide(element));
    }
  }
};

/// Elements of any type whose numbers are TheWide's. All of this is much code.
template <class TheWide>
struct Untyped {
  static constexpr bool kIsTyped = false;
  static constexpr int kSize = 4;
  using Wide = TheWide;
  /// The elements one after another, as they lie in memory: a load that nothing waits for. None is
  /// wider than Wide.
  struct Pack {
    uint4 vec16s[kSize * sizeof(Wide) / 16] = {};
  };

  ElementType type;
  unsigned size;

  __host__ __device__ explicit Untyped(ElementType of) : type(of), size(size_of(of)) {
  }
  __device__ __forceinline__ unsigned bytes() const {
    return size;
  }
  __device__ __forceinline__ Pack load(const char* at) const {
    Pack pack;
    switch (size) {
      case 1:
        load_as<uint8_t>(at, pack);
        break;
      case 2:
        load_as<uint16_t>(at, pack);
        break;
      case 4:
        load_as<uint32_t>(at, pack);
        break;
      default:
        load_as<typename UnsignedOf<sizeof(Wide)>::type>(at, pack);
    }
    return pack;
  }
  __device__ __forceinline__ void load_one(const char* at, int j, Pack& pack) const {
    switch (size) {
      case 1:
        return load_one_as<uint8_t>(at, j, pack);
      case 2:
        return load_one_as<uint16_t>(at, j, pack);
      case 4:
        return load_one_as<uint32_t>(at, j, pack);
      default:
        return load_one_as<typename UnsignedOf<sizeof(Wide)>::type>(at, j, pack);
    }
  }
  template <int kCount>
  __device__ __forceinline__ void widen(
      const Pack& pack, int first, Wide (&elements)[kCount]) const {
    const auto as = [&](auto tag) {
      using T = typename decltype(tag)::type;
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        const T element = reinterpret_cast<const T*>(&pack)[first + j];
        elements[j] = static_cast<Wide>(Number<T>::wide(element));
      }
    };
    visit(type, as);
  }

 private:
  __host__ __device__ static unsigned size_of(ElementType type) {
    switch (type) {
      case ElementType::kBool:
      case ElementType::kUInt8:
      case ElementType::kInt8:
      case ElementType::kFloat8E4M3:
      case ElementType::kFloat8E5M2:
        return 1;
      case ElementType::kUInt16:
      case ElementType::kInt16:
      case ElementType::kFloat16:
      case ElementType::kBFloat16:
        return 2;
      case ElementType::kUInt32:
      case ElementType::kInt32:
      case ElementType::kFloat32:
        return 4;
      default:
        return 8;
    }
  }
  template <class Bits>
  __device__ __forceinline__ static void load_as(const char* at, Pack& pack) {
    using Word = typename PackWord<kSize* static_cast<int>(sizeof(Bits))>::Type;
    *reinterpret_cast<Word*>(&pack) = load_once(reinterpret_cast<const Word*>(at));
  }
  template <class Bits>
  __device__ __forceinline__ static void load_one_as(const char* at, int j, Pack& pack) {
    reinterpret_cast<Bits*>(&pack)[j] = *reinterpret_cast<const Bits*>(at);
  }
  /// The types that Wide has all numbers of. Others do not come here.
  template <class F>
  __device__ __forceinline__ static void visit(ElementType type, const F& f) {
    switch (type) {
      case ElementType::kFloat16:
        return visit_one<Float16>(f);
      case ElementType::kBFloat16:
        return visit_one<BFloat16>(f);
      case ElementType::kFloat8E4M3:
        return visit_one<Float8E4M3>(f);
      case ElementType::kFloat8E5M2:
        return visit_one<Float8E5M2>(f);
      case ElementType::kFloat32:
        return visit_one<float>(f);
      case ElementType::kFloat64:
        return visit_one<double>(f);
      case ElementType::kBool:
        return visit_one<Boolean>(f);
      case ElementType::kUInt8:
        return visit_one<uint8_t>(f);
      case ElementType::kInt8:
        return visit_one<int8_t>(f);
      case ElementType::kUInt16:
        return visit_one<uint16_t>(f);
      case ElementType::kInt16:
        return visit_one<int16_t>(f);
      case ElementType::kUInt32:
        return visit_one<uint32_t>(f);
      case ElementType::kInt32:
        return visit_one<int32_t>(f);
      case ElementType::kUInt64:
        return visit_one<uint64_t>(f);
      case ElementType::kInt64:
        return visit_one<int64_t>(f);
    }
  }
  template <class T, class F>
  __device__ __forceinline__ static void visit_one(const F& f) {
    constexpr bool kIsFloat = Number<T>::kIsFloat, kHasFloats = Number<Wide>::kIsFloat;
    constexpr bool kFits =
        kHasFloats ? sizeof(Wide) == 8 ? kIsFloat || sizeof(T) < 8 : kIsFloat && sizeof(T) <= 4
                   : !kIsFloat;
    if constexpr (kFits) {
      f(TypeTag<T>{});
    }
  }
};

} // namespace histo::cuda
