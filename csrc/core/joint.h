// Joint histograms: each element has several coordinates, and each coordinate an axis of bins. The
// joint bin is (a * n_2 + b) * n_3 + c, where a, b and c are the bins of the axes. An element counts
// where all its coordinates have a bin.
#pragma once

#include <cstdint>

#include "core/edges.h"
#include "core/problem.h"

namespace histo {

/// The most axes of one call of a kernel. The joint bins of more coordinates are made of the joint
/// bins of the first ones: an axis of integers.
constexpr int kMostAxes = 3;

/// The bins of one coordinate.
struct JointAxis {
  int64_t slots; // that count: the bins, and with flow underflow, overflow and NaN
  bool is_index; // an int64 v has slot v, and none if it is not in [0, slots)
  Edges edges;   // of other coordinates
};

/// Operand d of the problem has the coordinates of axis d.
struct JointAxes {
  int count;
  Flow flow;
  JointAxis axes[kMostAxes];

  int64_t num_slots() const {
    int64_t product = 1;
    for (int d = 0; d < count; ++d) {
      product *= axes[d].slots;
    }
    return product;
  }
};

} // namespace histo
