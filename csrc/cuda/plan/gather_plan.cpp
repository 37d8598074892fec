#include "cuda/plan/gather_plan.h"

#include <algorithm>
#include <cstdlib>

#include "cuda/plan/channels.h"
#include "cuda/plan/common.h"

namespace histo::cuda {
namespace {

/// The neighbouring channels that a word of up to four bytes holds.
unsigned channels_of_word(const Problem& problem, int64_t element_bytes) {
  const Extent& channels = problem.channels[1];
  int64_t places = address_of(problem) / element_bytes | channels.size;
  for (const Extent& loop :
       {problem.channels[0], problem.rows[0], problem.rows[1], problem.rows[2]}) {
    places |= loop.size > 1 ? loop.stride : 0;
  }
  int64_t size = channels.stride == 1 ? 4 / std::min<int64_t>(element_bytes, 4) : 1;
  while (places % size != 0) {
    size /= 2;
  }
  return static_cast<unsigned>(size);
}

} // namespace

GatherShape gather_shape_of(const Problem& problem) {
  const int64_t element_bytes = bytes_of_type(problem.type);
  GatherShape shape{};
  shape.channels = problem.num_channels();
  shape.step =
      ceil_div(problem.num_rows() * element_bytes, kVec16Bytes) * kVec16Bytes / element_bytes;
  shape.of_word = channels_of_word(problem, element_bytes);
  while (shape.log_words < 5 && shape.of_word << shape.log_words < problem.channels[1].size) {
    ++shape.log_words;
  }
  return shape;
}

std::optional<GatherShape> plan_copy(const Problem& problem) {
  const Extent &batches = problem.channels[0], &channels = problem.channels[1];
  const int64_t gap = std::abs(channels.stride), element_bytes = bytes_of_type(problem.type);
  const bool have_gaps = channels.size > 1 && problem.rows[2].size > 1 && gap > 1 &&
                         gap < std::abs(problem.rows[2].stride) &&
                         (batches.size == 1 || gap < std::abs(batches.stride));
  if (!have_gaps ||
      problem.num_channels() * problem.num_rows() * element_bytes < kLeastBytesToCopy) {
    return std::nullopt;
  }
  const GatherShape shape = gather_shape_of(problem);
  return shape.bytes(element_bytes) <= kMostBytesToCopy ? std::optional(shape) : std::nullopt;
}

Problem problem_of_copy(const Problem& problem, const GatherShape& shape, const void* copy) {
  Problem copied = problem;
  copied.data = copy;
  copied.channels[0] = {1, 0};
  copied.channels[1] = {problem.num_channels(), shape.step};
  copied.rows[0] = copied.rows[1] = {1, 0};
  copied.rows[2] = {problem.num_rows(), 1};
  return copied;
}

} // namespace histo::cuda
