// What a thread finds of the integers of a channel.
#pragma once

#include <limits>

#include "cuda/summary/digit_table.cuh"

namespace histo::cuda {

template <class T>
class IntegerSums {
  static constexpr bool kIsShort = sizeof(T) <= 2;
  using Wide = typename Number<T>::Wide;
  // What is compared: 32 bits take less time.
  using Value = std::conditional_t<
      sizeof(T) == 8,
      Wide,
      std::conditional_t<std::is_same_v<T, uint32_t>, uint32_t, int32_t>>;
  using Rows = SummaryRows<T>;

 public:
  __device__ __forceinline__ void begin(const DigitTable& table) {
    table_ = table;
  }

  template <int kSize>
  __device__ __forceinline__ void add(const T (&elements)[kSize]) {
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      const auto value = static_cast<Value>(Number<T>::wide(elements[i]));
      low_ = min(low_, value);
      high_ = max(high_, value);
      zeros_ += value == 0 ? 1 : 0;
      add_to_sums(value);
    }
  }
  __device__ __forceinline__ void add(T element) {
    const T one[1] = {element};
    add(one);
  }
  __device__ __forceinline__ void finish() {
    add_scaled(table_, 0, Rows::kSum.lowest, 0, sum_);
    add_scaled(table_, 0, Rows::kSum.lowest, kDigitBits, sum_high_);
#pragma unroll
    for (int i = 0; i < kParts; ++i) {
      table_.add(Rows::kSum.size, Rows::kSquares.lowest, i * kDigitBits, squares_[i], false);
    }
    table_.add(Rows::kZeros, int64_t{zeros_});
  }
  /// The same for all lanes of a warp, which have one channel.
  __device__ __forceinline__ void finish_warp() {
    finish();
  }
  __device__ __forceinline__ unsigned long long low_key() const {
    return low_ <= high_ ? ~key_of(low_) : 0;
  }
  __device__ __forceinline__ unsigned long long high_key() const {
    return low_ <= high_ ? key_of(high_) : 0;
  }

 private:
  static constexpr int kParts = kIsShort ? 1 : sizeof(T) == 4 ? 2 : 4;

  __device__ __forceinline__ static unsigned long long key_of(Value value) {
    const auto bits = static_cast<unsigned long long>(static_cast<Wide>(value));
    return std::is_same_v<Wide, uint64_t> ? bits : bits ^ (1ull << 63);
  }
  __device__ __forceinline__ static bool is_negative(Value value) {
    return std::is_signed_v<Value> && static_cast<int64_t>(value) < 0;
  }
  __device__ __forceinline__ void add_to_sums(Value value) {
    if constexpr (sizeof(T) == 8) { // in parts, which have room for many
      sum_ += static_cast<int64_t>(static_cast<uint64_t>(value) & kDigitMask);
      sum_high_ += static_cast<int64_t>(value >> kDigitBits);
      const auto bits = static_cast<uint64_t>(value);
      const uint64_t magnitude = is_negative(value) ? -bits : bits;
      const uint64_t low = magnitude * magnitude, high = __umul64hi(magnitude, magnitude);
      squares_[0] += low & kDigitMask;
      squares_[1] += low >> kDigitBits;
      squares_[2] += high & kDigitMask;
      squares_[3] += high >> kDigitBits;
    } else {
      sum_ += value;
      const auto bits = static_cast<uint32_t>(value);
      const uint32_t magnitude = is_negative(value) ? -bits : bits;
      const uint64_t square = uint64_t{magnitude} * magnitude;
      squares_[0] += kIsShort ? square : square & kDigitMask;
      if constexpr (!kIsShort) {
        squares_[1] += square >> kDigitBits;
      }
    }
  }

  DigitTable table_;
  int64_t sum_ = 0, sum_high_ = 0;
  uint64_t squares_[kParts] = {};
  uint32_t zeros_ = 0;
  Value low_ = std::numeric_limits<Value>::max();
  Value high_ = std::numeric_limits<Value>::lowest();
};

} // namespace histo::cuda
