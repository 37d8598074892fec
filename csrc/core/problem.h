// The problem that a kernel is given: plain structs, free of torch and of CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>

namespace histo {

enum class ElementType : uint8_t {
  kBool,
  kUInt8,
  kInt8,
  kUInt16,
  kInt16,
  kUInt32,
  kInt32,
  kUInt64,
  kInt64,
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64,
  kFloat8E4M3,
  kFloat8E5M2,
};

constexpr bool is_integer(ElementType type) {
  return type <= ElementType::kInt64;
}

/// A stored bool: any nonzero byte is true, as in torch. A C++ bool that holds
/// a byte other than 0 and 1 would be undefined behaviour.
struct Boolean {
  uint8_t byte;
};

/// One loop over the input: how many steps, and how many elements apart.
struct Extent {
  int64_t size;
  int64_t stride;
};

/// One operand: the elements that the loops of a problem visit. Outer loops come first; those that
/// a tensor does not need have size 1. Element (c0, c1, r0, r1, r2) is as many elements behind
/// `data` as the sum of each index times its stride. A loop of stride 0 repeats an element: a
/// broadcast.
struct View {
  ElementType type;
  const void* data;
  Extent channels[2];
  Extent rows[3];

  int64_t num_channels() const {
    return channels[0].size * channels[1].size;
  }
  int64_t num_rows() const {
    return rows[0].size * rows[1].size * rows[2].size;
  }
};

/// The most tensors that one problem reads.
constexpr int kMostOperands = 4;

/// Count the elements of `rows[0] x rows[1] x rows[2]` for each channel of
/// `channels[0] x channels[1]`. The loops have the same sizes in all operands, and each operand has
/// strides of its own: one step visits one element of each. The first operand drives the vector
/// loads. A problem of one operand is that view.
struct Problem : View {
  View others[kMostOperands - 1]; // the operands after the first
  int num_operands = 1;
  bool adds = false; // the counts hold numbers, to which those of this call are added
  int64_t num_bins;
  int sum_size =
      1;           // numbers that a bin of the result has: a count, or a sum of weights (weights.h)
  int64_t* counts; // [channels[0], channels[1], num_bins, sum_size], not initialized unless `adds`

  int64_t num_counts() const {
    return num_channels() * num_bins;
  }
  int64_t num_results() const {
    return num_counts() * sum_size;
  }
  const View& operand(int i) const {
    return i == 0 ? *this : others[i - 1];
  }
  View& operand(int i) {
    return i == 0 ? *this : others[i - 1];
  }
};

/// Memory for one call, through PyTorch: released when the call returns, and on
/// a GPU not reused before the stream is past it.
class Allocator {
 public:
  virtual void* operator()(int64_t bytes) = 0;

 protected:
  ~Allocator() = default;
};

/// A mistake of this library, not of its caller.
class InternalError : public std::exception {
 public:
  explicit InternalError(const char* what) : what_(what) {
  }
  const char* what() const noexcept override {
    return what_;
  }

 private:
  const char* what_;
};

constexpr int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

template <class T>
struct TypeTag {
  using type = T;
};

/// The unsigned type of kBytes bytes.
template <size_t kBytes>
struct UnsignedOf;
template <>
struct UnsignedOf<1> {
  using type = uint8_t;
};
template <>
struct UnsignedOf<2> {
  using type = uint16_t;
};
template <>
struct UnsignedOf<4> {
  using type = uint32_t;
};
template <>
struct UnsignedOf<8> {
  using type = uint64_t;
};

/// Calls f(TypeTag<T>{}) with the C++ type of integers.
template <class F>
decltype(auto) visit_element_type(ElementType type, F&& f) {
  switch (type) {
    case ElementType::kBool:
      return f(TypeTag<Boolean>{});
    case ElementType::kUInt8:
      return f(TypeTag<uint8_t>{});
    case ElementType::kInt8:
      return f(TypeTag<int8_t>{});
    case ElementType::kUInt16:
      return f(TypeTag<uint16_t>{});
    case ElementType::kInt16:
      return f(TypeTag<int16_t>{});
    case ElementType::kUInt32:
      return f(TypeTag<uint32_t>{});
    case ElementType::kInt32:
      return f(TypeTag<int32_t>{});
    case ElementType::kUInt64:
      return f(TypeTag<uint64_t>{});
    case ElementType::kInt64:
      return f(TypeTag<int64_t>{});
    default:
      throw InternalError("visit_element_type: not a type of integers");
  }
}

} // namespace histo
