// Facts about the plan of an input that is described, and need not be there: by name, as JSON.
#pragma once

#include <string>
#include <vector>

#include "core/facts.h"
#include "core/problem.h"
#include "torch/arguments.h"

namespace histo {

/// An operand of a call.
struct Described {
  std::string dtype;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t address; // of the first element; if there is none, any one that is aligned alike

  Description description() const {
    return {"cpu", dtype, "strided", true, static_cast<int64_t>(sizes.size())};
  }
  std::vector<Extent> dimensions() const;
  /// The first element, or that of a copy.
  const void* data(bool is_copied) const {
    return reinterpret_cast<const void*>(static_cast<uintptr_t>(is_copied ? 0 : address));
  }
};

struct DescribedProblem {
  Problem problem; // its data must not be read
  bool copies_input;
  int64_t bytes_read;
  int64_t bytes_of_counts;
  int64_t bytes_spanned; // from the first element to the last; less than bytes_read if elements
                         // share memory

  /// `num_counts` are those of a channel.
  DescribedProblem(const Described& input, const Checked& checked, int64_t num_counts);

  bool is_empty() const {
    return problem.num_counts() == 0 || problem.num_rows() == 0;
  }
  /// What is allocated, and the least that moves to and from memory. Less is read if elements share
  /// memory (torch.Tensor.expand). A copy is written and read again.
  Fact memory(int64_t workspace_bytes, int64_t bytes_of_gaps) const;
};

/// The loops that the CPU chooses.
Fact processor();
/// How the CPU counts integers, with the threads that torch has.
Facts values_on_cpu(const DescribedProblem& asked);
/// The same for numbers between edges.
Facts numbers_on_cpu(const DescribedProblem& asked, int64_t num_bins, const Flow& flow);

} // namespace histo
