// Keys: all that a plan knows about values and their bins.
#pragma once

#include "core/axis.h"
#include "core/problem.h"

namespace histo::cuda {

int64_t element_bytes(ElementType type);

struct Keys {
  int64_t bytes;      // of an element
  int64_t values;     // values below it have a key in a table; others have no bin
  bool keys_are_bins; // a value has the bin of its own number
};

/// The axis is that of one-byte elements, whose raw bytes are counted.
Keys keys_of(const Problem& problem, const ByteAxis& axis);

} // namespace histo::cuda
