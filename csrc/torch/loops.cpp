// The loops over the elements of one tensor, or of several at once.
#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "torch/arguments.h"

namespace histo {
namespace {

/// One loop, with its stride in each operand.
struct Loop {
  int64_t size;
  int64_t strides[kMostOperands];
};

/// Outer loops come first.
struct Loops {
  std::vector<Loop> channels;
  std::vector<Loop> rows;
};

bool channels_fit(const Loops& loops) {
  return loops.channels.size() <= std::size(Problem{}.channels);
}

bool rows_fit(const Loops& loops) {
  return loops.rows.size() <= std::size(Problem{}.rows);
}

bool fits(const Loops& loops) {
  return channels_fit(loops) && rows_fit(loops);
}

/// Throws unless there are one to four operands, which broadcast to the first one. Dimensions are
/// aligned on the right.
void check_operands(const std::vector<OperandShape>& operands) {
  if (operands.empty() || operands.size() > kMostOperands) {
    throw InternalError("loops_as_problem: a problem has one to four operands");
  }
  const auto& first = operands.front().dimensions;
  for (const OperandShape& operand : operands) {
    const auto& own = operand.dimensions;
    if (own.size() > first.size() ||
        !std::equal(own.rbegin(), own.rend(), first.rbegin(), [](const Extent& a, const Extent& b) {
          return a.size == b.size || a.size == 1;
        })) {
      throw InternalError("loops_as_problem: an operand does not broadcast to the first one");
    }
  }
}

/// The stride of an operand along a dimension of the first one.
int64_t broadcast_stride(const OperandShape& operand, const OperandShape& first, size_t dimension) {
  const size_t behind = first.dimensions.size() - dimension;
  if (behind > operand.dimensions.size()) {
    return 0;
  }
  const Extent& own = operand.dimensions[operand.dimensions.size() - behind];
  return own.size == first.dimensions[dimension].size ? own.stride : 0;
}

/// A loop for each dimension of the first operand.
Loops loops_of(const std::vector<OperandShape>& operands, const std::vector<int64_t>& kept) {
  const OperandShape& first = operands.front();
  Loops loops;
  loops.channels.reserve(kept.size());
  loops.rows.reserve(first.dimensions.size());
  for (size_t d = 0; d < first.dimensions.size(); ++d) {
    Loop loop{first.dimensions[d].size, {}};
    std::transform(
        operands.begin(), operands.end(), loop.strides,
        [&](const OperandShape& operand) { return broadcast_stride(operand, first, d); });
    const bool keep = std::find(kept.begin(), kept.end(), static_cast<int64_t>(d)) != kept.end();
    (keep ? loops.channels : loops.rows).push_back(loop);
  }
  return loops;
}

/// Sorts loops as the first `count` operands lie in memory: by the first one, ties by the others.
void sort_by_strides(std::vector<Loop>& loops, int count) {
  if (loops.size() < 2) {
    return; // stable_sort would allocate memory
  }
  std::stable_sort(loops.begin(), loops.end(), [count](const Loop& a, const Loop& b) {
    for (int k = 0; k < count; ++k) {
      const int64_t of_a = std::abs(a.strides[k]), of_b = std::abs(b.strides[k]);
      if (of_a != of_b) {
        return of_a > of_b;
      }
    }
    return false;
  });
}

/// Merges neighbours that one loop can walk in all of the first `count` operands, and drops loops
/// of one step.
void merge(std::vector<Loop>& loops, int count) {
  auto end = loops.begin(); // of what is left
  for (const Loop& loop : loops) {
    if (loop.size == 1) {
      continue;
    }
    const auto goes_on = [&](const Loop& outer) {
      return std::equal(
          loop.strides, loop.strides + count, outer.strides,
          [&](int64_t inner, int64_t stride) { return stride == loop.size * inner; });
    };
    const bool merges = end != loops.begin() && goes_on(end[-1]);
    const int64_t steps = merges ? (--end)->size : 1;
    *end = loop;
    end->size *= steps;
    ++end;
  }
  loops.erase(end, loops.end());
}

Loops merged(Loops loops, int count) {
  merge(loops.channels, count);
  // Counting has no order, so rows may be walked in any: the order of memory.
  sort_by_strides(loops.rows, count);
  merge(loops.rows, count);
  return loops;
}

/// Gives operand k the strides of a contiguous copy, channels first, whose rows lie in the order of
/// the operands before it. Loops along which it is broadcast stay so unless they are filled.
/// Returns what is copied.
std::vector<Extent> make_contiguous(Loops& loops, int k, bool fill_channels, bool fill_rows) {
  sort_by_strides(loops.rows, k);
  std::vector<Extent> copied;
  int64_t elements = 1;
  const auto lay_out = [&](std::vector<Loop>& part, bool fill) {
    for (auto loop = part.rbegin(); loop != part.rend(); ++loop) {
      int64_t& stride = loop->strides[k];
      if (stride != 0 || fill) {
        copied.push_back({loop->size, stride});
        stride = elements;
        elements *= loop->size;
      }
    }
  };
  lay_out(loops.rows, fill_rows);
  lay_out(loops.channels, fill_channels);
  std::reverse(copied.begin(), copied.end());
  return copied;
}

/// Merges the loops of operands 0 to k. Those before k fit already. If k makes them too many, it is
/// copied, and `loops` become those of the copy.
Loops merged_with(Loops& loops, int k, std::vector<Extent>& copy) {
  Loops together = merged(loops, k + 1);
  if (fits(together)) {
    return together;
  }
  const Loops given = loops;
  copy = make_contiguous(loops, k, k == 0, k == 0);
  together = merged(loops, k + 1);
  if (!fits(together)) {
    // It is broadcast along every other dimension, or nearly so. The copy is expanded over the
    // channels, the rows or both, and merges there as the operands before it do.
    loops = given;
    copy = make_contiguous(loops, k, !channels_fit(together), !rows_fit(together));
    together = merged(loops, k + 1);
  }
  return together;
}

/// Puts the loops into a view. Outer ones that it does not need have one step.
template <size_t kMost>
void put(const std::vector<Loop>& loops, int k, Extent (&to)[kMost]) {
  std::fill(std::begin(to), std::end(to), Extent{1, 0});
  std::transform(
      loops.begin(), loops.end(), std::end(to) - static_cast<ptrdiff_t>(loops.size()),
      [k](const Loop& loop) { return Extent{loop.size, loop.strides[k]}; });
}

int64_t steps_of(const std::vector<Loop>& loops) {
  int64_t steps = 1;
  for (const Loop& loop : loops) {
    steps *= loop.size;
  }
  return steps;
}

} // namespace

Problem loops_as_problem(
    const std::vector<OperandShape>& operands,
    const std::vector<int64_t>& kept,
    int64_t num_bins,
    Copies& copies) {
  check_operands(operands);
  Problem problem{};
  problem.num_operands = static_cast<int>(operands.size());
  problem.num_bins = num_bins;
  Loops loops = loops_of(operands, kept), together;
  const int64_t channels = steps_of(loops.channels);
  if (channels * steps_of(loops.rows) == 0) {
    together = {{{channels, {}}}, {{0, {}}}};
  } else {
    for (int k = 0; k < problem.num_operands; ++k) {
      together = merged_with(loops, k, copies[static_cast<size_t>(k)]);
    }
  }
  for (int k = 0; k < problem.num_operands; ++k) {
    View& view = problem.operand(k);
    view.type = operands[static_cast<size_t>(k)].type;
    put(together.channels, k, view.channels);
    put(together.rows, k, view.rows);
  }
  return problem;
}

} // namespace histo
