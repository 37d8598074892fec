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

  Description description(const char* device) const {
    return {device, dtype, "strided", true, static_cast<int64_t>(sizes.size())};
  }
  std::vector<Extent> dimensions() const;
};

struct DescribedProblem {
  Problem problem; // without data
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

} // namespace histo
