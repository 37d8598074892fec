// Facts about the plan of an input that is described, and need not be there: by name, as JSON.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "problem.h"

namespace histo {

class Facts {
 public:
  void add(const char* name, int64_t value);
  void add(const char* name, bool value);
  void add(const char* name, const std::string& value);
  void add(const char* name, const char* value);
  void add(const char* name, const std::vector<std::string>& values);
  std::string json() const;

 private:
  std::ostream& next(const char* name);
  std::ostringstream text_;
};

/// A call of channel_histogram.
struct Described {
  std::string dtype;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t num_bins;
  std::vector<int64_t> dim;
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

/// `op` is the operator that asks, and `device` the kind of device. Facts about the problem
/// are added to `facts`.
DescribedProblem describe_problem(
    const char* op, const char* device, const Described& input, Facts& facts);

} // namespace histo
