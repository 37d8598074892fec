// Facts about the plan of an input that is described, and need not be there: by name, as JSON.
#pragma once

#include <string>
#include <vector>

#include "core/problem.h"
#include "cpu/plan.h"
#include "torch/arguments.h"

namespace histo {

class Facts {
 public:
  void add(const char* name, int64_t value);
  void add(const char* name, bool value);
  void add(const char* name, const std::string& value);
  void add(const char* name, const char* value);
  void add(const char* name, const std::vector<std::string>& values);
  void add(const char* name, const std::vector<Facts>& values);
  void add(const char* name, const Facts& values);
  std::string json() const;

 private:
  void add_text(const char* name, const std::string& text);
  std::string text_;
};

/// The input of a call.
struct Described {
  std::string dtype;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;

  Description description(const char* device) const {
    return {device, dtype, "strided", true, static_cast<int64_t>(sizes.size())};
  }
};

struct DescribedProblem {
  Problem problem; // without data
  bool copies_input;
  int64_t bytes_read;
  int64_t bytes_of_counts;
  int64_t bytes_spanned; // from the first element to the last; less than bytes_read if elements
                         // share memory

  bool is_empty() const {
    return problem.num_counts() == 0 || problem.num_rows() == 0;
  }
};

/// `op` is the operator that asks; `num_counts` are those of a channel. Facts about the problem are
/// added to `facts`.
DescribedProblem describe_problem(
    const char* op,
    const Described& input,
    const Checked& checked,
    int64_t num_counts,
    Facts& facts);

/// The way of counting on the CPU.
void add_plan(Facts& facts, const Problem& problem, const cpu::CpuPlan& plan);

/// Less is read if elements share memory (torch.Tensor.expand). A copy is written and read again.
void add_bytes(Facts& facts, const DescribedProblem& asked, int64_t bytes_of_gaps);

} // namespace histo
