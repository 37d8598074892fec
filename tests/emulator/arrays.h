// The arrays of an operator: those of standard input, its workspace and its results.
#pragma once

#include <cstdlib>
#include <iostream>
#include <vector>

#include "emulator/input.h"
#include "emulator/state.h"

namespace emulated {

using namespace histo;

/// In joint.cpp.
void joint_histogram();
/// In warp_sums.cpp.
void warp_sums();

struct EmulatedWorkspace final : Allocator {
  void* operator()(int64_t bytes) override {
    return emulated::allocate(Kind::kWorkspace, static_cast<size_t>(bytes));
  }
};
inline EmulatedWorkspace workspace;

/// An array of the input: first its place and size, later its bytes.
class Array {
 public:
  Array() : offset_(read<size_t>()), bytes_(read<size_t>()) {
  }
  const uint8_t* data() const {
    return read_into(emulated::allocate(Kind::kInput, bytes_, offset_));
  }
  /// The same in memory that kernels may write, too.
  uint8_t* writable() const {
    uint8_t* data = emulated::allocate(Kind::kCounts, bytes_);
    emulated::fill(data, 0, bytes_);
    return read_into(data);
  }
  size_t bytes() const {
    return bytes_;
  }

 private:
  uint8_t* read_into(uint8_t* data) const {
    std::cin.read(reinterpret_cast<char*>(data), static_cast<std::streamsize>(bytes_));
    if (!std::cin) {
      std::cerr << "the data are cut off\n";
      std::exit(2);
    }
    return data;
  }

  size_t offset_;
  size_t bytes_;
};

/// The arrays follow.
inline void end_of_line() {
  std::cin.get();
}

/// A result, which is written at the end.
class Result {
 public:
  explicit Result(int64_t bytes)
      : bytes_(static_cast<size_t>(bytes)), data_(emulated::allocate(Kind::kCounts, bytes_)) {
  }
  template <class T>
  T* data() const {
    return reinterpret_cast<T*>(data_);
  }
  void write() const {
    std::cout.write(reinterpret_cast<const char*>(data_), static_cast<std::streamsize>(bytes_));
  }

 private:
  size_t bytes_;
  uint8_t* data_;
};

[[noreturn]] inline void refuse_copies() {
  std::cerr << "the strides need a copy\n";
  std::exit(5);
}

inline Problem read_loops() {
  bool copies = false;
  const Problem problem = read_problem(copies);
  if (copies) {
    refuse_copies();
  }
  return problem;
}

/// The operands: for each its type, and the number, sizes and strides of dimensions.
inline Problem read_operands(int count) {
  std::vector<OperandShape> operands;
  for (int d = 0; d < count; ++d) {
    OperandShape operand{read<ElementType>(), {}};
    operand.dimensions.resize(read<size_t>());
    for (Extent& dimension : operand.dimensions) {
      dimension.size = read();
      dimension.stride = read();
    }
    operands.push_back(operand);
  }
  std::vector<int64_t> kept(read<size_t>());
  for (int64_t& dimension : kept) {
    dimension = read();
  }
  Copies copies;
  const Problem problem = loops_as_problem(operands, kept, 1, copies);
  for (const auto& copy : copies) {
    if (!copy.empty()) {
      refuse_copies();
    }
  }
  return problem;
}

} // namespace emulated
