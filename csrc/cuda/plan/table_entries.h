// The values of a problem and their bins, as a plan knows them.
#pragma once

#include "core/axis.h"
#include "core/problem.h"

namespace histo::cuda {

int64_t bytes_of_type(ElementType type);

/// A value with counters in a table has an entry there: a byte that of its bits, a wider integer
/// that of its bin.
struct TableEntries {
  int64_t bytes;  // of an element
  int64_t values; // values below it have an entry in a table; others have no bin
  bool are_bins;  // a value has the bin of its own number
};

/// The axis is that of one-byte elements, whose raw bytes are counted.
TableEntries entries_of(const Problem& problem, const ByteAxis& axis);

} // namespace histo::cuda
