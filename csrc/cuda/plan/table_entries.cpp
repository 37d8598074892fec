#include "cuda/plan/table_entries.h"

#include <algorithm>

#include "core/numbers.h"

namespace histo::cuda {
namespace {

/// Raw bytes from this one on have no bin.
int64_t end_of_bytes(const ByteAxis& axis) {
  int64_t end = 256;
  while (end > 1 && axis.bin_of(static_cast<uint8_t>(end - 1)) == kNoBin) {
    --end;
  }
  return end;
}

int64_t values_of(const Problem& problem) {
  switch (problem.type) {
    case ElementType::kInt16:
      return std::min(problem.num_bins, int64_t{1} << 15);
    case ElementType::kUInt16:
      return std::min(problem.num_bins, int64_t{1} << 16);
    default:
      return problem.num_bins;
  }
}

} // namespace

int64_t bytes_of_type(ElementType type) {
  return visit_number_type(
      type, [](auto tag) { return int64_t{sizeof(typename decltype(tag)::type)}; });
}

TableEntries entries_of(const Problem& problem, const ByteAxis& axis) {
  const int64_t bytes = bytes_of_type(problem.type);
  if (bytes > 1) {
    return {bytes, values_of(problem), true};
  }
  const bool are_bins = axis.first == 0 && axis.largest == 255 && axis.log_values_of_bin == 0;
  return {bytes, end_of_bytes(axis), are_bins};
}

} // namespace histo::cuda
