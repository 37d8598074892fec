// Operators that tests/test_operands.py calls: the loops over several operands, and the elements that
// these loops visit.
#include <tuple>
#include <type_traits>
#include <vector>

#include <torch/csrc/stable/library.h>

#include "torch/arguments.h"
#include "torch/memory.h"

namespace histo {
namespace {

using torch::stable::Tensor;

/// Calls f for each channel and row with the position of the element in each operand.
template <class F>
void for_each_element(const View& view, const F& f) {
  for (int64_t c0 = 0; c0 < view.channels[0].size; ++c0) {
    for (int64_t c1 = 0; c1 < view.channels[1].size; ++c1) {
      const int64_t channel = c0 * view.channels[0].stride + c1 * view.channels[1].stride;
      for (int64_t r0 = 0; r0 < view.rows[0].size; ++r0) {
        for (int64_t r1 = 0; r1 < view.rows[1].size; ++r1) {
          for (int64_t r2 = 0; r2 < view.rows[2].size; ++r2) {
            f(channel + r0 * view.rows[0].stride + r1 * view.rows[1].stride +
              r2 * view.rows[2].stride);
          }
        }
      }
    }
  }
}

void append(std::vector<int64_t>& numbers, const Extent& loop) {
  numbers.push_back(loop.size);
  numbers.push_back(loop.stride);
}

/// `shapes`: for each operand its type, the number of its dimensions, their sizes and strides.
/// Returns for each operand its type, the sizes and strides of its two loops over channels and three
/// over rows, the number of the loops of its copy, their sizes and strides.
std::vector<int64_t> loops(std::vector<int64_t> shapes, std::vector<int64_t> kept) {
  std::vector<OperandShape> operands;
  for (auto number = shapes.begin(); number != shapes.end();) {
    OperandShape operand{static_cast<ElementType>(*number++), {}};
    for (int64_t left = *number++; left > 0; --left, number += 2) {
      operand.dimensions.push_back({number[0], number[1]});
    }
    operands.push_back(operand);
  }
  Copies copies;
  const Problem problem = loops_as_problem(operands, kept, 1, copies);
  std::vector<int64_t> numbers;
  for (int k = 0; k < problem.num_operands; ++k) {
    const View& view = problem.operand(k);
    const std::vector<Extent>& copy = copies[static_cast<size_t>(k)];
    numbers.push_back(static_cast<int64_t>(view.type));
    for (const Extent& loop : view.channels) {
      append(numbers, loop);
    }
    for (const Extent& loop : view.rows) {
      append(numbers, loop);
    }
    numbers.push_back(static_cast<int64_t>(copy.size()));
    for (const Extent& loop : copy) {
      append(numbers, loop);
    }
  }
  return numbers;
}

/// The elements of integer tensors as [tensors, channels, rows], in the order of the loops, and the
/// tensors that were read.
std::tuple<Tensor, std::vector<Tensor>> visit(
    std::vector<Tensor> tensors, std::vector<int64_t> kept) {
  const Operands operands = prepare_operands(tensors, kept, 1);
  const Problem& problem = operands.problem;
  Tensor values = allocate(
      tensors[0], {problem.num_operands, problem.num_channels(), problem.num_rows()},
      torch::headeronly::ScalarType::Long, "the elements");
  auto* value = static_cast<int64_t*>(values.mutable_data_ptr());
  for (int k = 0; k < problem.num_operands; ++k) {
    const View& view = problem.operand(k);
    visit_element_type(view.type, [&](auto tag) {
      using T = typename decltype(tag)::type;
      if constexpr (!std::is_same_v<T, Boolean>) {
        for_each_element(view, [&](int64_t position) {
          *value++ = static_cast<int64_t>(static_cast<const T*>(view.data)[position]);
        });
      }
    });
  }
  return {values, operands.tensors};
}

} // namespace
} // namespace histo

STABLE_TORCH_LIBRARY(histo_test, m) {
  m.def("loops(int[] shapes, int[] kept) -> int[]");
  m.def("visit(Tensor[] tensors, int[] kept) -> (Tensor, Tensor[])");
}

STABLE_TORCH_LIBRARY_IMPL(histo_test, CompositeExplicitAutograd, m) {
  m.impl("loops", TORCH_BOX(&histo::loops));
  m.impl("visit", TORCH_BOX(&histo::visit));
}
